"""How other papers score efficiency, as functions of seconds (App. D.6, Tables 43 and 44): their definitions, our data.

Each takes the seconds of the samples of one problem beside those of the human references, and returns a score for each
sample, or for the problem. Where a paper counts instructions or memory, seconds stand in: records keep nothing else.
"""

import bisect
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from scipy import stats

# Neighbours within a fifth are one performance cluster (EvalPerf groups references whose costs are close).
CLUSTER_RATIO = 1.2
# Weights of three levels of tests, and the limit as a multiple of what the best reference takes (ENAMEL).
HARDNESS = (3, 3, 4)
LIMIT_FACTOR = 2.0
# A program counts as optimized where it is at least a tenth faster (PIE).
OPTIMIZED = 1.1
SIGNIFICANCE = 0.1
# Growth of seconds over the size of inputs, slowest first (BigO(Bench)).
GROWTHS = {
    "1": lambda n: np.zeros_like(n),
    "log n": np.log,
    "n": lambda n: n,
    "n log n": lambda n: n * np.log(n),
    "n^2": lambda n: n**2,
    "n^3": lambda n: n**3,
}
FEWEST_SIZES = 4
LEAST_SIZE_RATIO = 4.0
NEAR_BEST_FIT = 1.05


def beyond(
    seconds: Float[np.ndarray, " n"], is_passing: Bool[np.ndarray, " n"], reference_s: Float[np.ndarray, " h"]
) -> np.ndarray:
    """Place each sample between the slowest reference (0) and the fastest (1), linearly; 0 where wrong (Mercury).

    Args:
      seconds: `[n]` of the samples.
      is_passing: `[n]`.
      reference_s: `[h]` finite seconds, at least one.
    """
    fast, slow = reference_s.min(), reference_s.max()
    place = (slow - np.clip(seconds, fast, slow)) / (slow - fast) if slow > fast else seconds <= fast
    return np.where(is_passing, place, 0.0)


def normalized_time(
    seconds: Float[np.ndarray, " n"], is_passing: Bool[np.ndarray, " n"], reference_s: Float[np.ndarray, " h"]
) -> np.ndarray:
    """Divide seconds by those of the best reference, over correct samples alone; nan elsewhere (EffiBench's NET)."""
    return np.where(is_passing, seconds / reference_s.min(), np.nan)


def relative_time(
    seconds: Float[np.ndarray, " n"], is_passing: Bool[np.ndarray, " n"], reference_s: Float[np.ndarray, " h"]
) -> np.ndarray:
    """Divide the best reference's seconds by a sample's, at most 1; 0 where wrong (EffiBench-X)."""
    return np.where(is_passing, np.minimum(1.0, _speed(reference_s.min(), seconds, is_passing)), 0.0)


def clusters(reference_s: Float[np.ndarray, " h"]) -> list[np.ndarray]:
    """Part references into clusters, slowest first, wherever the next one is more than a fifth faster."""
    ordered = np.sort(reference_s)[::-1]
    return np.split(ordered, np.flatnonzero(ordered[:-1] > CLUSTER_RATIO * ordered[1:]) + 1)


def differential_performance(
    seconds: Float[np.ndarray, " n"],
    is_passing: Bool[np.ndarray, " n"],
    reference_s: Float[np.ndarray, " h"],
    *,
    by_cluster: bool = False,
) -> np.ndarray:
    """Sum the share of references in the clusters that a correct sample matches or beats (EvalPerf's DPS).

    A sample matches a cluster where it is no slower than its slowest member.

    Args:
      seconds: `[n]` of the samples.
      is_passing: `[n]`; nan where wrong.
      reference_s: `[h]` finite seconds, at least one.
      by_cluster: count clusters instead of references (DPS_norm).
    """
    found = clusters(reference_s)
    sizes = np.array([1 if by_cluster else len(cluster) for cluster in found])
    bounds = np.array([cluster.max() for cluster in found])
    matched = (sizes * (seconds[:, None] <= bounds)).sum(axis=1) / sizes.sum()
    return np.where(is_passing, matched, np.nan)


def level_efficiency(
    seconds: Float[np.ndarray, "n k"], is_passing: Bool[np.ndarray, " n"], reference_s: Float[np.ndarray, "k h"]
) -> np.ndarray:
    """Weigh how far below a right-censoring limit each level of tests stays; 0 where wrong (ENAMEL's e).

    Tests form three levels by the median seconds of references. A level earns (T - t) / (T - t*), with its slowest test
    t, that of the best reference t*, and T twice the slowest t*; a level that reaches T ends the run.

    Args:
      seconds: `[n, k]` on timed tests.
      is_passing: `[n]`.
      reference_s: `[k, h]` on the same tests, nan where unusable.

    Returns:
      `[n]`, about 1 for the best reference; nan with fewer tests than levels.
    """
    if seconds.shape[1] < len(HARDNESS) or not np.isfinite(reference_s).any(axis=1).all():
        return np.full(len(seconds), np.nan)
    by_hardness = np.argsort(np.nanmedian(reference_s, axis=1), kind="stable")
    levels = np.array_split(by_hardness, len(HARDNESS))
    best_s = np.nanmin(reference_s, axis=1)
    limit_s = LIMIT_FACTOR * best_s.max()
    found, is_alive = np.zeros(len(seconds)), np.ones(len(seconds), bool)
    for weight, tests in zip(HARDNESS, levels, strict=True):
        slowest_s = seconds[:, tests].max(axis=1)
        is_alive = is_alive & (slowest_s < limit_s)
        found += weight * np.where(is_alive, (limit_s - slowest_s) / (limit_s - best_s[tests].max()), 0.0)
    return np.where(is_passing, found / sum(HARDNESS), 0.0)


