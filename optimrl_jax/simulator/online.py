"""Do a simulated curve's diagnostics foretell the score of a real run? The correlation matrix of the paper (L3731)."""

import typing
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

FEWEST_RUNS = 3


class Correlation(typing.NamedTuple):
    """Spearman's rho and its two-sided p-value over `runs` runs; both nan with too few runs or a constant side."""

    rho: float
    p: float
    runs: int


def correlate(
    diagnostics: Mapping[str, np.ndarray], scores: Mapping[str, np.ndarray]
) -> dict[str, dict[str, Correlation]]:
    """{metric: {score: Correlation}} over runs, arrays [runs] in one order; runs with a nan on either side drop out."""
    return {
        metric: {
            name: _spearman(np.asarray(values, float), np.asarray(of_score, float)) for name, of_score in scores.items()
        }
        for metric, values in diagnostics.items()
    }


def rows_of(names: Sequence[str], *, among: Sequence[str]) -> np.ndarray:
    """Index of each configuration name in `among`; raises ValueError for one that the sweep does not hold."""
    index = {name: row for row, name in enumerate(among)}
    missing = [name for name in names if name not in index]
    if missing:
        raise ValueError(f"configuration {missing[0]!r}: expected one of the sweep, such as {among[0]!r}")
    return np.array([index[name] for name in names], int)


def _spearman(left: np.ndarray, right: np.ndarray) -> Correlation:
    finite = np.isfinite(left) & np.isfinite(right)
    left, right = left[finite], right[finite]
    if left.size < FEWEST_RUNS or np.ptp(left) == 0 or np.ptp(right) == 0:
        return Correlation(float("nan"), float("nan"), left.size)
    found = stats.spearmanr(left, right)
    return Correlation(float(found.statistic), float(found.pvalue), left.size)
