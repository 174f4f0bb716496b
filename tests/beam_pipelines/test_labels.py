"""Both labels present, among Python 3 solutions (paper, stage 2)."""

import pytest

from beam_pipelines.options import BuildOptions
from beam_pipelines.stages import thresholds
from beam_pipelines.stages.labels import require_both_labels
from tests.beam_pipelines import planted

PYTHON2 = "print raw_input()"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"incorrect": ()}, "correct_only"),
        ({"correct": ()}, "incorrect_only"),
        ({"correct": (), "incorrect": ()}, "no_solutions"),
        ({"correct": (PYTHON2,), "incorrect": (PYTHON2,)}, "only_python2"),
        ({"correct": (PYTHON2,)}, "incorrect_only"),
        ({"tests": ()}, "no_original_tests"),
    ],
)
def test_a_problem_without_controls_goes_with_a_reason(parts, reason):
    assert require_both_labels(planted.problem(**parts)).reason == reason


def test_a_build_may_do_without_negative_controls():
    problem = planted.problem(incorrect=())
    assert require_both_labels(problem, min_incorrect=0).correct == problem.correct


def test_gates_are_those_of_the_paper_unless_a_build_moves_them():
    assert thresholds.with_gates(BuildOptions()) == (thresholds.CORRECTNESS, thresholds.OPTIMIZATION)
    moved = BuildOptions(min_correct=2, min_incorrect=0, max_correct_drop=0.5, max_false_positive=0.1)
    correctness, optimization = thresholds.with_gates(moved)
    assert (correctness.min_correct, correctness.min_incorrect, correctness.max_false_positive) == (2, 0, 0.1)
    assert (optimization.min_correct, optimization.min_incorrect, optimization.max_correct_drop) == (1, 0, 0.5)


def test_python_2_programs_are_left_out_and_counted():
    problem = require_both_labels(planted.problem(correct=(*planted.CORRECT_SUMS, PYTHON2)))
    assert [one.program for one in problem.correct] == list(planted.CORRECT_SUMS)
    assert problem.trace[-1].notes == (("python2", 1),)


def test_caps_keep_the_first_tests_and_a_seeded_sample_of_each_label():
    problem = planted.problem(incorrect=(planted.WRONG_ANSWER, planted.WRONG_ON_NEGATIVES))
    capped = require_both_labels(problem, max_solutions=1, max_original_tests=1, seed=3)
    assert (len(capped.correct), len(capped.incorrect), capped.tests) == (1, 1, problem.tests[:1])
    assert require_both_labels(problem, max_solutions=1, max_original_tests=1, seed=3) == capped
    drawn = {require_both_labels(problem, max_solutions=1, seed=seed).correct for seed in range(20)}
    assert len(drawn) > 1
