"""Can the seconds of one clock be turned into those of another? Four families of maps, judged on unseen problems. Pure.

The paper asks it of stored against fresh seconds of one service (Table 32, Figure 31), and of a local sandbox against
that service (Table 26), where every family fails.
"""

import typing
from collections.abc import Callable

import numpy as np

SMALLEST_S = 1e-6
FEWEST_PAIRS = 4


def _fit_power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.polyfit(np.log(np.maximum(x, SMALLEST_S)), np.log(np.maximum(y, SMALLEST_S)), 1)


class CorrectionFamily(typing.NamedTuple):
    """A family of maps between two clocks.

    Attributes:
      fit: takes seconds `[n]` of both clocks, returns coefficients.
      apply: takes coefficients and seconds of the first clock.
    """

    fit: Callable[[np.ndarray, np.ndarray], np.ndarray]
    apply: Callable[[np.ndarray, np.ndarray], np.ndarray]


CORRECTIONS: dict[str, CorrectionFamily] = {
    "multiplicative": CorrectionFamily(lambda x, y: np.array([x @ y / (x @ x)]), lambda c, x: c[0] * x),
    "power": CorrectionFamily(_fit_power, lambda c, x: np.exp(c[1]) * np.maximum(x, SMALLEST_S) ** c[0]),
    "affine": CorrectionFamily(lambda x, y: np.polyfit(x, y, 1), np.polyval),
    "polynomial": CorrectionFamily(lambda x, y: np.polyfit(x, y, 2), np.polyval),
}


class Correction(typing.NamedTuple):
    """One family fitted to pairs of seconds.

    Attributes:
      coefficients: as the family's `apply` takes them.
      r_squared: on the pairs that were fitted.
      unseen_r_squared: on problems left out one at a time; nan with a single problem.
      unseen_rmse_s: root mean square error on those.
    """

    coefficients: np.ndarray
    r_squared: float
    unseen_r_squared: float
    unseen_rmse_s: float


def fit_corrections(from_s: np.ndarray, to_s: np.ndarray, problem: np.ndarray) -> dict[str, Correction]:
    """Fit every family, and judge it on problems that it has not seen.

    Args:
      from_s: `[n]` seconds of one clock.
      to_s: `[n]` of the other.
      problem: int`[n]`, whose pair it is.

    Returns:
      By family; empty with fewer than four pairs or where the first clock always says the same.
    """
    if from_s.size < FEWEST_PAIRS or np.ptp(from_s) == 0:
        return {}
    return {name: _correction(family, from_s, to_s, problem) for name, family in CORRECTIONS.items()}


def _correction(family: CorrectionFamily, from_s: np.ndarray, to_s: np.ndarray, problem: np.ndarray) -> Correction:
    fitted = family.fit(from_s, to_s)
    unseen_s = np.full_like(to_s, np.nan)
    for left_out in np.unique(problem):
        on = problem == left_out
        if np.ptp(from_s[~on]) if (~on).any() else 0:
            unseen_s[on] = family.apply(family.fit(from_s[~on], to_s[~on]), from_s[on])
    is_known = np.isfinite(unseen_s)
    rmse_s = float(np.sqrt(np.mean((to_s - unseen_s)[is_known] ** 2))) if is_known.any() else float("nan")
    unseen = _r_squared(to_s[is_known], unseen_s[is_known])
    return Correction(fitted, _r_squared(to_s, family.apply(fitted, from_s)), unseen, rmse_s)


def _r_squared(true_s: np.ndarray, predicted_s: np.ndarray) -> float:
    total = np.sum((true_s - true_s.mean()) ** 2) if true_s.size else 0.0
    return float(1 - np.sum((true_s - predicted_s) ** 2) / total) if total > 0 else float("nan")