def expected_best(values: Float[np.ndarray, " n"], k: int) -> float:
    """Estimate the expected best of k of the samples, without bias: eff@k, Best@k.

    Args:
      values: `[n]`, larger is better.
      k: samples drawn; nan where there are fewer, or a value is nan.
    """
    n = len(values)
    if n < k or not np.isfinite(values).all():
        return math.nan
    weights = [math.comb(place - 1, k - 1) / math.comb(n, k) for place in range(1, n + 1)]
    return float(np.sort(values) @ np.array(weights))


def speedup(seconds: Float[np.ndarray, " n"], is_passing: Bool[np.ndarray, " n"], before_s: float) -> np.ndarray:
    """Divide the seconds of the program before by a sample's; 1 where wrong or slower, as nobody would take it (PIE).

    Args:
      seconds: `[n]` of the samples.
      is_passing: `[n]`.
      before_s: of the program to improve.
    """
    return np.where(is_passing, np.maximum(1.0, _speed(before_s, seconds, is_passing)), 1.0)


def expert_share(
    seconds: Float[np.ndarray, " n"], is_passing: Bool[np.ndarray, " n"], *, before_s: float, expert_s: float
) -> np.ndarray:
    """Divide a sample's speed-up by the expert's; a wrong one leaves the program before in place (SWE-fficiency).

    Args:
      seconds: `[n]` of the samples.
      is_passing: `[n]`.
      before_s: of the program to improve.
      expert_s: of the expert's.

    Returns:
      `[n]`; their harmonic mean is the score of a benchmark.
    """
    return np.where(is_passing, _speed(expert_s, seconds, is_passing), expert_s / before_s)


def _speed(than_s: float, seconds: np.ndarray, is_passing: np.ndarray) -> np.ndarray:
    """Divide by the seconds of correct samples; 0 elsewhere, where a program that never ran has none."""
    return np.divide(than_s, seconds, out=np.zeros(np.shape(seconds)), where=is_passing)


def significant_gain(before_s: Sequence[float] | np.ndarray, after_s: Sequence[float] | np.ndarray) -> float:
    """Find the largest gain, in whole percent, by which `after` is faster beyond doubt (SWE-Perf).

    The one-sided Mann-Whitney test at 10 % has to hold with `before` shortened by the gain.

    Args:
      before_s: seconds of runs or programs, at least one.
      after_s: likewise.

    Returns:
      A share in [0, 1); 0 where no gain is significant.
    """

    def is_certain(percent: int) -> bool:
        shortened = np.asarray(before_s) * (1 - percent / 100)
        return bool(stats.mannwhitneyu(shortened, after_s, alternative="greater").pvalue < SIGNIFICANCE)

    # The shorter `before`, the less certain: the last certain percent is found by halving.
    return max(0, bisect.bisect_left(range(100), True, key=lambda percent: not is_certain(percent)) - 1) / 100


def growth_class(sizes: Float[np.ndarray, " k"], seconds: Float[np.ndarray, " k"]) -> int | None:
    """Find the slowest growth in `GROWTHS` that fits seconds = a + b f(size) about as well as the best (BigO(Bench)).

    Least squares of relative errors; a fit within 5 % of the best residual counts as well.

    Args:
      sizes: `[k]` of the inputs.
      seconds: `[k]` positive.

    Returns:
      Its index; None where sizes are too few or too alike to tell.
    """
    if len(np.unique(sizes)) < FEWEST_SIZES or sizes.max() < LEAST_SIZE_RATIO * max(1, sizes.min()):
        return None
    residuals = []
    for growth in GROWTHS.values():
        shape = growth(np.maximum(sizes, 2).astype(float))
        design = np.stack([np.ones(len(sizes)), shape / max(1.0, shape.max())], axis=1) / seconds[:, None]
        factors, *_ = np.linalg.lstsq(design, np.ones(len(sizes)), rcond=None)
        residual = float(np.sum((design @ factors - 1) ** 2))
        residuals.append(residual if factors[1] >= 0 else math.inf)
    best = min(residuals)
    return next(index for index, residual in enumerate(residuals) if residual <= NEAR_BEST_FIT * best + 1e-9)
