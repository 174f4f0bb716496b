"""Problems whose interactor talks to a program in several passes, in both places where programs run."""

import pytest

from sandbox.protocol import Interactor, InvalidRequestError, JudgeProgram, Limits, RunRequest, Suite, Verdict
from tests.sandbox.notes import FIND, HIDE, INTERACTOR, RIGHT, START, program_of

INPUTS = ("hide 37", "hide 0")
PASSED, WRONG, FAULT = Verdict.SUCCESS, Verdict.WRONG_OUTPUT, Verdict.SANDBOX_FAULT


def judged(connected, program, interactor=INTERACTOR, *, passes=2, inputs=INPUTS, **options):
    partner = Interactor(interactor, "python3", "kattis", passes=passes)
    suite = Suite(inputs, ("the answer",) * len(inputs), interactor=partner)
    return connected.run(RunRequest(program, connected.upload(suite), **options)).results


def test_the_interactor_talks_in_every_pass_and_finds_what_it_kept(sandbox):
    results = judged(sandbox, RIGHT, repeats=2, returns_output=True)
    assert [result.verdict for result in results] == [PASSED, PASSED], results
    assert all(result.runs >= 2 and 0 < result.wall_s == result.cpu_s for result in results)
    assert {result.output for result in results} <= {
        "".join(f"? {bit}\n" for bit in range(7)) + f"! {note}\n" for note in (75, 1)
    } | {"? 0\n! 37\n", "? 0\n! 0\n"}
    assert sandbox.service.counts["lost_workers"] == 0


WAYS = {
    "wrong at first": ("print('!', 37)", FIND, WRONG, "hide: that is the number"),
    "wrong later": (HIDE, "print('!', 1)", WRONG, "find: that is another number"),
    "no number later": (HIDE, "print('! a b')", WRONG, "find: expected ? or ! and a number"),
    "leaves at first": ("pass", FIND, WRONG, "hide: expected ? or ! and a number"),
    "leaves later": (HIDE, "pass", WRONG, "find: expected ? or ! and a number"),
    "never answers at first": ("while True: input()", FIND, Verdict.TIME_LIMIT, "the program, which computed for 0."),
    "never answers later": (HIDE, "while True: input()", Verdict.TIME_LIMIT, "the program, which computed for 0."),
    "computes for too long": (HIDE, "while True: pass", Verdict.TIME_LIMIT, "with a limit of 0.5 s"),
    "dies later": (HIDE, "1 / 0", Verdict.RUNTIME_ERROR, "ZeroDivisionError"),
    "dies after its answer": (f"{HIDE}; raise SystemExit(7)", FIND, Verdict.RUNTIME_ERROR, ""),
    "floods later": (HIDE, "print('?', '0' * 9000)", Verdict.OUTPUT_LIMIT, ""),
}


@pytest.mark.parametrize("name", WAYS)
def test_every_pass_can_fail_in_every_way(sandbox, name):
    at_first, later, verdict, detail = WAYS[name]
    (found,) = judged(
        sandbox, program_of(at_first, later), inputs=INPUTS[:1], limits=Limits(wall_s=0.5, output_bytes=8000)
    )
    assert (found.verdict, found.fault) == (verdict, ""), found
    assert detail in found.detail


def test_limits_hold_for_each_pass_and_seconds_are_those_of_the_longest(sandbox):
    spin = "import time\nuntil_s = time.process_time() + (0.3 if order == 'find' else 0.2)\n"
    program = f"{START}{spin}while time.process_time() < until_s: pass\n{RIGHT.removeprefix(START)}"
    (found,) = judged(sandbox, program, inputs=INPUTS[:1], limits=Limits(wall_s=0.45))
    assert found.verdict is PASSED, found
    assert 0.3 <= found.wall_s < 0.45


# Writes everywhere it can in the first pass; in the second its folder alone is as it was.
REMEMBERS = """
import os, sys
is_first = open(sys.argv[1]).read() == "first"
print("go", flush=True)
assert sys.stdin.read() == "gone\\n"
assert open(sys.argv[2]).read() == "the answer" and not os.path.exists("mine")
open("mine", "w").write("1")
if is_first:
    open(sys.argv[3] + "kept", "w", newline="").write("one\\r\\ntwo é")
    open(sys.argv[3] + "nextpass.in", "w").write("second")
else:
    assert open(sys.argv[3] + "kept", newline="").read() == "one\\r\\ntwo é"
    assert os.listdir(sys.argv[3]) == ["kept"]
sys.exit(42)
"""
FORGETS = """
import os
input()
assert os.listdir() == [], os.listdir()
open("mine", "w").write("1")
print("gone")
"""


def test_the_interactors_folder_stays_and_nothing_else_does(sandbox):
    (found,) = judged(sandbox, FORGETS, REMEMBERS, inputs=("first",))
    assert found.verdict is PASSED, found


FAILING = {
    "raises at first": ("1 / 0", 2, "division"),
    "raises later": ("if is_first: ask()\n1 / 0", 2, "division"),
    "ends otherwise": ("if is_first: ask()\nsys.exit(3)", 2, "3"),
    "dies": ("if is_first: ask()\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)", 2, "137"),
    "spins": ("if is_first: ask()\nwhile True: pass", 2, "limit of time"),
    "asks too often": ("ask()", 3, "it asked for more than 3 passes"),
    "asks and turns down": ("ask(43)", 3, "it turned the output down and wrote nextpass.in"),
    "leaves too much": ("open(sys.argv[3] + 'x', 'w').write('x' * (1 << 20))\nask()", 3, "its feedback is cut short"),
}
ASKING = """
import sys
is_first = open(sys.argv[1]).read() == "first"
def ask(status=42):
    open(sys.argv[3] + "nextpass.in", "w").write("again")
    sys.exit(status)
"""


@pytest.mark.parametrize("name", FAILING)
def test_an_interactor_that_fails_in_any_pass_is_the_problems_fault(sandbox, name):
    source, passes, text = FAILING[name]
    limits = Limits(wall_s=0.5, output_bytes=1 << 20)
    partner = Interactor(ASKING + source, "python3", "kattis", limits=limits, passes=passes)
    suite = Suite(("first",), ("",), interactor=partner)
    (found,) = sandbox.run(RunRequest("print(1)", sandbox.upload(suite))).results
    assert (found.verdict, found.fault) == (FAULT, "problem"), found
    assert "suite.interactor failed on test 0" in found.detail
    assert text in found.detail
    assert sandbox.service.counts["lost_workers"] == 0


def test_who_asks_for_another_pass_of_a_program_that_fails_is_not_to_blame(sandbox):
    (found,) = judged(sandbox, "import sys\nsys.exit(7)", f"{ASKING}ask()", inputs=("first",))
    assert (found.verdict, found.fault) == (Verdict.RUNTIME_ERROR, "")


def test_a_judge_of_several_passes_and_an_interactor_exclude_each_other():
    judge = JudgeProgram("", "python3", "kattis", passes=2)
    with pytest.raises(InvalidRequestError, match=r"suite\.judge\.passes = 2: expected 1 beside an interactor"):
        Suite(("",), ("",), judge=judge, interactor=Interactor("", "python3"))
