"""Ways by which one run might learn of an earlier one: each leaves a trace, looks for it, and prints 6 for none.

A pair is two programs, the first of which leaves what the second looks for.
"""

# Programs stand on one line each.
# ruff: noqa: E501

import base64

from sandbox import client
from sandbox.protocol import Limits, RunRequest, Suite, Verdict

SUITE = Suite(inputs=("3\n",), expected=("6\n",))
LIMITS = Limits(wall_s=3.0, memory_bytes=256 << 20, processes=8)

_SECRET = "words-of-an-earlier-program"
# Looks through all of its own memory for text of another program, as it was or as it travels, and holds that text only
# backwards itself.
_SEARCH = """
import ctypes
backwards = %r
found = 0
for row in open('/proc/self/maps'):
    part = row.split()
    if part[1].startswith('rw') and (len(part) < 6 or part[5] == '[heap]'):
        start, end = (int(x, 16) for x in part[0].split('-'))
        data = ctypes.string_at(start, end - start)
        for text in backwards:
            at = -1
            while (at := data.find(text[:-7:-1], at + 1)) >= 0:
                found += data[at : at + len(text)][::-1] == text
print(6 + found)
""" % [text[::-1] for text in (_SECRET.encode(), base64.b64encode(_SECRET.encode())[:32])]
CHANNELS: dict[str, str | tuple[str, str]] = {
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
    "memory_of_the_interpreter": (f"print({_SECRET!r})", _SEARCH),
    "source_of_an_earlier_program": (f"secret = {_SECRET!r}\nprint(6)", _SEARCH),
    "name_of_the_input": "import os\nprint(6 if os.readlink('/proc/self/fd/0') == '/memfd:input (deleted)' else 7)",
    "age_of_the_input": "import os, time\nprint(6 if abs(os.stat('/tmp').st_mtime - os.fstat(0).st_mtime) < 0.25 else 7)\ntime.sleep(0.3)",
    "timers_of_the_kernel": "import os\nprint(6 + any(map(os.path.exists, ('/proc/uptime', '/proc/timer_list', '/proc/schedstat', '/proc/vmstat'))))",
    "pressure_of_the_host": "import os\nprint(6 + os.path.exists('/proc/pressure'))",
    "marks_on_the_input": "import os\ntry: print(6 + len(os.listxattr(0)))\nexcept OSError: print(6)\ntry: os.setxattr(0, 'user.x', b'x')\nexcept OSError: pass",
    "marks_on_the_program": "import os\ntry: print(6 + len(os.listxattr(__file__)))\nexcept OSError: print(6)\ntry: os.setxattr(__file__, 'user.x', b'x')\nexcept OSError: pass",
    "posix_queues": "import ctypes\nl = ctypes.CDLL('librt.so.1')\nprint(max(l.mq_open(b'/x', 0), -1) + 7)\nl.mq_open(b'/x', 0o102, 0o600, None)",
    "named_semaphores": "import ctypes\nl = ctypes.CDLL(None)\nl.sem_open.restype = ctypes.c_void_p\nprint(6 + (l.sem_open(b'/x', 0) is not None))\nl.sem_open(b'/x', 0o102, 0o600, 1)",
}


def is_closed(sandbox: client.Client, name: str) -> bool:
    """Whether one channel carries nothing, on a client to which SUITE is uploaded.

    A program that has to know what it found the first time has `{0}` in the place of that.
    """

    def run(program: str, seed: int):
        request = RunRequest(program, SUITE.sha256, limits=LIMITS, returns_output=True, seed=seed)
        return sandbox.run(request).results[0]

    way = CHANNELS[name]
    leaves, looks = way if isinstance(way, tuple) else (way, way)
    if "{0}" in looks:
        looks = leaves = looks.format(int(run(looks.format(0), 0).output or 0) - 6)
    run(leaves, 1)
    return run(looks, 2).verdict is Verdict.SUCCESS
