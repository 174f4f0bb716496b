"""Records stay aligned when tests or solutions leave."""

import dataclasses

import pytest

from beam_pipelines.records import with_solutions, with_tests
from tests.beam_pipelines import planted


def test_executions_follow_tests_and_solutions():
    problem = planted.executed(["STW", "WTS"], kinds=[0, 1], correct=2)
    assert with_tests(problem, [1]).executions == planted.executions(["WTS"])
    left = with_solutions(problem, [0, 2])
    assert [one.id for one in left.solutions] == ["s0", "s2"]
    assert left.executions == planted.executions(["SW", "WS"])


def test_solutions_cannot_leave_after_they_were_timed():
    timed = dataclasses.replace(planted.problem(), timings=planted.timings(2, 6))
    with pytest.raises(ValueError, match="before the timing stage"):
        with_solutions(timed, [0])
    assert with_tests(timed, [1]).timings == planted.timings(1, 6)
