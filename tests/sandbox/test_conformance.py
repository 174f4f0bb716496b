"""One conformance suite for all backends: what programs may do, what ends them, and what is reported."""

import os
import signal
import time

import pytest

from sandbox import client, protocol
from sandbox.backends import docker, engine
from sandbox.backends.engine_settings import EngineSettings
from sandbox.protocol import Limits, RunRequest, Suite, Verdict
from tests.sandbox.engine import require_docker

MEBIBYTE = 1 << 20
SUITE = Suite(inputs=("3\n", "4\n", "5 6\n"), expected=("6\n", "8\n", "10\n"))
LIMITS = Limits(wall_s=1.0, memory_bytes=512 * MEBIBYTE, output_bytes=MEBIBYTE)
# What is to be ended by the time limit need not have much of it.
SHORT = Limits(wall_s=0.2, memory_bytes=512 * MEBIBYTE, output_bytes=MEBIBYTE)


@pytest.fixture(scope="module", params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request):
    if request.param == "docker":
        require_docker()
    with client.connect(request.param, workers=2) as connected:
        connected.upload(SUITE)
        yield connected


def run(sandbox, program, **options):
    options = {"tests": (0,), "limits": LIMITS} | options
    return sandbox.run(RunRequest(program, SUITE.sha256, **options)).results


