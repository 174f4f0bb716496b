"""Solution-level classification and problem-level gates (App. B.5)."""

from beam_pipelines.records import Label, Problem, Rejection
from beam_pipelines.stages.classify import classify
from beam_pipelines.stages.thresholds import CORRECTNESS, OPTIMIZATION
from tests.beam_pipelines import planted

ADDED, OPTIMIZING = 1, 2


def test_correct_solutions_stay_if_they_pass_and_incorrect_ones_if_they_fail():
    # Eight correct, one fails (12.5 %); 25 incorrect, one passes (4 %): both shares are within their limits.
    row = "S" * 7 + "W" + "W" * 24 + "S"
    left = classify(planted.executed([row], kinds=[ADDED], correct=8), thresholds=CORRECTNESS)
    assert isinstance(left, Problem)
    assert [s.id for s in left.correct] == [f"s{n}" for n in range(7)]
    assert [s.id for s in left.incorrect] == [f"s{n}" for n in range(8, 32)]
    assert left.executions.verdict.shape == (1, 31)


def test_a_problem_that_lets_more_than_one_incorrect_solution_in_twenty_through_goes():
    outcome = classify(planted.executed(["S" * 6 + "W" * 18 + "S"], kinds=[ADDED], correct=6), thresholds=CORRECTNESS)
    assert isinstance(outcome, Rejection)
    assert outcome.reason == "false_positives"
    exactly_five_percent = planted.executed(["S" * 6 + "W" * 19 + "S"], kinds=[ADDED], correct=6)
    assert isinstance(classify(exactly_five_percent, thresholds=CORRECTNESS), Problem)


def test_a_problem_that_loses_more_than_a_quarter_of_its_correct_solutions_goes():
    lost_a_quarter = planted.executed(["S" * 6 + "WW" + "W"], kinds=[ADDED], correct=8)
    assert isinstance(classify(lost_a_quarter, thresholds=CORRECTNESS), Problem)
    lost_more = planted.executed(["S" * 5 + "WW" + "W"], kinds=[ADDED], correct=7)
    assert classify(lost_more, thresholds=CORRECTNESS).reason == "correct_attrition"


def test_the_correctness_round_wants_five_correct_solutions_and_the_optimization_round_one():
    four = planted.executed(["SSSSW"], kinds=[ADDED], correct=4)
    assert classify(four, thresholds=CORRECTNESS).reason == "few_correct"
    assert isinstance(classify(four, thresholds=OPTIMIZATION), Problem)


def test_a_timeout_fails_a_correctness_test_and_passes_an_optimization_test():
    added = planted.executed(["SSSSSSTW"], kinds=[ADDED], correct=7)
    assert len(classify(added, thresholds=CORRECTNESS).correct) == 6
    optimizing = planted.executed(["SSSSSSTW"], kinds=[OPTIMIZING], correct=7)
    assert len(classify(optimizing, thresholds=OPTIMIZATION).correct) == 7


def test_the_optimization_round_keeps_all_incorrect_solutions():
    problem = planted.executed(["SSSS..", "SSSSWS"], kinds=[OPTIMIZING, ADDED], correct=4)
    left = classify(problem, thresholds=OPTIMIZATION)
    assert [s.label for s in left.solutions].count(Label.INCORRECT) == 2


def test_a_solution_that_a_fault_left_undecided_is_not_confirmed():
    left = classify(planted.executed(["SSSSSXW"], kinds=[ADDED], correct=6), thresholds=CORRECTNESS)
    assert len(left.correct) == 5


def test_faults_of_the_sandbox_count_neither_as_attrition_nor_as_a_confirmed_control():
    # Two of seven correct solutions are undecided: none of the decided ones is lost.
    left = classify(planted.executed(["SSSSSXXW"], kinds=[ADDED], correct=7), thresholds=CORRECTNESS)
    assert isinstance(left, Problem)
    assert len(left.correct) == 5
    # The only control passes what decides anything and faults on the rest: it is confirmed by nothing.
    controls = planted.executed(["SSSSSS", "SSSSSX"], kinds=[0, ADDED], correct=5)
    assert classify(controls, thresholds=CORRECTNESS).reason == "few_incorrect"


def test_a_fault_does_not_save_a_solution_that_fails_elsewhere():
    problem = planted.executed(["SSSSSXW", "SSSSSWW"], kinds=[ADDED, ADDED], correct=6)
    assert len(classify(problem, thresholds=CORRECTNESS).correct) == 5
