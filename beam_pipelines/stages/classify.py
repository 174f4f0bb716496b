"""Solution-level classification and problem-level gates on the filtered suite (App. B.5).

A correct solution stays if it passes the suite, an incorrect one if it still fails it; then the problem must have lost
few correct solutions and let few incorrect ones through, or it goes as a whole.
"""

import dataclasses
import functools

import numpy as np

from beam_pipelines.records import Label, Problem, Rejection, count_stage, rejection_of, with_solutions
from beam_pipelines.sources.own_checkers import accepts_any_answer
from beam_pipelines.stages import verdicts
from beam_pipelines.stages.stage import Stage
from beam_pipelines.stages.thresholds import Thresholds


def classify_stage(thresholds: Thresholds) -> Stage:
    """Make the stage of a round that classifies solutions and gates problems."""
    return Stage(thresholds.stage_name("classify"), functools.partial(classify, thresholds=thresholds))


def classify(problem: Problem, *, thresholds: Thresholds) -> Problem | Rejection:
    """Keep the solutions that the filtered suite confirms, or reject the problem at a gate.

    Shares are taken over the solutions whose executions decide something. Reasons: `false_positives` (the share of
    incorrect solutions that pass the suite is above the limit), `correct_attrition` (the share of correct solutions
    that fail it is above the limit), `needs_checker` (it is, by outputs that differ where several may be right),
    `few_correct`, `few_incorrect`.

    Args:
      problem: with executions on all its tests.
      thresholds: limits of the round.
    """
    stage_name = thresholds.stage_name("classify")
    tolerant = thresholds.timeout_is_success
    passes = verdicts.passes_all_tests(problem, tolerates_timeouts=tolerant)
    # A solution that a fault of the sandbox left undecided is in neither pool: it counts neither for nor against.
    is_decided = passes | verdicts.fails_a_test(problem, tolerates_timeouts=tolerant)
    is_correct = verdicts.is_label(problem, Label.CORRECT)
    drop = 1 - _share(passes[is_correct & is_decided], default=1.0)
    false_positive = _share(passes[~is_correct & is_decided], default=0.0)
    if thresholds.max_false_positive < 1 and false_positive > thresholds.max_false_positive:
        detail = f"{false_positive:.1%} of incorrect solutions pass"
        return rejection_of(problem, stage_name, reason="false_positives", detail=detail)
    if drop > thresholds.max_correct_drop:
        detail = f"{drop:.1%} of correct solutions fail"
        reason = "needs_checker" if needs_checker(problem, thresholds) else "correct_attrition"
        return rejection_of(problem, stage_name, reason=reason, detail=detail)
    is_unconfirmed = (passes | ~is_decided) & thresholds.reclassifies_incorrect
    leaves = np.where(is_correct, ~passes, is_unconfirmed)
    changed = verdicts.review_solutions(problem, leaves & is_decided, stage=stage_name)
    problem = dataclasses.replace(problem, reviews=problem.reviews + changed)
    left = with_solutions(problem, np.flatnonzero(~leaves).tolist())
    if len(left.correct) < thresholds.min_correct:
        return rejection_of(problem, stage_name, reason="few_correct", detail=f"{len(left.correct)} left")
    if len(left.incorrect) < thresholds.min_incorrect:
        return rejection_of(problem, stage_name, reason="few_incorrect", detail=f"{len(left.incorrect)} left")
    undecided = int((leaves & ~is_decided).sum())
    return count_stage(left, stage_name, correct_drop=drop, false_positive=false_positive, undecided=undecided)


def needs_checker(problem: Problem, thresholds: Thresholds) -> bool:
    """Tell whether the correct solutions of a problem differ because several outputs are right.

    They passed the original tests and differ from each other on generated ones by more than the gate allows. That alone
    may be label noise; here the statement accepts any answer too, or no majority of the voting solutions agreed.

    Args:
      problem: with executions on all its tests and the trace of its generation.
      thresholds: limits of the round.
    """
    if problem.is_judged_by_program or verdicts.wrong_output_share(problem) <= thresholds.max_correct_drop:
        return False
    generation = thresholds.stage_name("generate")
    disputed = sum(dict(step.notes).get("disputed", 0) for step in problem.trace if step.stage == generation)
    return disputed > 0 or accepts_any_answer(problem.statement)


def _share(passes: np.ndarray, *, default: float) -> float:
    return float(passes.mean()) if passes.size else default