DOUBLE = "print(2 * int(input()))"
VERDICTS = {
    "input": (DOUBLE, Verdict.SUCCESS),
    "stdin_buffer": ("import sys\nprint(2 * int(sys.stdin.buffer.read()))", Verdict.SUCCESS),
    "os_read": ("import os\nprint(2 * int(os.read(0, 99)))", Verdict.SUCCESS),
    "open_0": ("print(2 * int(open(0).read()))", Verdict.SUCCESS),
    "main_guard": ("def main():\n    print(6)\nif __name__ == '__main__':\n    main()", Verdict.SUCCESS),
    "at_exit": ("import atexit\natexit.register(lambda: print(6))", Verdict.SUCCESS),
    "at_exit_of_sys_exit": ("import atexit, sys\natexit.register(lambda: print(6))\nsys.exit()", Verdict.SUCCESS),
    "clean_exit": ("import sys\nprint(6)\nsys.exit(0)", Verdict.SUCCESS),
    "thread": ("import threading\nthreading.Thread(target=lambda: print(6)).start()", Verdict.SUCCESS),
    "multiprocessing": (
        "import multiprocessing as m\nif __name__ == '__main__':\n    with m.Pool(2) as p: print(p.map(abs, [-6])[0])",
        Verdict.SUCCESS,
    ),
    "deep_recursion": (
        "import sys\nsys.setrecursionlimit(10**6)\n"
        "def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nprint(f(60000) - 59994)",
        Verdict.SUCCESS,
    ),
    "wrong": ("print(7)", Verdict.WRONG_OUTPUT),
    "silent": ("", Verdict.WRONG_OUTPUT),
    "not_utf8": ("import os\nos.write(1, b'\\xff\\xfe')", Verdict.WRONG_OUTPUT),
    "exit_before_flush": ("import os\nprint(6)\nos._exit(0)", Verdict.WRONG_OUTPUT),
    "closed_stdout": ("import os\nos.close(1)", Verdict.WRONG_OUTPUT),
    "raises": ("raise ValueError", Verdict.RUNTIME_ERROR),
    "exits_3": ("print(6)\nraise SystemExit(3)", Verdict.RUNTIME_ERROR),
    "crash_after_output": ("import os\nprint(6, flush=True)\nos.abort()", Verdict.RUNTIME_ERROR),
    "syntax": ("print(", Verdict.COMPILE_ERROR),
    "nul": ("print(6)\0", Verdict.COMPILE_ERROR),
    "loop": ("while True: pass", Verdict.TIME_LIMIT),
    "sleep": ("import time\ntime.sleep(100)", Verdict.TIME_LIMIT),
    "stops_itself": ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", Verdict.TIME_LIMIT),
    "ignores_sigterm": (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(100)",
        Verdict.TIME_LIMIT,
    ),
    "memory": ("x = bytearray(700 << 20)", Verdict.MEMORY_LIMIT),
    "endless_output": ("while True: print('x' * 1000)", Verdict.OUTPUT_LIMIT),
    "many_processes": (
        "import subprocess, time\nfor _ in range(90): subprocess.Popen(['sleep', '9'])\ntime.sleep(9)",
        Verdict.PROCESS_LIMIT,
    ),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_each_behaviour_has_its_verdict(sandbox, name):
    program, expected = VERDICTS[name]
    (result,) = run(sandbox, program, limits=SHORT if expected is Verdict.TIME_LIMIT else LIMITS)
    assert result.verdict is expected, result


def test_a_time_limited_run_reports_the_limit(sandbox):
    (result,) = run(sandbox, "while True: pass", limits=Limits(wall_s=0.2))
    assert (result.verdict, result.wall_s) == (Verdict.TIME_LIMIT, 0.2)


def test_one_slow_test_leaves_the_others_their_results(sandbox):
    program = "n = input()\nwhile n == '4': pass\nprint(2 * int(n.split()[0]))"
    results = run(sandbox, program, tests=None, limits=Limits(wall_s=0.2))
    assert [r.verdict for r in results] == [Verdict.SUCCESS, Verdict.TIME_LIMIT, Verdict.SUCCESS]


def test_an_early_stop_ends_at_the_first_failure_and_passes_timeouts(sandbox):
    results = run(sandbox, "print(6)", tests=None, stops_early=True)
    assert [(r.test, r.verdict) for r in results] == [(0, Verdict.SUCCESS), (1, Verdict.WRONG_OUTPUT)]
    slow = run(sandbox, "while True: pass", tests=(0, 1), stops_early=True, limits=Limits(wall_s=0.1))
    assert [r.verdict for r in slow] == [Verdict.TIME_LIMIT] * 2


def test_a_program_begins_with_few_pages_of_its_own(sandbox):
    # Each costs time beside the program: 500 when every child made its own surroundings, 290 to 340 since.
    program = "import resource\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)"
    (result,) = run(sandbox, program, returns_output=True)
    assert 0 < int(result.output) < 420


def test_three_hundred_kilobytes_of_output_are_no_timeout():
    suite = Suite(inputs=("300000\n",), expected=("x" * 300_000 + "\n",))
    with client.connect("local", workers=1) as connected:
        request = RunRequest("print('x' * int(input()))", connected.upload(suite), limits=Limits(wall_s=5))
        (result,) = connected.run(request).results
    assert result.verdict is Verdict.SUCCESS
    assert result.wall_s < 1


def test_nothing_outlives_its_test(sandbox):
    marker = "sleep 4321.25"
    program = f"import os\nos.system('setsid {marker} &')\nprint(6)"
    (result,) = run(sandbox, program)
    assert result.verdict is Verdict.SUCCESS
    assert marker not in running_commands()


def running_commands() -> str:
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                found.append(file.read().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(found)


def test_many_double_forks_leave_room_for_the_next_run(sandbox):
    program = (
        "import os\nfor _ in range(60):\n    if os.fork() == 0:\n"
        "        if os.fork() == 0:\n            os._exit(0)\n        os._exit(0)\n    os.wait()\nprint(6)"
    )
    assert run(sandbox, program)[0].verdict is Verdict.SUCCESS
    assert run(sandbox, DOUBLE)[0].verdict is Verdict.SUCCESS


def test_peak_memory_is_of_this_run_alone(sandbox):
    (big,) = run(sandbox, "x = bytearray(200 << 20)\nprint(6)")
    (small,) = run(sandbox, DOUBLE)
    assert big.peak_memory_bytes > 200 * MEBIBYTE
    assert small.peak_memory_bytes < 60 * MEBIBYTE


def test_no_state_passes_from_one_test_or_repeat_to_the_next(sandbox):
    program = (
        "import builtins, os\nn = input()\nseen = hasattr(builtins, 'seen') or os.path.exists('seen')\n"
        "builtins.seen = True\nopen('seen', 'w').write(n)\nprint('stale' if seen else 2 * int(n.split()[0]))"
    )
    results = run(sandbox, program, tests=None, repeats=3)
    assert [r.verdict for r in results] == [Verdict.SUCCESS] * 3
    assert all(r.runs >= 2 for r in results)
    assert sum(r.runs for r in results) <= 9


def test_a_patched_clock_does_not_change_the_duration(sandbox):
    program = "import time\ntime.monotonic = time.time = lambda: 0.0\ntime.sleep(0.2)\nprint(6)"
    (result,) = run(sandbox, program)
    assert result.wall_s >= 0.2


def test_sleeping_costs_wall_time_and_no_cpu_time(sandbox):
    (asleep,) = run(sandbox, "import time\ntime.sleep(0.2)\nprint(6)")
    assert asleep.wall_s >= 0.2
    assert asleep.cpu_s < 0.1


def test_the_estimate_is_the_smallest_of_the_repeats_with_its_spread(sandbox):
    (result,) = run(sandbox, "for _ in range(10**5): pass\nprint(6)", repeats=4)
    assert 2 <= result.runs <= 4
    assert result.wall_std_s > 0


def test_a_lost_runner_is_replaced_and_the_run_reported_once():
    with client.connect("local", workers=1) as connected:
        connected.upload(SUITE)
        assert run(connected, DOUBLE)[0].verdict is Verdict.SUCCESS
        os.kill(connected.service.workers[0]._channel.process.pid, signal.SIGKILL)
        results = run(connected, DOUBLE, tests=(0, 1))
        assert [r.verdict for r in results] == [Verdict.SUCCESS] * 2


def test_a_runner_that_keeps_dying_is_a_fault_and_says_nothing_of_the_program():
    killer = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nimport time\ntime.sleep(9)"
    with client.connect("local", workers=1) as connected:
        connected.upload(SUITE)
        answer = connected.run(RunRequest(killer, SUITE.sha256, limits=LIMITS))
        assert answer.is_faulted
        assert len(answer.results) == 3
        assert run(connected, DOUBLE)[0].verdict is Verdict.SUCCESS


def test_more_workers_than_cores_make_no_false_timeouts():
    program = "import time\nend = time.monotonic() + 0.2\nwhile time.monotonic() < end: pass\nprint(6)"
    with client.connect("local", workers=4) as connected:
        connected.upload(SUITE)
        requests = [RunRequest(program, SUITE.sha256, tests=(0,), seed=n) for n in range(12)]
        assert {a.results[0].verdict for a in connected.run_many(requests)} == {Verdict.SUCCESS}


def test_order_is_kept_and_equal_requests_run_once(sandbox):
    programs = ["print(6)", "print(7)", "print(6)", "raise SystemExit(1)"]
    requests = [RunRequest(program, SUITE.sha256, tests=(0,)) for program in programs]
    seen = []
    answers = sandbox.run_many(requests, on_result=seen.append)
    verdicts = [answer.results[0].verdict for answer in answers]
    assert verdicts == [Verdict.SUCCESS, Verdict.WRONG_OUTPUT, Verdict.SUCCESS, Verdict.RUNTIME_ERROR]
    assert answers[0] is answers[2]
    assert len(seen) == 4


MISTAKES = [
    ({"suite_sha256": "0" * 64}, "suite_sha256"),
    ({"tests": (7,)}, "tests = 7: expected indices below 3"),
    ({"language": "cobol"}, "language = 'cobol'"),
]


@pytest.mark.parametrize(("change", "message"), MISTAKES)
def test_a_callers_mistake_names_the_field(sandbox, change, message):
    request = RunRequest(**({"program": DOUBLE, "suite_sha256": SUITE.sha256} | change))
    with pytest.raises(protocol.InvalidRequestError, match=message):
        sandbox.run(request)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"address": "telnet://x"}, "address"),
        ({"workers": 0}, "workers = 0"),
        ({"reuse": "maybe"}, "reuse = 'maybe'"),
    ],
)
def test_a_wrong_connection_is_refused(options, message):
    with pytest.raises(protocol.InvalidRequestError, match=message):
        client.connect(**options)


