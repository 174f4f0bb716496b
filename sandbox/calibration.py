"""From pairs of stored and fresh durations to a map between them, after the paper (L2471-L2625). Pure.

Four families are fitted by least squares and judged on problems that the fit has not seen: one problem is left out at a
time. A calibration carries what it was measured under, so that datasets, rewards and evaluations can name it.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

SMALLEST_S = 1e-6


class Pairs(NamedTuple):
    """Durations [n] of the same program on the same test, stored and fresh, and the problem [n] each belongs to."""

    stored_s: np.ndarray
    fresh_s: np.ndarray
    problem: np.ndarray


class Family(NamedTuple):
    """`fit` takes (stored, fresh) and returns coefficients; `apply` takes coefficients and stored seconds."""

    fit: Callable[[np.ndarray, np.ndarray], np.ndarray]
    apply: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _fit_multiplicative(stored_s: np.ndarray, fresh_s: np.ndarray) -> np.ndarray:
    return np.array([stored_s @ fresh_s / (stored_s @ stored_s)])


def _fit_power(stored_s: np.ndarray, fresh_s: np.ndarray) -> np.ndarray:
    logs = (np.log(np.maximum(values, SMALLEST_S)) for values in (stored_s, fresh_s))
    exponent, factor = np.polyfit(*logs, 1)
    return np.array([exponent, factor])


FAMILIES: dict[str, Family] = {
    "multiplicative": Family(_fit_multiplicative, lambda c, x: c[0] * x),
    "power": Family(_fit_power, lambda c, x: np.exp(c[1]) * np.maximum(x, SMALLEST_S) ** c[0]),
    "affine": Family(lambda x, y: np.polyfit(x, y, 1), np.polyval),
    "polynomial": Family(lambda x, y: np.polyfit(x, y, 2), np.polyval),
}


class Quality(NamedTuple):
    """R² (1 is perfect, negative is worse than the mean) and root mean square error in seconds."""

    r_squared: float
    rmse_s: float


def quality(fresh_s: np.ndarray, predicted_s: np.ndarray) -> Quality:
    """Agreement of predicted with fresh seconds; R² is 0 where all fresh seconds are equal."""
    residual = float(np.sum((fresh_s - predicted_s) ** 2))
    total = float(np.sum((fresh_s - fresh_s.mean()) ** 2))
    return Quality(1.0 - residual / total if total > 0 else 0.0, float(np.sqrt(residual / len(fresh_s))))


def cross_validated(pairs: Pairs, family: str) -> Quality:
    """Quality on problems left out one at a time; needs pairs of at least two problems."""
    predicted_s = np.empty_like(pairs.fresh_s)
    for problem in np.unique(pairs.problem):
        is_left_out = pairs.problem == problem
        coefficients = FAMILIES[family].fit(pairs.stored_s[~is_left_out], pairs.fresh_s[~is_left_out])
        predicted_s[is_left_out] = FAMILIES[family].apply(coefficients, pairs.stored_s[is_left_out])
    return quality(pairs.fresh_s, predicted_s)


@dataclasses.dataclass(frozen=True)
class Fit:
    """One family's coefficients, its quality on all pairs, and on problems that it had not seen."""

    coefficients: tuple[float, ...]
    r_squared: float
    rmse_s: float
    unseen_r_squared: float
    unseen_rmse_s: float


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Fits by family; `alpha` and `beta` are those of the affine map that the environments use."""

    fits: dict[str, Fit]
    pairs: int
    problems: int
    measured_under: dict[str, str]

    @property
    def alpha(self) -> float:
        return self.fits["affine"].coefficients[0]

    @property
    def beta(self) -> float:
        return self.fits["affine"].coefficients[1]

    @property
    def version(self) -> str:
        """Name under which datasets, rewards and evaluations refer to this calibration."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return f"calibration-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def calibrate(pairs: Pairs, *, measured_under: dict[str, str]) -> Calibration:
    """Fits all families; raises ValueError where there are too few pairs or problems to judge a fit."""
    problems = len(np.unique(pairs.problem))
    if problems < 2 or len(pairs.stored_s) < 4:
        raise ValueError(f"pairs = {len(pairs.stored_s)} of {problems} problems: expected 4 or more, of 2 or more")
    fits = {name: _fit(pairs, name) for name in FAMILIES}
    return Calibration(fits, len(pairs.stored_s), problems, measured_under)


def _fit(pairs: Pairs, family: str) -> Fit:
    coefficients = FAMILIES[family].fit(pairs.stored_s, pairs.fresh_s)
    seen = quality(pairs.fresh_s, FAMILIES[family].apply(coefficients, pairs.stored_s))
    unseen = cross_validated(pairs, family)
    return Fit(tuple(map(float, coefficients)), seen.r_squared, seen.rmse_s, unseen.r_squared, unseen.rmse_s)


def from_dict(value: dict) -> Calibration:
    """Reads what `dataclasses.asdict` wrote."""
    fits = {name: Fit(**{**fit, "coefficients": tuple(fit["coefficients"])}) for name, fit in value["fits"].items()}
    return Calibration(**{**value, "fits": fits})


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Rank correlation with mean ranks for ties; 0 where one side is constant."""
    ranks = [_ranks(np.asarray(values, float)) for values in (left, right)]
    if min(np.ptp(rank) for rank in ranks) == 0:
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    ordered = np.sort(values)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") - 1) / 2
