"""What a run used is charged to it, whoever reaped it; and what it left behind, the next run cannot see."""

# Programs stand on one line each, and are full of braces.
# ruff: noqa: E501, UP031

import pytest

from sandbox import client
from sandbox.protocol import Limits, RunRequest, Suite, Verdict
from tests.sandbox.engine import require_docker

pytestmark = pytest.mark.docker
SUITE = Suite(inputs=("3\n",), expected=("6\n",))
LIMITS = Limits(wall_s=3.0, memory_bytes=256 << 20, processes=8)
WORK_S = 0.2
# Does the work in a helper that nobody reaps, while the leader spins as {leader} says.
HIDING = (
    """
import os, signal, time
{reaping}
r, w = os.pipe()
if os.fork() == 0:
    {helper}
    start = time.thread_time()
    while time.thread_time() - start < %s: pass
    os.write(w, b"6"); os._exit(0)
os.close(w); os.set_blocking(r, False)
{leader}
while True:
    try:
        if os.read(r, 9): break
    except BlockingIOError: {idle}
print(6)
"""
    % WORK_S
)
REAPING = ("signal.signal(signal.SIGCHLD, signal.SIG_IGN)", "pass")
HELPERS = ("pass", "os.fork() and os._exit(0)", "os.setsid()", "os.nice(1)")
LEADERS = ("os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))", "os.nice(19)", "pass")
IDLES = ("pass", "time.sleep(0.001)", "os.sched_yield()")
HIDERS = [
    HIDING.format(reaping=reaping, helper=helper, leader=leader, idle=idle)
    for reaping in REAPING
    for helper in HELPERS
    for leader, idle in zip(LEADERS, IDLES, strict=True)
] + [
    "import threading, time\n"
    "def f():\n"
    "    start = time.thread_time()\n"
    f"    while time.thread_time() - start < {WORK_S}: pass\n"
    "t = threading.Thread(target=f); t.start(); t.join(); print(6)",
]

