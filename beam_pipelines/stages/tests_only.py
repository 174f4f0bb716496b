"""Statements and tests without references: what an evaluation needs of a set that publishes no solutions.

Nothing runs: tests are believed as their source gives them. Problems end in a split of their own, with no references
and no durations, so that filters by duration know that there is nothing to compare with.
"""

import dataclasses
import functools

import numpy as np

from beam_pipelines.matrices import Timings
from beam_pipelines.records import Problem, Rejection, count_stage, rejection_of
from beam_pipelines.stages.stage import Stage

NAME = "tests_only"
EVALUATION = "evaluation"


def tests_only_stage(*, max_original_tests: int) -> Stage:
    """Make the stage that keeps statements and tests alone, for sets that publish no solutions."""
    return Stage(NAME, functools.partial(keep_tests_only, max_original_tests=max_original_tests))


def keep_tests_only(problem: Problem, *, max_original_tests: int = 0) -> Problem | Rejection:
    """Drop the solutions and generators of a problem and put it into the evaluation split.

    Args:
      problem: as its source gives it.
      max_original_tests: tests kept, the first ones; 0 for all.

    Returns:
      The problem with timings [k, 0], or a rejection as `no_original_tests`.
    """
    if not problem.tests:
        return rejection_of(problem, NAME, reason="no_original_tests")
    tests = problem.tests[: max_original_tests or None]
    nobody = (len(tests), 0)
    timings = Timings(
        duration_s=np.zeros(nobody, np.float32),
        std_s=np.zeros(nobody, np.float32),
        runs=np.zeros(nobody, np.int32),
        status=np.zeros(nobody, np.int8),
    )
    alone = dataclasses.replace(problem, tests=tests, solutions=(), generators=(), timings=timings, split=EVALUATION)
    return count_stage(alone, NAME)
