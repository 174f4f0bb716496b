"""Solution-level classification and problem-level gates on the filtered suite (paper L1510-1513).

A correct solution stays if it passes the suite, an incorrect one if it still fails it; then the problem must have lost
few correct solutions and let few incorrect ones through, or it goes as a whole.
"""

import functools

import numpy as np

from beam_pipelines.records import Label, Problem, Rejection, count_stage, rejection_of, with_solutions
from beam_pipelines.stages import verdicts
from beam_pipelines.stages.stage import Stage
from beam_pipelines.stages.thresholds import Thresholds


def classify_stage(thresholds: Thresholds) -> Stage:
    return Stage(thresholds.stage_name("classify"), functools.partial(classify, thresholds=thresholds))


def classify(problem: Problem, *, thresholds: Thresholds) -> Problem | Rejection:
    """The problem with the solutions that the filtered suite confirms, or the gate that it does not pass.

    Reasons: `false_positives` (share of the incorrect pool that passes the suite above the limit), `correct_attrition`
    (share of the correct pool that fails it above the limit), `few_correct`, `few_incorrect`.
    """
    stage_name = thresholds.stage_name("classify")
    passing = verdicts.passes_all_tests(problem, tolerates_timeouts=thresholds.timeout_is_success)
    false_positive = _share(problem, Label.INCORRECT, passing=passing) if thresholds.max_false_positive < 1 else 0.0
    drop = 1 - _share(problem, Label.CORRECT, passing=passing)
    if false_positive > thresholds.max_false_positive:
        return rejection_of(
            problem, stage_name, reason="false_positives", detail=f"{false_positive:.1%} of incorrect solutions pass"
        )
    if drop > thresholds.max_correct_drop:
        return rejection_of(
            problem, stage_name, reason="correct_attrition", detail=f"{drop:.1%} of correct solutions fail"
        )
    is_correct = verdicts.is_label(problem, Label.CORRECT)
    leaves = (is_correct & ~passing) | (~is_correct & passing & thresholds.reclassifies_incorrect)
    left = with_solutions(problem, np.flatnonzero(~leaves))
    if len(left.correct) < thresholds.min_correct:
        return rejection_of(problem, stage_name, reason="few_correct", detail=f"{len(left.correct)} left")
    if len(left.incorrect) < thresholds.min_incorrect:
        return rejection_of(problem, stage_name, reason="few_incorrect", detail=f"{len(left.incorrect)} left")
    return count_stage(left, stage_name, correct_drop=drop, false_positive=false_positive)


def _share(problem: Problem, label: Label, *, passing: np.ndarray) -> float:
    """Share of the solutions of a label that pass; 0 for incorrect and 1 for correct ones where there are none."""
    pool = passing[verdicts.is_label(problem, label)]
    return float(pool.mean()) if pool.size else float(label is Label.CORRECT)
