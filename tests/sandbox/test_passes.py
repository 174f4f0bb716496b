"""Problems whose judge lets a program run again on an input of its own, in both places where programs run."""

import pytest

from sandbox.protocol import Interactor, InvalidRequestError, JudgeProgram, Limits, RunRequest, Suite, Verdict
from sandbox.timing.passes import read_folder

# The first pass has to hide a number, and the second one, which sees nothing else, to find it.
HIDING = """
import os, sys
folder, (order, number), said = sys.argv[3], open(sys.argv[1]).read().split(), sys.stdin.read().split()
print("for nobody")
if order == "hide":
    if said == [number]:
        sys.exit(43)
    open(folder + ".state", "w").write(number)
    open(folder + "nextpass.in", "w").write("find " + " ".join(said))
    sys.exit(42)
assert not os.path.exists(folder + "nextpass.in")
open(folder + "judgemessage.txt", "a").write("in the second pass")
sys.exit(42 if said == [open(folder + ".state").read()] else 43)
"""
INSATIABLE = "import sys\nopen(sys.argv[3] + 'nextpass.in', 'w').write('again')\nsys.exit({status})"
START = "order, n = input().split()\nn = int(n)\n"
RIGHT = START + "print(2 * n if order == 'hide' else n // 2)"
INPUTS = ("hide 5\n", "hide 9\n", "hide 0\n")
PASSED, WRONG, FAULT = Verdict.SUCCESS, Verdict.WRONG_OUTPUT, Verdict.SANDBOX_FAULT


def judged(connected, program, *, judge=HIDING, passes=2, inputs=INPUTS[:2], **options):
    suite = Suite(inputs, ("",) * len(inputs), judge=JudgeProgram(judge, "python3", "kattis", passes=passes))
    return connected.run(RunRequest(program, connected.upload(suite), **options)).results


def test_every_pass_is_judged_and_what_the_judge_keeps_is_there_in_the_next(sandbox):
    results = judged(sandbox, RIGHT, inputs=INPUTS, repeats=2)
    # Twice 0 is 0, which hides nothing.
    assert [result.verdict for result in results] == [PASSED, PASSED, WRONG]
    assert all(result.runs >= 2 for result in results[:2])


@pytest.mark.parametrize(
    ("second_pass", "verdict"),
    [
        ("print(n)", WRONG),
        ("1 / 0", Verdict.RUNTIME_ERROR),
        ("while True: pass", Verdict.TIME_LIMIT),
        ("print(n // 2, 'x' * 9000)", Verdict.OUTPUT_LIMIT),
    ],
)
def test_a_later_pass_can_fail_in_every_way(sandbox, second_pass, verdict):
    program = START + f"if order == 'hide':\n    print(2 * n)\nelse:\n    {second_pass}"
    limits = Limits(wall_s=0.5, output_bytes=8000)
    assert [result.verdict for result in judged(sandbox, program, limits=limits)] == [verdict] * 2


def test_limits_hold_for_each_pass_and_seconds_are_those_of_the_longest(sandbox):
    spin = "import time\nuntil_s = time.process_time() + (0.3 if order == 'find' else 0.2)\n"
    program = START + spin + "while time.process_time() < until_s: pass\n" + RIGHT.removeprefix(START)
    (result,) = judged(sandbox, program, inputs=INPUTS[:1], limits=Limits(wall_s=0.45))
    assert result.verdict is PASSED, result
    assert 0.3 <= result.wall_s < 0.45


def test_what_a_judge_says_in_a_later_pass_is_in_the_answer(sandbox):
    (result, _) = judged(sandbox, RIGHT.replace("n // 2", "n"))
    assert (result.verdict, result.detail) == (WRONG, "in the second pass")


@pytest.mark.parametrize(
    ("status", "why"),
    [(42, "it asked for more than 3 passes"), (43, "it turned the output down and wrote nextpass.in")],
)
def test_a_judge_that_asks_where_it_may_not_is_the_problems_fault(sandbox, status, why):
    (result, _) = judged(sandbox, "print(input())", judge=INSATIABLE.format(status=status), passes=3)
    assert (result.verdict, result.fault) == (FAULT, "problem")
    assert why in result.detail


def test_passes_are_for_programs_by_the_convention_that_has_them():
    for kind, convention, passes in (
        (JudgeProgram, "testlib", 2),
        (Interactor, "testlib", 2),
        (JudgeProgram, "kattis", 0),
    ):
        with pytest.raises(InvalidRequestError, match=r"passes = \d: expected a whole number in"):
            kind("", "python3", convention, passes=passes)


@pytest.mark.parametrize(
    ("output", "folder"),
    [
        (b"", {}),
        (b'{"nextpass.in": "1"}', {"nextpass.in": "1"}),
        (b'{"nextpass.in": "1', None),
        (b'["nextpass.in"]', None),
        (b'{"nextpass.in": 1}', None),
        (b"[" * 200_000, None),
        (b"\xff", None),
    ],
)
def test_what_a_judge_prints_in_place_of_its_folder_is_nobodys_error(output, folder):
    assert read_folder(output) == folder
