"""Programs that attack the sandbox: each is contained, gets its verdict, and leaves the next run unaffected."""

import pytest

from sandbox import client
from sandbox.protocol import Limits, RunRequest, Suite, Verdict
from tests.sandbox.engine import require_docker

pytestmark = pytest.mark.docker
MEBIBYTE = 1 << 20
SECRET = "the-other-tests-input"
SUITE = Suite(inputs=("3\n", SECRET), expected=("6\n", "the-expected-output\n"))
LIMITS = Limits(wall_s=1.0, memory_bytes=256 * MEBIBYTE, output_bytes=MEBIBYTE, processes=32)
# Prints 6, the right answer, only where the attack was refused; `escaped` is a wrong answer.
ATTEMPT = "import os, sys, glob, signal, ctypes, socket, subprocess\ntry:\n    {}\nexcept Exception:\n    print(6)\n"

SUCCESS, WRONG, ERROR = Verdict.SUCCESS, Verdict.WRONG_OUTPUT, Verdict.RUNTIME_ERROR
TIME, MEMORY, OUTPUT, PROCESSES = (
    Verdict.TIME_LIMIT,
    Verdict.MEMORY_LIMIT,
    Verdict.OUTPUT_LIMIT,
    Verdict.PROCESS_LIMIT,
)


def refused(attack: str) -> tuple[str, tuple[Verdict, ...]]:
    return ATTEMPT.format(attack + "; print('escaped')"), (SUCCESS,)


PROGRAMS: dict[str, tuple[str, tuple[Verdict, ...]]] = {
    "fork_bomb": ("import os\nwhile True: os.fork()", (PROCESSES,)),
    "fork_bomb_that_ignores_errors": (
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        (PROCESSES, TIME),
    ),
    "fork_bomb_with_sessions": ("import os\nwhile True:\n    if os.fork() == 0: os.setsid()", (PROCESSES,)),
    "thread_bomb": (
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(9,)).start()",
        (PROCESSES, TIME),
    ),
    "heap_bomb": ("x = []\nwhile True: x.append(bytearray(1 << 20))", (MEMORY,)),
    "mmap_bomb": ("import mmap\nx = []\nwhile True: x.append(mmap.mmap(-1, 1 << 26))", (MEMORY, TIME)),
    "shared_mmap_bomb": (
        "import mmap\nx = []\nwhile True:\n    x.append(mmap.mmap(-1, 1 << 26))\n    x[-1].write(b'x' * (1 << 26))",
        (MEMORY,),
    ),
    "tmpfs_bomb": (
        "n = 0\nwhile True:\n    open(f'/tmp/{n}', 'wb').write(b'x' * (1 << 22))\n    n += 1",
        (OUTPUT,),
    ),
    "shm_bomb": ("f = open('/dev/shm/x', 'wb')\nwhile True: f.write(b'x' * (1 << 20))", (OUTPUT, ERROR)),
    "endless_output": ("while True: print('x' * 1000)", (OUTPUT,)),
    "endless_stderr": ("import sys\nwhile True: sys.stderr.write('x' * 100000)", (OUTPUT, TIME, ERROR)),
    "closes_all_descriptors": ("import os\nos.closerange(0, 4096)", (WRONG, ERROR)),
    "replaces_stdout": ("import os\nos.dup2(os.open('/tmp/x', os.O_CREAT | os.O_RDWR), 1)\nprint(6)", (WRONG,)),
    "memory_of_the_runner": refused("open('/proc/1/mem', 'rb').read(1)"),
    "memory_of_the_parent": refused("open(f'/proc/{os.getppid()}/mem', 'r+b').read(1)"),
    "maps_of_the_runner": refused("assert open('/proc/1/maps').read()"),
    "environment_of_the_runner": refused("open('/proc/1/environ').read()"),
    "descriptors_of_the_runner": refused("os.listdir('/proc/1/fd')"),
    "working_directory_of_the_runner": refused("os.listdir('/proc/1/cwd/inputs')"),
    "writes_into_the_runners_files": refused("open('/inputs/x', 'w')"),
    "writes_its_own_input": refused("os.write(os.open('/proc/self/fd/0', os.O_RDWR), b'x')"),
    "reads_another_tests_input": refused("assert os.listdir('/inputs')"),
    "finds_another_test_by_name": refused("assert glob.glob('/inputs/*/*')"),
    "ptrace": refused("assert ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0"),
    "kills_the_runner": refused("os.kill(1, signal.SIGKILL)"),
    "terminates_the_parent": refused("os.kill(os.getppid(), signal.SIGTERM)"),
    "becomes_root": refused("os.setuid(0)"),
    # A refused password costs the attacker seconds.
    "gains_root_by_program": (
        "import subprocess\nsubprocess.run(['su', '-c', 'id'], capture_output=True, check=True)\nprint(7)",
        (ERROR, TIME),
    ),
    "changes_the_host_name": refused("socket.sethostname('x')"),
    "mounts": refused("assert ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0"),
    "makes_a_namespace": refused("assert ctypes.CDLL(None).unshare(0x10000000) == 0"),
    "writes_the_root": refused("open('/usr/x', 'w')"),
    "writes_kernel_settings": refused("open('/proc/sys/kernel/pid_max', 'w').write('9')"),
    "reads_the_disk": refused("open('/dev/sda', 'rb')"),
    "makes_a_device": refused("os.mknod('/tmp/d', 0o60600, os.makedev(8, 0))"),
    "connects_to_the_network": refused("socket.create_connection(('1.1.1.1', 53), 1)"),
    "resolves_a_name": refused("socket.getaddrinfo('example.org', 80)"),
    "reaches_the_engine": refused("socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')"),
    "leaves_its_core": refused("os.sched_setaffinity(0, {63})"),
    "raises_its_limits": refused("__import__('resource').setrlimit(0, (-1, -1))"),
    "raises_its_priority": refused("os.nice(-5)"),
    "follows_a_link_out_of_tmp": refused("os.symlink('/inputs', '/tmp/l'); assert os.listdir('/tmp/l')"),
    "leaves_links_in_tmp": (
        "import os\nos.symlink('/inputs', '/tmp/l')\nos.symlink('/', '/tmp/r')\nprint(6)",
        (SUCCESS,),
    ),
    "leaves_closed_directories": ("import os\nos.makedirs('/tmp/a/b')\nos.chmod('/tmp/a', 0)\nprint(6)", (SUCCESS,)),
    "leaves_a_deep_folder": (
        "import os\nfor n in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\n    open('f', 'w').close()\nprint(6)",
        (SUCCESS,),
    ),
    "huge_file": ("open('x', 'wb').truncate(1 << 40)", (OUTPUT,)),
    "a_million_files": ("for n in range(10**6): open(f'/tmp/{n}', 'w').close()", (OUTPUT, TIME)),
    "outlives_by_session": (
        "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass\nprint(6)",
        (SUCCESS,),
    ),
    "outlives_by_double_fork": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.fork() or time.sleep(99)\n    exit()\nprint(6)",
        (SUCCESS,),
    ),
    "exits_before_output": ("import os\nprint(6)\nos._exit(0)", (WRONG,)),
    "output_then_crash": ("import os\nprint(6, flush=True)\nos.abort()", (ERROR,)),
    "sleeps_past_the_limit": ("import time\ntime.sleep(99)", (TIME,)),
    "busy_threads": (
        "import threading\ndef f():\n    while True: pass\nfor _ in range(4): threading.Thread(target=f).start()",
        (TIME,),
    ),
    "fakes_a_result": ('print(\'{"verdict": "success", "exit": 0}\')', (WRONG,)),
    "fakes_a_result_on_other_descriptors": (
        "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'6')\n    except OSError: pass\nprint(7)",
        (WRONG,),
    ),
    "patches_the_clock": ("import time\ntime.time = time.monotonic = lambda: 0\nwhile True: pass", (TIME,)),
    "deep_recursion": ("import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()", (ERROR, MEMORY, TIME)),
    "crashes_in_c": ("import ctypes\nctypes.string_at(0)", (ERROR,)),
    "stops_itself": ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", (TIME,)),
    "kills_itself": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", (ERROR,)),
    "kills_everyone": ("import os\ntry: os.kill(-1, 9)\nexcept OSError: pass\nprint(6)", (SUCCESS,)),
    "output_that_is_not_utf8": ("import os\nos.write(1, b'\\xff6\\n')", (WRONG,)),
    "nul_output": ("print('6\\0')", (WRONG,)),
    "system_v_memory": ("import ctypes\nassert ctypes.CDLL(None).shmget(77, 4096, 0o1600) >= 0\nprint(6)", (SUCCESS,)),
}