# Each leaves a trace in the first run and looks for it in the second: 6 where there is none.
CHANNELS = {
    "files": "import os\nprint(len(os.listdir('/tmp')) + 6)\nopen('/tmp/x', 'w').close()",
    "files_in_memory": "import os\nprint(len(os.listdir('/dev/shm')) + 6)\nopen('/dev/shm/x', 'w').close()",
    "deep_folders": "import os\nprint(len(os.listdir('/dev/shm')) + 6)\nos.chdir('/dev/shm')\n"
    "try:\n    while True: os.mkdir('d'); os.chdir('d')\nexcept OSError: pass",
    "inode_numbers": "import os\nf = os.open('/tmp/x', os.O_CREAT)\nprint(os.fstat(f).st_ino - {0} + 6)\n"
    "for n in range(50): os.mknod(f'/tmp/{{n}}')",
    "process_numbers": "import os\nprint(os.getpid() - {0} + 6)\nfor _ in range(5): os.fork() or os._exit(0)",
    "parents_number": "import os\nprint(os.getppid() - {0} + 6)",
    "shared_memory": "import ctypes\nl = ctypes.CDLL(None)\nprint(max(l.shmget(77, 0, 0), -1) + 7)\nl.shmget(77, 4096, 0o1600)",
    "semaphores": "import ctypes\nl = ctypes.CDLL(None)\nprint(max(l.semget(77, 0, 0), -1) + 7)\nl.semget(77, 1, 0o1600)",
    "queues": "import ctypes\nl = ctypes.CDLL(None)\nprint(max(l.msgget(77, 0), -1) + 7)\nl.msgget(77, 0o1600)",
    "object_numbers": "import ctypes\nprint(ctypes.CDLL(None).shmget(0, 4096, 0o1600) + 6)",
    "access_time_of_the_input": "import os\ns = os.fstat(0)\nprint(6 if s.st_atime <= s.st_mtime else 7)\nos.read(0, 9)",
    "position_of_the_input": "import os\nprint(os.lseek(0, 0, 1) + 6)\nos.read(0, 2)",
    "sockets_of_the_network": "import socket\ntry: socket.socket(); print(7)\nexcept OSError: print(6)",
    "netlink": "import socket\ntry: socket.socket(16, 3); print(7)\nexcept OSError: print(6)",
    "hypervisor_sockets": "import socket\ntry: socket.socket(40, 1); print(7)\nexcept OSError: print(6)",
    "abstract_sockets": "import socket, os\ns = socket.socket(socket.AF_UNIX)\n"
    "try: s.bind('\\0x'); print(6)\nexcept OSError: print(7)\nif os.fork() == 0: os.setsid(); __import__('time').sleep(9)",
    "processor_counters": "import glob\nprint(len(glob.glob('/sys/fs/cgroup/*')) + 6)",
    "counters_of_the_kernel": "import os\nprint(6 + os.path.exists('/proc/stat') + os.path.exists('/proc/loadavg'))",
    "other_processes": "import glob\nprint(len(glob.glob('/proc/[0-9]*')) + 4)",
    "locks_on_files": "import fcntl, sys\nf = open(sys.executable)\n"
    "try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print(6)\nexcept OSError: print(7)\n"
    "import os, time\nif os.fork() == 0: os.setsid(); time.sleep(9)",
    "modules_of_the_interpreter": "import sys, heapq\nprint(6 + hasattr(sys, 'left') + hasattr(heapq, 'left'))\n"
    "sys.left = heapq.left = 1",
    "files_of_the_program": "import os\nprint(len(os.listdir('/program')) + 5)\n"
    "try: open('/program/x', 'w')\nexcept OSError: pass",
    "umask_and_limits": "import os, resource\nprint(6 + (os.umask(0o777) != 0o77))\nresource.setrlimit(0, (1, 1))",
}
OVER = {
    "files_in_memory": (
        "import os\nfor _ in range(26):\n    f = os.memfd_create('x')\n    for _ in range(60): os.write(f, bytes(1 << 20))\nprint(6)",
        {Verdict.MEMORY_LIMIT},
    ),
    "memory_of_daemons": (
        "import os, time\nfor _ in range(5):\n    if os.fork() == 0:\n        if os.fork() == 0: x = b'x' * (200 << 20); time.sleep(2)\n"
        "        os._exit(0)\n    os.wait()\ntime.sleep(1)\nprint(6)",
        {Verdict.MEMORY_LIMIT, Verdict.PROCESS_LIMIT},
    ),
    "number_of_daemons": (
        "import os, time\nwhile True:\n    if os.fork() == 0:\n        os.fork() or time.sleep(5)\n        os._exit(0)\n    os.wait()",
        {Verdict.PROCESS_LIMIT},
    ),
    "empty_files": (
        "import os\nos.chdir('/dev/shm')\nn = 0\nwhile True: os.mknod(hex(n)); n += 1",
        {Verdict.OUTPUT_LIMIT, Verdict.MEMORY_LIMIT},
    ),
    "collisions_while_compiling": (
        "x = {" + ",".join(str(k * (2**61 - 1)) for k in range(1, 6000)) + "}\nprint(6)",
        {Verdict.SUCCESS},
    ),
    "blocks_while_compiling": (
        "".join(f"{'  ' * k}try: pass\n{'  ' * k}finally:\n" for k in range(19)) + "  " * 19 + "print(6)",
        {Verdict.COMPILE_ERROR},
    ),
}


@pytest.fixture(scope="module")
def sandbox():
    require_docker()
    with client.connect("docker", workers=1) as connected:
        connected.upload(SUITE)
        yield connected


@pytest.mark.parametrize("index", range(len(HIDERS)))
def test_hidden_work_is_charged(sandbox, index):
    (found,) = sandbox.run(RunRequest(HIDERS[index], SUITE.sha256, limits=LIMITS)).results
    assert found.verdict is Verdict.SUCCESS, found
    assert found.wall_s >= 0.95 * WORK_S
    assert found.cpu_s >= 0.95 * WORK_S


@pytest.mark.parametrize("name", CHANNELS)
def test_a_run_learns_nothing_of_an_earlier_one(sandbox, name):
    program = CHANNELS[name]
    if "{0}" in program:
        (first,) = sandbox.run(RunRequest(program.format(0), SUITE.sha256, limits=LIMITS, returns_output=True)).results
        program = program.format(int(first.output) - 6)
    answers = [sandbox.run(RunRequest(program, SUITE.sha256, limits=LIMITS, seed=seed)).results[0] for seed in (1, 2)]
    assert [answer.verdict for answer in answers] == [Verdict.SUCCESS] * 2, answers


@pytest.mark.parametrize("name", OVER)
def test_what_a_program_does_to_its_limits_is_its_own_verdict_and_costs_no_worker(sandbox, name):
    program, verdicts = OVER[name]
    lost = sandbox.service.counts["lost_workers"]
    (found,) = sandbox.run(RunRequest(program, SUITE.sha256, limits=LIMITS)).results
    assert found.verdict in verdicts, found
    assert sandbox.service.counts["lost_workers"] == lost
