"""Problems in which a program talks to an interactor: who ends how, whose time counts, and what neither learns."""

import dataclasses

import pytest

from sandbox import client
from sandbox.protocol import (
    Interactor,
    InvalidRequestError,
    JudgeProgram,
    Limits,
    ProblemPrograms,
    RunRequest,
    Suite,
    Verdict,
    from_json,
    suite_judged_by,
    to_json,
)
from tests.sandbox.engine import require_docker

SECRETS = ("500", "1", "999")
# Tells the program whether the secret is smaller, larger or found, for twenty guesses.
GUESS = """
import sys
secret = int(open(sys.argv[1]).read())
assert int(open(sys.argv[3]).read()) == secret
for guess in range(1, 21):
    line = sys.stdin.readline()
    if not line.strip().isdigit():
        sys.exit("expected a number")
    print("<" if secret < int(line) else ">" if secret > int(line) else "=", flush=True)
    if secret == int(line):
        print(guess, file=open(sys.argv[2], "w"))
        sys.exit(0)
print("too many guesses", file=sys.stderr)
sys.exit(1)
"""
HALVING = """
low, high, answer = 1, 1000, ""
while answer != "=":
    middle = (low + high) // 2
    print(middle, flush=True)
    answer = input()
    low, high = (low, middle - 1) if answer == "<" else (middle + 1, high)
"""
ECHO = """
import os, sys
count = int(open(sys.argv[1]).read())
for n in range(count):
    print(n, flush=True)
    if sys.stdin.readline() != f"{n}\\n":
        print("no echo", file=open(sys.argv[3] + "judgemessage.txt", "w"))
        sys.exit(43)
assert os.path.isdir(sys.argv[3]) and sys.argv[4:] == ["flag"]
sys.exit(42)
"""
LIMITS = Limits(wall_s=0.6, memory_bytes=256 << 20, output_bytes=1 << 20)
RIGHT, WRONG, LATE, FAULT = Verdict.SUCCESS, Verdict.WRONG_OUTPUT, Verdict.TIME_LIMIT, Verdict.SANDBOX_FAULT
SUITE = Suite(SECRETS, SECRETS, interactor=Interactor(GUESS, "python3"))


def answers(connected: client.Client, program: str, suite: Suite = SUITE, **options: object) -> list:
    """The results of a program; test 0 alone unless said otherwise."""
    options = {"limits": LIMITS, "tests": (0,)} | options
    return [*connected.run(RunRequest(program, connected.upload(suite), **options)).results]


def verdict(connected: client.Client, program: str, suite: Suite = SUITE, **options: object) -> Verdict:
    return answers(connected, program, suite, **options)[0].verdict


def test_a_right_program_succeeds_on_each_secret_and_its_side_of_the_talk_is_its_output(sandbox):
    results = answers(sandbox, HALVING, tests=None, repeats=3, returns_output=True)
    assert [result.verdict for result in results] == [RIGHT] * 3
    assert results[0].output == "500\n"
    assert results[1].output == "500\n250\n125\n62\n31\n15\n7\n3\n1\n"
    assert all(0 < result.wall_s == result.cpu_s < 0.3 for result in results)


def test_a_wrong_program_gets_what_the_interactor_says_and_is_ended_at_once(sandbox):
    program = "import time\nfor n in range(40): print(n, flush=True)\ntime.sleep(60)"
    (found,) = answers(sandbox, program, limits=Limits(wall_s=60.0))
    assert (found.verdict, found.detail, found.fault) == (WRONG, "too many guesses", "")