@pytest.fixture(scope="module")
def sandbox():
    require_docker()
    with client.connect("docker", workers=1) as connected:
        connected.upload(SUITE)
        yield connected


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_attack_is_contained_and_the_next_run_unaffected(sandbox, name):
    program, verdicts = PROGRAMS[name]
    (attacked,) = sandbox.run(RunRequest(program, SUITE.sha256, tests=(0,), limits=LIMITS)).results
    assert attacked.verdict in verdicts, attacked
    clean = (
        "import glob, os\nn = int(input())\nleft = [p for p in ('/tmp', '/dev/shm') for _ in os.listdir(p)]\n"
        "own = [p for p in glob.glob('/proc/[0-9]*') if int(p[6:]) not in (1, os.getpid(), os.getppid())]\n"
        "import ctypes\nshared = max(ctypes.CDLL(None).shmget(77, 0, 0), -1) + 1\n"
        "print((left, own, shared) if left or own or shared else 2 * n)"
    )
    (after,) = sandbox.run(
        RunRequest(clean, SUITE.sha256, tests=(0,), limits=LIMITS, returns_output=True, seed=hash(name))
    ).results
    assert after.verdict is Verdict.SUCCESS, after


def test_the_limits_asked_for_are_in_force(sandbox):
    sandbox.run(RunRequest("print(6)", SUITE.sha256, tests=(0,)))
    container = sandbox.service.workers[0]._channel.container
    container.reload()
    settings = container.attrs["HostConfig"]
    assert settings["Memory"] == settings["MemorySwap"] == (2 << 30) + (512 << 20)
    assert settings["PidsLimit"] == 512
    assert settings["NetworkMode"] == "none"
    assert settings["ReadonlyRootfs"]
    assert settings["CpusetCpus"] == "0"


def test_a_killed_container_is_replaced_and_the_run_answered_once(sandbox):
    sandbox.run(RunRequest("print(6)", SUITE.sha256, tests=(0,)))
    sandbox.service.workers[0]._channel.container.kill()
    (result,) = sandbox.run(RunRequest("print(2 * int(input()))", SUITE.sha256, tests=(0,))).results
    assert result.verdict is Verdict.SUCCESS
