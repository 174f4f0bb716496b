"""Records stay aligned when tests or solutions leave."""

import dataclasses

import pytest

from beam_pipelines.records import Timing, with_solutions, with_tests
from tests.beam_pipelines import planted


def test_executions_follow_tests_and_solutions():
    problem = planted.executed(["STW", "WTS"], kinds=[0, 1], correct=2)
    assert [cell.verdict for cell in with_tests(problem, [1]).executions[0]] == [
        "wrong_output",
        "time_limit",
        "success",
    ]
    left = with_solutions(problem, [0, 2])
    assert [one.id for one in left.solutions] == ["s0", "s2"]
    assert [[cell.verdict for cell in row] for row in left.executions] == [
        ["success", "wrong_output"],
        ["wrong_output", "success"],
    ]


def test_solutions_cannot_leave_after_they_were_timed():
    timed = dataclasses.replace(planted.problem(), timings=((Timing(0.1, 0.0, 1, 0),) * 6,) * 2)
    with pytest.raises(ValueError, match="before the timing stage"):
        with_solutions(timed, [0])
    assert len(with_tests(timed, [1]).timings) == 1