def test_closing_ends_every_process_at_once():
    connected = client.connect("local", workers=2)
    connected.upload(SUITE)
    run(connected, DOUBLE)
    pids = [worker._channel.process.pid for worker in connected.service.workers if worker._channel]
    start_s = time.monotonic()
    connected.close()
    assert time.monotonic() - start_s < 5
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("program", [DOUBLE, "print(", "raise ValueError", "while True: pass"])
def test_a_fresh_interpreter_gives_the_same_verdicts(sandbox, program):
    limits = SHORT if program.startswith("while") else LIMITS
    forked, fresh = (run(sandbox, program, language=one, limits=limits) for one in ("python3", "python3_fresh"))
    assert [r.verdict for r in forked] == [r.verdict for r in fresh]


def test_a_fresh_interpreter_knows_nothing_of_the_runner(sandbox):
    program = "import sys\nprint(6 if 'ctypes' not in sys.modules else 7)"
    assert run(sandbox, program, language="python3_fresh")[0].verdict is Verdict.SUCCESS


@pytest.mark.docker
def test_no_engine_and_no_image_are_errors_that_say_what_to_do(monkeypatch):
    require_docker()
    with pytest.raises(engine.DockerUnavailable, match="make sandbox-image"):
        engine.require_image("no-such-image:1")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(engine.DockerUnavailable, match="no Docker engine answers"):
        engine.require_image()


@pytest.mark.docker
def test_a_worker_whose_engine_has_gone_says_what_to_do():
    require_docker()
    where = engine.Engine()
    where.settings = EngineSettings(engine="unix:///nowhere.sock")
    with pytest.raises(engine.DockerUnavailable, match="no Docker engine answers"):
        docker.DockerChannel(where, cpu=None, uid=20_000, image=engine.IMAGE)
