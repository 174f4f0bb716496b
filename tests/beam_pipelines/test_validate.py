"""Labels after the original tests were run: what is confirmed, what is undecided, what controls nothing."""

from beam_pipelines.records import Problem
from beam_pipelines.stages.validate import confirm_labels
from tests.beam_pipelines import planted


def confirm(rows, *, correct):
    problem = planted.executed(rows, kinds=[0] * len(rows), correct=correct)
    return confirm_labels(problem, min_correct=2, min_incorrect=1)


def test_correct_solutions_that_fail_leave_and_incorrect_ones_stay_whatever_they_did():
    left = confirm(["SSWWS", "SSS.S"], correct=3)
    assert [one.id for one in left.correct] == ["s0", "s1"]
    assert [one.id for one in left.incorrect] == ["s3", "s4"]
    assert dict(left.trace[-1].notes)["incorrect_passing"] == 1


def test_a_fault_confirms_nobody_and_turns_nobody_down():
    left = confirm(["SSXXW"], correct=3)
    assert [one.id for one in left.solutions] == ["s0", "s1", "s4"]


def test_a_program_that_does_not_compile_is_no_negative_control():
    left = confirm(["SSCW"], correct=2)
    assert [one.id for one in left.incorrect] == ["s3"]
    assert dict(left.trace[-1].notes)["incorrect_not_compiling"] == 1
    gone = confirm(["SSC"], correct=2)
    assert not isinstance(gone, Problem)
    assert (gone.reason, gone.detail) == ("no_incorrect_left", "1 incorrect solutions do not compile")
