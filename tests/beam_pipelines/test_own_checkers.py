"""Problems with several right outputs: programs that judge them, and how such problems are known without one."""

import dataclasses
import json

import pytest

from beam_pipelines.generators.agreement import find_agreement
from beam_pipelines.records import Test
from beam_pipelines.sandbox_session import Connection, SandboxSession
from beam_pipelines.sources.own_checkers import accepts_any_answer, add_checker, read_checkers
from beam_pipelines.stages.classify import classify
from beam_pipelines.stages.thresholds import CORRECTNESS
from optimrl_jax.jobs.errors import UserError
from sandbox.protocol import Interactor, JudgeProgram, ProblemPrograms, from_json, to_json
from tests.beam_pipelines import planted
from tests.beam_pipelines.faults import ANY_PLACE, FIRST_LARGEST, LAST_LARGEST, POSITION_JUDGE

JUDGE = to_json(JudgeProgram(POSITION_JUDGE, "python3"))
# Says whether a guess is too small or too large, until it is right.
INTERACTOR = """import sys
secret = int(open(sys.argv[1]).read())
for line in sys.stdin:
    print("<" if secret < int(line) else ">" if secret > int(line) else "=", flush=True)
    if int(line) == secret:
        sys.exit(0)
sys.exit(1)
"""
HALVING = """low, high, said = 1, 100, ""
while said != "=":
    guess = (low + high) // 2
    print(guess, flush=True)
    said = input()
    low, high = (low, guess - 1) if said == "<" else (guess + 1, high)
"""
COUNTING = "guess = 1\nprint(guess, flush=True)\nwhile input() != '=':\n    guess += 1\n    print(guess, flush=True)\n"
GIVING_UP = "print(50, flush=True)\ninput()\n"
ALWAYS_LAST = "n = int(input())\nprint(n - 1)\n"


@pytest.mark.parametrize(
    ("statement", "accepts"),
    [
        ("If there are several possible answers, you may print any of them.", True),
        ("Otherwise, print any suitable value of d.", True),
        ("If there are multiple such integers, output any.", True),
        ("You can print the pairs in any order.", True),
        ("Sort the array using no more than n shifts of any of its segments.", False),
        ("If there are several equal minima, Yelisey can choose any of them.", False),
        ("Print the number of days.", False),
    ],
)
def test_a_statement_says_whether_any_answer_is_right(statement, accepts):
    assert accepts_any_answer(statement) is accepts


def test_disagreement_is_told_from_attrition_by_the_statement_or_by_the_vote():
    problem = planted.executed(["SSSSSWWWW"], kinds=[1], correct=8)
    assert classify(problem, thresholds=CORRECTNESS).reason == "correct_attrition"
    asked = dataclasses.replace(problem, statement=f"{ANY_PLACE} If there are several, print any of them.")
    rejection = classify(asked, thresholds=CORRECTNESS)
    assert (rejection.reason, rejection.detail) == ("needs_checker", "37.5% of correct solutions fail")
    crashing = dataclasses.replace(asked, executions=planted.executions(["SSSSSRRRW"]))
    assert classify(crashing, thresholds=CORRECTNESS).reason == "correct_attrition"


def test_a_file_gives_a_problem_its_program(tmp_path):
    path = tmp_path / "checkers.json"
    path.write_text(json.dumps({"sum": {"program": POSITION_JUDGE, "language": "python3"}}))
    judged = add_checker(planted.problem(), read_checkers(str(path)))
    assert judged.is_judged_by_program
    assert from_json(JudgeProgram, judged.checker).program == POSITION_JUDGE
    assert add_checker(planted.problem("other"), read_checkers(str(path))).checker == "lines"


@pytest.mark.parametrize("text", ["[", "[]", '{"sum": "print(1)"}', '{"sum": {"source": ""}}'])
def test_a_file_of_another_shape_is_one_line(tmp_path, text):
    path = tmp_path / "checkers.json"
    path.write_text(text)
    with pytest.raises(UserError, match="a JSON object of judging programs by problem"):
        read_checkers(str(path))


@pytest.mark.parametrize(
    ("programs", "agreeing"),
    [
        ((FIRST_LARGEST, LAST_LARGEST), (0, 1)),
        ((FIRST_LARGEST, LAST_LARGEST, "1 / 0"), (0, 1)),
        ((FIRST_LARGEST, LAST_LARGEST, ALWAYS_LAST), None),
        ((FIRST_LARGEST, "1 / 0"), None),
    ],
)
def test_the_judge_has_to_accept_all_solutions_that_end(tmp_path, programs, agreeing):
    problem = planted.problem(correct=programs, incorrect=(), checker=JUDGE)
    connection = Connection("local", workers=1, store="", limit_s=5.0, memory_bytes=1 << 28)
    session = SandboxSession(connection)
    candidates = [Test(1, "4\n7 1 7 2\n", None), Test(1, "2\n1 1\n", None)]
    try:
        found = find_agreement(problem, session, pool=range(len(programs)), candidates=candidates)
    finally:
        session.close()
    assert (found and found.agreeing) == agreeing
    if found:
        assert [test.output for test in found.tests] == ["0\n", "0\n"]


@pytest.mark.parametrize(("programs", "agreeing"), [((HALVING, COUNTING), (0, 1)), ((HALVING, GIVING_UP), None)])
def test_an_interactor_has_to_accept_all_solutions(programs, agreeing):
    checker = to_json(ProblemPrograms(Interactor(INTERACTOR, "python3")))
    problem = planted.problem(correct=programs, incorrect=(), checker=checker)
    session = SandboxSession(Connection("local", workers=1, store="", limit_s=5.0, memory_bytes=1 << 28))
    try:
        found = find_agreement(problem, session, pool=[0, 1], candidates=[Test(1, "7\n", None), Test(1, "93\n", None)])
    finally:
        session.close()
    assert (found and found.agreeing) == agreeing
    assert found is None or [test.output for test in found.tests] == ["", ""]
