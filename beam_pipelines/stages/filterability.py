"""Duration filterability: do a problem's optimization tests differ enough in duration to rank programs?

App. B, "Duration filterability". Comes after the timing stage and decides on what is stored, so that whoever recomputes
the criterion from the dataset comes to the same side. Rejects nothing: a problem that fails the criterion stays in the
cleaned corpus, outside the split for training.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Collection

import numpy as np

from beam_pipelines.matrices import Timings
from beam_pipelines.records import Problem, count_stage
from beam_pipelines.stages.stage import Stage
from optimrl_jax.kinds import Status, TestKind

NAME = "filterability"
MIN_LENGTH_R = 0.9
FILTERABLE = "filterable"
NON_FILTERABLE = "non_filterable"
RESAMPLES = 200
TAIL = 0.025


def filterability_stage(*, min_robust_cv: float, seed: int) -> Stage:
    """Make the stage that decides duration filterability, with the arguments of `decide_filterability`."""
    return Stage(NAME, functools.partial(decide_filterability, min_robust_cv=min_robust_cv, seed=seed))


def decide_filterability(problem: Problem, *, min_robust_cv: float, seed: int = 0) -> Problem:
    """Store robust CV and length correlation of the optimization tests, and the side on which the problem falls.

    A problem is filterable where the robust CV of its stored durations reaches the limit and the noise of the
    instrument does not explain that. Where only noise lifts it over the limit, or may keep it below, the trace says
    `undecided`, with the interval of the robust CV; such a problem is not trained on.

    Args:
      problem: with timings.
      min_robust_cv: the limit (paper: 0.3).
      seed: of the resamples behind the interval, together with the problem's id.
    """
    timings, kinds = problem.timed, {TestKind.OPTIMIZATION}
    seconds, error_s = mean_durations(problem, kinds), mean_errors(problem, kinds)
    cv, r = robust_cv(seconds), length_r(problem, kinds)
    low, high = robust_cv_interval(seconds, error_s, seed=_seed(seed, problem.id))
    is_filterable = cv >= min_robust_cv and low >= min_robust_cv
    side = FILTERABLE if is_filterable else NON_FILTERABLE
    notes = {"robust_cv": cv, "robust_cv_low": low, "robust_cv_high": high, "length_r": r}
    notes["original_robust_cv"] = robust_cv(mean_durations(problem, {TestKind.ORIGINAL}))
    notes["undecided"] = float(low < min_robust_cv <= high)
    notes["faulted_pairs"] = float((timings.status == Status.FAULT).sum())
    return count_stage(dataclasses.replace(problem, robust_cv=cv, length_r=r, split=side), NAME, **notes)


def robust_cv(duration_s: np.ndarray) -> float:
    """Return interquartile range over median of per-test durations; quartiles interpolate linearly.

    0 for fewer than two tests with a duration or a median of 0: such a suite shows no spread.

    Args:
      duration_s: float[k]; seconds, NaN where nothing ran.
    """
    known = duration_s[np.isfinite(duration_s)]
    if known.size < 2:
        return 0.0
    return float(_robust_cvs(known))


def _robust_cvs(seconds: np.ndarray) -> np.ndarray:
    """Return the robust CV [...] of every row of known durations [..., k], with k >= 2; 0 where the median is 0."""
    low, middle, high = np.percentile(seconds, [25, 50, 75], axis=-1)
    return np.divide(high - low, middle, out=np.zeros_like(middle), where=middle > 0)


def robust_cv_interval(duration_s: np.ndarray, error_s: np.ndarray, *, seed: int) -> tuple[float, float]:
    """Bound the robust CV that the tests would show under an instrument without noise.

    Noise of the instrument widens the spread of the durations: each resample adds it once more, and what it adds to the
    robust CV on average is taken off both bounds.

    Args:
      duration_s: float[k] mean seconds of each test, NaN where nothing ran.
      error_s: float[k] standard error of each of them, seconds.
      seed: of the resamples.

    Returns:
      The 2.5 and 97.5 percentiles; both are the robust CV itself where no error is known.
    """
    known = np.isfinite(duration_s)
    seconds, errors = duration_s[known], error_s[known]
    measured = robust_cv(seconds)
    if seconds.size < 2 or not errors.any():
        return measured, measured
    draw = np.random.default_rng(seed)
    resampled = np.maximum(seconds + errors * draw.standard_normal((RESAMPLES, seconds.size)), 0)
    values = _robust_cvs(resampled)
    excess = max(0.0, float(values.mean()) - measured)
    low, high = np.quantile(values, [TAIL, 1 - TAIL]) - excess
    return max(0.0, min(float(low), measured)), max(float(high), measured)


def usable_mean(duration_s: np.ndarray, status: np.ndarray) -> np.ndarray:
    """Average the durations of each test over references with a recorded run or timeout.

    Args:
      duration_s: float[k, h]; seconds.
      status: int8[k, h]; values of `Status`.

    Returns:
      float[k]; seconds, NaN for a test without any such reference.
    """
    is_usable = np.isin(status, (Status.SUCCESS, Status.TIMEOUT))
    count, total = is_usable.sum(axis=1), np.where(is_usable, duration_s, 0).sum(axis=1)
    return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)


def mean_durations(problem: Problem, kinds: Collection[int]) -> np.ndarray:
    """Average the stored durations of each test of some kinds over references.

    Args:
      problem: with timings.
      kinds: values of `TestKind`.

    Returns:
      float[n] for the n tests of these kinds; seconds, a timeout counts the cap, NaN where nothing ran.
    """
    rows = _rows(problem, kinds)
    return usable_mean(rows.duration_s, rows.status)


def mean_errors(problem: Problem, kinds: Collection[int]) -> np.ndarray:
    """Estimate the standard error of `mean_durations` from stored deviations and numbers of runs.

    Args:
      problem: with timings.
      kinds: values of `TestKind`.

    Returns:
      float[n] for the n tests of these kinds; seconds, 0 where no deviation is known.
    """
    rows = _rows(problem, kinds)
    is_usable = np.isin(rows.status, (Status.SUCCESS, Status.TIMEOUT))
    variance = np.where(is_usable, np.square(rows.std_s, dtype=float) / np.maximum(rows.runs, 1), 0).sum(axis=1)
    return np.sqrt(variance) / np.maximum(is_usable.sum(axis=1), 1)


def length_r(problem: Problem, kinds: Collection[int]) -> float:
    """Correlate characters (input plus output) and mean duration over the tests of some kinds.

    Args:
      problem: with timings.
      kinds: values of `TestKind`.

    Returns:
      Pearson correlation in [-1, 1]; 0 where it is undefined.
    """
    tests = [problem.tests[k] for k in tests_of(problem, kinds)]
    characters = np.array([len(test.input) + len(test.output or "") for test in tests], float)
    return pearson(characters, mean_durations(problem, kinds))


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Compute the Pearson correlation over the pairs in which both values are finite.

    Args:
      x: float[n].
      y: float[n].

    Returns:
      A number in [-1, 1]; 0 for fewer than two such pairs or a constant side.
    """
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if x.size < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def tests_of(problem: Problem, kinds: Collection[int]) -> list[int]:
    """Return the indices of the tests of some kinds, in order."""
    return [k for k, test in enumerate(problem.tests) if test.kind in kinds]


def _rows(problem: Problem, kinds: Collection[int]) -> Timings:
    return problem.timed.take(tests_of(problem, kinds), axis=0)


def _seed(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:4], "big")
