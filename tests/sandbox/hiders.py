"""Programs that hide their work from a clock: helpers that nobody reaps, leaders that give way, threads and daemons.

Each uses WORK_S processor seconds outside its first thread, in one way of each of four lists, and prints 6.
"""

import itertools

WORK_S = 0.2
_PROGRAM = """
import os, signal, time
{reaping}
r, w = os.pipe()
if os.fork() == 0:
    {helper}
    start = time.thread_time()
    while time.thread_time() - start < WORK_S: pass
    os.write(w, b"6"); os._exit(0)
os.close(w); os.set_blocking(r, False)
{leader}
while True:
    try:
        if os.read(r, 9): break
    except BlockingIOError: {idle}
print(6)
""".replace("WORK_S", str(WORK_S))
_REAPING = ("signal.signal(signal.SIGCHLD, signal.SIG_IGN)", "pass")
_HELPERS = ("pass", "os.fork() and os._exit(0)", "os.setsid()", "os.nice(1)")
_LEADERS = (
    ("os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))", "pass"),
    ("os.nice(19)", "time.sleep(0.001)"),
    ("pass", "os.sched_yield()"),
)
_THREAD = f"""
import threading, time
def work():
    start = time.thread_time()
    while time.thread_time() - start < {WORK_S}: pass
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(6)
"""
_BY_PARTS = f"""
import os, time
for _ in range(10):
    if os.fork() == 0:
        start = time.thread_time()
        while time.thread_time() - start < {WORK_S / 10}: pass
        os._exit(0)
    os.wait()
print(6)
"""
HIDERS = [
    _PROGRAM.format(reaping=reaping, helper=helper, leader=leader, idle=idle)
    for reaping, helper, (leader, idle) in itertools.product(_REAPING, _HELPERS, _LEADERS)
] + [_THREAD, _BY_PARTS]
