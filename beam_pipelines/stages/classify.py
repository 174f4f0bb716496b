"""Solution-level classification and problem-level gates on the filtered suite (paper L1510-1513).

A correct solution stays if it passes the suite, an incorrect one if it still fails it; then the problem must have lost
few correct solutions and let few incorrect ones through, or it goes as a whole.
"""

import functools

from beam_pipelines.records import Label, Problem, Rejection, with_solutions
from beam_pipelines.stages import verdicts
from beam_pipelines.stages.stage import Stage, counted, reject
from beam_pipelines.stages.thresholds import Thresholds
from optimrl_jax.arrays import TestKind


def name(thresholds: Thresholds) -> str:
    return f"classify_{thresholds.name}"


def stage(thresholds: Thresholds) -> Stage:
    return Stage(name(thresholds), functools.partial(classify, thresholds=thresholds))


def classify(problem: Problem, *, thresholds: Thresholds) -> Problem | Rejection:
    """The problem with the solutions that the filtered suite confirms, or the gate that it does not pass.

    Reasons: `false_positives` (share of the incorrect pool that passes the suite above the limit), `correct_attrition`
    (share of the correct pool that fails it above the limit), `few_correct`, `few_incorrect`.
    """
    stage_name = name(thresholds)
    passing = [_passes(problem, s, thresholds) for s in range(len(problem.solutions))]
    false_positive = _share(problem, Label.INCORRECT, passing) if thresholds.max_false_positive < 1 else 0.0
    drop = 1 - _share(problem, Label.CORRECT, passing)
    if false_positive > thresholds.max_false_positive:
        return reject(problem, stage_name, "false_positives", f"{false_positive:.1%} of incorrect solutions pass")
    if drop > thresholds.max_correct_drop:
        return reject(problem, stage_name, "correct_attrition", f"{drop:.1%} of correct solutions fail")
    left = with_solutions(problem, [s for s in range(len(passing)) if _stays(problem, s, passing[s], thresholds)])
    if len(left.correct) < thresholds.min_correct:
        return reject(problem, stage_name, "few_correct", f"{len(left.correct)} left")
    if len(left.incorrect) < thresholds.min_incorrect:
        return reject(problem, stage_name, "few_incorrect", f"{len(left.incorrect)} left")
    return counted(left, stage_name, correct_drop=drop, false_positive=false_positive)


def _passes(problem: Problem, solution: int, thresholds: Thresholds) -> bool:
    for test, cell in zip(problem.tests, verdicts.column(problem, solution), strict=True):
        is_tolerant = thresholds.timeout_is_success and test.kind == TestKind.OPTIMIZATION
        if not verdicts.passes([cell], allows_timeout=is_tolerant):
            return False
    return True


def _stays(problem: Problem, solution: int, is_passing: bool, thresholds: Thresholds) -> bool:
    if problem.solutions[solution].label is Label.CORRECT:
        return is_passing
    return not (thresholds.reclassifies_incorrect and is_passing)


def _share(problem: Problem, label: Label, passing: list[bool]) -> float:
    """Share of the solutions of a label that pass; 0 for incorrect and 1 for correct ones where there are none."""
    pool = [is_passing for one, is_passing in zip(problem.solutions, passing, strict=True) if one.label is label]
    return sum(pool) / len(pool) if pool else float(label is Label.CORRECT)
