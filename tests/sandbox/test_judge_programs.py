"""Problems whose outputs a program of their own judges: both conventions, in both places where programs run."""

import os

import pytest

from sandbox import client
from sandbox.inside import languages
from sandbox.protocol import InvalidRequestError, JudgeProgram, Limits, RunRequest, Suite, Verdict, from_json, to_json
from tests.sandbox.engine import require_docker

# Any two numbers with the sum that the input names are right; the answer of the jury is one pair of them.
INPUTS, ANSWERS = ("5\n", "9\n"), ("2 3\n", "4 5\n")
TESTLIB = """
import sys
asked, said, jury = (open(name).read().split() for name in sys.argv[1:4])
assert sum(map(int, jury)) == int(asked[0]), "the jury's answer is wrong"
if len(said) != 2:
    print("expected two numbers", file=sys.stderr)
    sys.exit(2)
sys.exit(0 if sum(map(int, said)) == int(asked[0]) else 1)
"""
KATTIS = """
import os, sys
asked = int(open(sys.argv[1]).read())
assert open(sys.argv[2]).read().split() and os.path.isdir(sys.argv[3]) and sys.argv[4:] == ["extra"]
open(sys.argv[3] + "judgemessage.txt", "w").write("seen")
sys.exit(42 if sum(map(int, sys.stdin.read().split())) == asked else 43)
"""
CPP = """
#include <fstream>
#include <iostream>
int main(int, char **names) {
    std::ifstream input(names[1]), output(names[2]), answer(names[3]);
    long sum, a, b, c;
    if (!(input >> sum) || !(answer >> a >> b) || a + b != sum) return 3;
    if (!(output >> a >> b) || output >> c) { std::cerr << "expected two numbers"; return 2; }
    return a + b == sum ? 0 : 1;
}
"""
PAIR = "n = int(input())\nprint(1, n - 1)"
JUDGES = {
    "testlib in Python": JudgeProgram(TESTLIB, "python3"),
    "kattis in Python": JudgeProgram(KATTIS, "python3", "kattis", arguments=("extra",)),
    "kattis in a fresh Python": JudgeProgram(KATTIS, "python3_fresh", "kattis", arguments=("extra",)),
    "testlib in C++": JudgeProgram(CPP, "cpp"),
}
RIGHT, WRONG, FAULT = Verdict.SUCCESS, Verdict.WRONG_OUTPUT, Verdict.SANDBOX_FAULT


@pytest.fixture(scope="module", params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request):
    if request.param == "docker":
        require_docker()
    with client.connect(request.param, workers=1) as connected:
        yield request.param, connected


def judged(connected: client.Client, judge: JudgeProgram, program: str, answers=ANSWERS, **options: object) -> list:
    sha256 = connected.upload(Suite(INPUTS, answers, judge=judge))
    return [*connected.run(RunRequest(program, sha256, **options)).results]


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_accepts_every_right_output_and_no_wrong_one(sandbox, name):
    place, connected = sandbox
    needs = languages.LANGUAGES[JUDGES[name].language].needs
    if needs and (place == "docker" or not os.access(needs, os.X_OK)):
        pytest.skip(f"{needs} is not in the image, or not here")
    results = judged(connected, JUDGES[name], PAIR, repeats=3)
    assert [result.verdict for result in results] == [RIGHT, RIGHT]
    assert all(0 < result.wall_s < 0.5 for result in results)
    assert [result.verdict for result in judged(connected, JUDGES[name], "print(2, 3)")] == [RIGHT, WRONG]
    assert [r.verdict for r in judged(connected, JUDGES[name], "1 / 0")] == [Verdict.RUNTIME_ERROR] * 2


def test_what_a_judge_says_is_in_the_answer(sandbox):
    (_, second) = judged(sandbox[1], JUDGES["kattis in Python"], "print(2, 3)")
    assert (second.verdict, second.detail) == (WRONG, "seen")
    (first, _) = judged(sandbox[1], JUDGES["testlib in Python"], "print(5)")
    assert (first.verdict, first.detail, first.fault) == (WRONG, "expected two numbers", "")


FAILING = {
    "raises": ("raise ValueError('bad jury')", "bad jury"),
    "fails": ("import sys\nsys.exit(3)", "the jury has failed"),
    "gives points": ("import sys\nsys.exit(7)", "points, which are no verdict"),
    "ends oddly": ("import sys\nsys.exit(99)", "it ended with 99"),
    "takes too long": ("while True: pass", "limit of time"),
    "takes too much": ("x = bytearray(1 << 30)", "suite.judge failed"),
    "is killed": ("import os\nos.kill(os.getpid(), 9)", "suite.judge failed"),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_judge_that_fails_is_the_problems_fault_and_never_a_verdict(sandbox, name):
    program, text = FAILING[name]
    judge = JudgeProgram(program, "python3", limits=Limits(wall_s=0.5, memory_bytes=128 << 20))
    for result in judged(sandbox[1], judge, PAIR):
        assert (result.verdict, result.fault) == (FAULT, "problem")
        assert text in result.detail
        assert f"test {result.test}" in result.detail
    assert sandbox[1].service.counts["lost_workers"] == 0


def test_a_judge_that_does_not_compile_is_the_callers_mistake(sandbox):
    with pytest.raises(InvalidRequestError, match=r"suite\.judge\.program = .*a program that compiles"):
        judged(sandbox[1], JudgeProgram("print(", "python3"), PAIR)


@pytest.mark.parametrize(
    ("change", "text"),
    [({"language": "cobol"}, "suite.judge.language"), ({"files": {"../x": ""}}, "suite.judge.files")],
)
def test_a_judge_that_cannot_run_here_is_refused_with_its_suite(sandbox, change, text):
    with pytest.raises(InvalidRequestError, match=text.replace(".", r"\.")):
        judged(sandbox[1], JudgeProgram(**{"program": "", "language": "python3"} | change), PAIR)


def test_a_suite_with_a_judge_crosses_the_border_and_its_convention_is_checked():
    suite = Suite(INPUTS, ANSWERS, judge=JUDGES["kattis in Python"])
    assert from_json(Suite, to_json(suite)) == suite
    with pytest.raises(InvalidRequestError, match=r"suite\.judge\.convention = 'dmoj': expected one of testlib"):
        JudgeProgram("", convention="dmoj")
