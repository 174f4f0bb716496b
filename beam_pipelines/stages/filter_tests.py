"""Test-level filters: generated tests that time out or fail too many verified-correct solutions go (App. B.5).

Original tests are never removed. Two filters run one after the other, each with its own threshold and its own cap;
where more tests offend than the cap allows, the worst go first.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping

import numpy as np

from beam_pipelines.records import Problem, count_stage, with_tests
from beam_pipelines.stages import verdicts
from beam_pipelines.stages.stage import Stage
from beam_pipelines.stages.thresholds import Thresholds


def filter_tests_stage(thresholds: Thresholds) -> Stage:
    """Make the stage of a round that removes generated tests."""
    return Stage(thresholds.stage_name("filter_tests"), functools.partial(filter_tests, thresholds=thresholds))


def filter_tests(problem: Problem, *, thresholds: Thresholds) -> Problem:
    """Remove the generated tests that either filter finds unsound; never rejects.

    The failure filter sees what the timeout filter leaves. The trace keeps what each filter does alone and what both
    do, as pass rates of correct and incorrect solutions and as counts of execution statuses on the generated tests; the
    removed tests are kept for review.

    Args:
      problem: with executions on all its tests.
      thresholds: limits and caps of the round, and the kind of tests that it may remove.
    """
    stage = thresholds.stage_name("filter_tests")
    timeouts = _timeout_tests(problem, thresholds)
    after_timeouts = without_tests(problem, timeouts)
    failures = _failure_tests(after_timeouts, thresholds)
    left = without_tests(after_timeouts, failures)
    failures_alone = without_tests(problem, _failure_tests(problem, thresholds))
    notes: dict[str, float] = {"removed_timeout": len(timeouts), "removed_failure": len(failures)}
    for when, one in (("timeout_filter", after_timeouts), ("failure_filter", failures_alone), ("filtered", left)):
        notes |= verdicts.solution_pass_rates(one, when=when)
    for when, one in (("generated", problem), ("timeout_filter", after_timeouts), ("filtered", left)):
        notes |= verdicts.count_statuses(one, thresholds.kind, when=when)
    removed = verdicts.review_tests(problem, timeouts, stage=stage, reason="timeouts")
    removed += verdicts.review_tests(after_timeouts, failures, stage=stage, reason="failures")
    return count_stage(dataclasses.replace(left, reviews=problem.reviews + removed), stage, **notes)


def _timeout_tests(problem: Problem, thresholds: Thresholds) -> tuple[int, ...]:
    shares = timeout_shares(problem, thresholds)
    return worst_tests(shares, threshold=thresholds.timeout_share, cap=thresholds.timeout_removal_cap)


def _failure_tests(problem: Problem, thresholds: Thresholds) -> tuple[int, ...]:
    shares = failure_shares(problem, thresholds)
    return worst_tests(shares, threshold=thresholds.failure_share, cap=thresholds.failure_removal_cap)


def timeout_shares(problem: Problem, thresholds: Thresholds) -> dict[int, float]:
    """Return the share of correct solutions that time out on each test of the round.

    Args:
      problem: with executions.
      thresholds: of the round; they name its kind of tests.

    Returns:
      Index of the test -> share, in [0, 1].
    """
    return _shares(problem, thresholds, events=verdicts.is_timeout(problem.executed))


def failure_shares(problem: Problem, thresholds: Thresholds) -> dict[int, float]:
    """Return the share of correct solutions that crash or answer wrongly on each test of the round.

    Args:
      problem: with executions; syntax errors do not count.
      thresholds: of the round; they name its kind of tests.

    Returns:
      Index of the test -> share, in [0, 1].
    """
    return _shares(problem, thresholds, events=verdicts.is_failure(problem.executed))


def worst_tests(share_of_test: Mapping[int, float], *, threshold: float, cap: float) -> tuple[int, ...]:
    """Pick the tests whose share exceeds the threshold, worst first, as far as the cap allows.

    Args:
      share_of_test: index of a test -> share, in [0, 1].
      threshold: exceeded strictly.
      cap: at most floor(cap x tests) are picked.

    Returns:
      Indices of tests; equal shares in order of index.
    """
    offending = [test for test, share in share_of_test.items() if share > threshold]
    offending.sort(key=lambda test: (-share_of_test[test], test))
    # Products such as 0.29 x 100 fall just short of a whole number in floating point.
    return tuple(offending[: math.floor(cap * len(share_of_test) + 1e-9)])


def without_tests(problem: Problem, removed: tuple[int, ...]) -> Problem:
    """Drop the tests of the given indices, with their executions and timings."""
    gone = set(removed)
    return with_tests(problem, [k for k in range(len(problem.tests)) if k not in gone])


def _shares(problem: Problem, thresholds: Thresholds, *, events: np.ndarray) -> dict[int, float]:
    shares = verdicts.share_of_correct(problem, events)
    return {int(k): float(shares[k]) for k in np.flatnonzero(verdicts.is_kind(problem, thresholds.kind))}