ENDS = {
    "both wait": ("input()", LATE),
    "never reads": ("print(1, flush=True)\nwhile True: pass", LATE),
    "leaves at once": ("", WRONG),
    "dies": ("print(1, flush=True)\ninput()\n1 / 0", Verdict.RUNTIME_ERROR),
    "takes memory": ("print(1, flush=True)\nx = b'x' * (256 << 20)", Verdict.MEMORY_LIMIT),
    "closes its output and spins": ("import os\nos.close(1)\nwhile True: pass", WRONG),
    "goes on after the end": (f"{HALVING}\nwhile True: pass", LATE),
    "dies after the end": (f"{HALVING}\nraise SystemExit(7)", Verdict.RUNTIME_ERROR),
    "talks on after the end": (f"{HALVING}\nfor n in range(1000): print(n, flush=True)", RIGHT),
    "reads on after the end": (f"{HALVING}\nimport sys\nassert sys.stdin.read() == ''", RIGHT),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_verdict_is_that_of_whoever_failed_first(sandbox, name):
    program, expected = ENDS[name]
    limits = dataclasses.replace(LIMITS, wall_s=0.3) if expected is LATE else LIMITS
    limits = Limits(wall_s=9.0, memory_bytes=128 << 20) if name == "takes memory" else limits
    (found,) = answers(sandbox, program, limits=limits)
    assert found.verdict is expected, found
    assert sandbox.service.counts["lost_workers"] == 0
    if name == "both wait":
        assert "the program, which computed for 0.0" in found.detail


LISTENER = "import sys\nfor line in sys.stdin: pass\nsys.exit(0)"


def test_a_flood_is_an_output_limit_and_a_flooding_interactor_is_the_problems_fault(sandbox):
    listens = Suite(SECRETS, SECRETS, interactor=Interactor(LISTENER, "python3"))
    assert verdict(sandbox, "while True: print('x' * 10_000)", listens) is Verdict.OUTPUT_LIMIT
    flood = Interactor("while True: print('x' * 10_000)", "python3", limits=Limits(output_bytes=1 << 20))
    floods = Suite(SECRETS, SECRETS, interactor=flood)
    (found,) = answers(sandbox, "while True: input()", floods, limits=Limits(wall_s=20.0))
    assert (found.verdict, found.fault) == (FAULT, "problem")
    assert "suite.interactor failed on test 0: it exceeded its limit of output" in found.detail
    # A program that never reads leaves the flood where it is.
    assert verdict(sandbox, "while True: pass", floods) is LATE


FAILING = {
    "raises": ("raise ValueError('bad')", "bad"),
    "fails": ("import sys\nsys.exit(3)", "the jury has failed"),
    "spins": ("while True: pass", "limit of time"),
    "stays": (f"{LISTENER.replace('sys.exit(0)', '')}\nimport time\ntime.sleep(60)", "limit of time"),
    "takes memory": ("x = b'x' * (512 << 20)", "suite.interactor failed"),
}


@pytest.mark.parametrize("name", FAILING)
def test_an_interactor_that_fails_is_the_problems_fault(sandbox, name):
    source, text = FAILING[name]
    limits = Limits(wall_s=0.3, memory_bytes=128 << 20)
    suite = Suite(SECRETS, SECRETS, interactor=Interactor(source, "python3", limits=limits))
    program = "print(1)" if name == "stays" else "input()"
    (found,) = answers(sandbox, program, suite, limits=Limits(wall_s=20.0))
    assert (found.verdict, found.fault) == (FAULT, "problem")
    assert text in found.detail
    assert sandbox.service.counts["lost_workers"] == 0


def test_ten_thousand_exchanges_by_the_other_convention_cost_the_program_its_own_time_alone(sandbox):
    interactor = Interactor(ECHO, "python3", "kattis", arguments=("flag",))
    suite = Suite(("10000", "10000"), (None, None), interactor=interactor)
    program = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
    (found,) = answers(sandbox, program, suite, limits=Limits(wall_s=60.0, cpu_s=5.0))
    assert found.verdict is RIGHT, found
    assert 0 < found.wall_s < 2.0
    (found,) = answers(sandbox, program.replace("line, end", "line, 1, end"), suite)
    assert (found.verdict, found.detail) == (WRONG, "no echo")


def test_the_interactors_time_is_not_the_programs(sandbox):
    slow = "import time\nwhile time.process_time() < 0.8: pass\n"
    suite = Suite(SECRETS, SECRETS, interactor=Interactor(slow + GUESS, "python3"))
    (found,) = answers(sandbox, HALVING, suite)
    assert found.verdict is RIGHT, found
    assert found.wall_s < 0.3


def test_what_the_interactor_wrote_goes_to_the_judge_of_the_suite(sandbox):
    judge = "import sys\ntext = open(sys.argv[2]).read()\nprint(text, file=sys.stderr)\nsys.exit(int(text) > 5)"
    suite = dataclasses.replace(SUITE, judge=JudgeProgram(judge, "python3"))
    results = answers(sandbox, HALVING, suite, tests=None)
    assert [(result.verdict, result.detail) for result in results] == [(RIGHT, ""), (WRONG, "9"), (WRONG, "9")]


# What a program would need to find the secret: the interactor's files, source, memory, streams, or the runner's.
SEARCH = """
import os, glob
found = []
def look(path):
    try:
        with open(path, "rb") as file: text = file.read(1 << 20)
    except OSError:
        return
    if b"777" + b"123" in text: found.append(path)
    if b"too many" + b" guesses" in text: found.append(path)
for place in ("/interactor", "/inputs", "/tmp", "/dev/shm", "/program"):
    for root, _, names in os.walk(place):
        for name in names: look(f"{root}/{name}")
for process in glob.glob("/proc/[0-9]*"):
    if process != f"/proc/{os.getpid()}":
        for name in ("cmdline", "environ", "mem", "maps", "fd/0", "fd/1", "fd/4", "cwd/input", "root/tmp/input"):
            look(f"{process}/{name}")
for number in range(4, 300):
    try: found.append(os.readlink(f"/proc/self/fd/{number}"))
    except OSError: pass
try:
    os.close(os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)); os.read(1, 1); found.append("its own output")
except OSError: pass
for process in range(1, 200):
    try: os.kill(process, 0)
    except OSError: continue
    if process not in (1, os.getpid()): found.append(f"process {process}")
print("leak " + repr(found) if found else "777" + "123", flush=True)
input()
"""


@pytest.mark.docker
def test_a_program_finds_nothing_of_the_interactor():
    require_docker()
    suite = Suite(("777123",), ("777123",), interactor=Interactor(GUESS, "python3"))
    with client.connect("docker", workers=1) as connected:
        (found,) = answers(connected, SEARCH, suite, returns_output=True)
    assert (found.verdict, found.output) == (RIGHT, "777123\n"), found


@pytest.mark.docker
def test_limits_that_do_not_fit_into_a_container_together_are_the_callers_mistake():
    require_docker()
    with (
        client.connect("docker", workers=1) as connected,
        pytest.raises(
            InvalidRequestError, match=r"limits\.memory_bytes \+ suite\.interactor\.limits\.memory_bytes = .*: expected"
        ),
    ):
        answers(connected, HALVING, limits=Limits(memory_bytes=2 << 30))


def test_mistakes_of_the_caller_name_the_field(sandbox):
    with pytest.raises(InvalidRequestError, match=r"suite\.interactor\.program = .*a program that compiles"):
        answers(sandbox, HALVING, Suite(SECRETS, SECRETS, interactor=Interactor("print(", "python3")))
    with pytest.raises(InvalidRequestError, match=r"suite\.interactor\.language = 'cobol'"):
        answers(sandbox, HALVING, Suite(SECRETS, SECRETS, interactor=Interactor("", "cobol")))


def test_a_suite_with_an_interactor_crosses_the_border_and_excludes_what_cannot_be_beside_it():
    assert from_json(Suite, to_json(SUITE)) == SUITE
    stored = to_json(ProblemPrograms(SUITE.interactor))
    assert suite_judged_by(stored, inputs=SECRETS, expected=SECRETS) == SUITE
    with pytest.raises(InvalidRequestError, match=r"suite\.interactor\.convention = 'dmoj': expected one of testlib"):
        Interactor("", convention="dmoj")
    kattis = Interactor("", "python3", "kattis")
    with pytest.raises(InvalidRequestError, match=r"suite\.judge = .*: expected null beside an interactor"):
        Suite(("",), ("",), judge=JudgeProgram(""), interactor=kattis)
