"""Duration filterability: do a problem's optimization tests differ enough in duration to rank programs (L1803-1826)?

Rejects nothing: a problem that fails the criterion stays in the cleaned corpus, outside the split for training.
"""

import dataclasses
import functools
from collections.abc import Collection

import numpy as np

from beam_pipelines.records import Label, Problem, count_stage
from beam_pipelines.stages import verdicts
from beam_pipelines.stages.stage import Stage
from optimrl_jax.arrays import Status, TestKind
from sandbox.protocol import SERVICE_CAP_S

NAME = "filterability"
MIN_LENGTH_R = 0.9
CAP_S = SERVICE_CAP_S
FILTERABLE = "filterable"
NON_FILTERABLE = "non_filterable"


def filterability_stage(*, min_robust_cv: float) -> Stage:
    return Stage(NAME, functools.partial(decide_filterability, min_robust_cv=min_robust_cv))


def decide_filterability(problem: Problem, *, min_robust_cv: float) -> Problem:
    """Stores robust CV and length correlation of the optimization tests, and the side on which the problem falls."""
    cv = robust_cv(mean_durations(problem, {TestKind.OPTIMIZATION}))
    r = length_r(problem, {TestKind.OPTIMIZATION})
    side = FILTERABLE if cv >= min_robust_cv else NON_FILTERABLE
    marked = dataclasses.replace(problem, robust_cv=cv, length_r=r, split=side)
    original_cv = robust_cv(mean_durations(problem, {TestKind.ORIGINAL}))
    return count_stage(marked, NAME, robust_cv=cv, length_r=r, original_robust_cv=original_cv)


def robust_cv(duration_s: np.ndarray) -> float:
    """Interquartile range over median of per-test durations (L1811); quartiles interpolate linearly.

    0 for fewer than two tests with a duration or a median of 0: such a suite shows no spread.
    """
    known = duration_s[np.isfinite(duration_s)]
    if known.size < 2:
        return 0.0
    low, middle, high = np.percentile(known, [25, 50, 75])
    return float((high - low) / middle) if middle > 0 else 0.0


def mean_durations(problem: Problem, kinds: Collection[int]) -> np.ndarray:
    """Mean seconds over correct solutions for each test of the kinds; a timeout counts 10 s, NaN where nothing ran."""
    rows = problem.executions.take(tests_of(problem, kinds), axis=0)
    seconds = np.where(verdicts.is_timeout(rows), CAP_S, np.minimum(rows.wall_s, CAP_S))
    counts = np.isin(rows.status, (Status.SUCCESS, Status.TIMEOUT)) & verdicts.is_label(problem, Label.CORRECT)
    total, number = np.where(counts, seconds, 0).sum(axis=1), counts.sum(axis=1)
    return np.divide(total, number, out=np.full(len(number), np.nan), where=number > 0)


def length_r(problem: Problem, kinds: Collection[int]) -> float:
    """Pearson correlation of characters (input plus output) and mean duration over tests; 0 where undefined."""
    tests = [problem.tests[k] for k in tests_of(problem, kinds)]
    characters = np.array([len(test.input) + len(test.output or "") for test in tests], float)
    return pearson(characters, mean_durations(problem, kinds))


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson correlation over the pairs that are finite; 0 for fewer than two pairs or a constant side."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if x.size < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def tests_of(problem: Problem, kinds: Collection[int]) -> list[int]:
    return [k for k, test in enumerate(problem.tests) if test.kind in kinds]
