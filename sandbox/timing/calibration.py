"""From pairs of stored and fresh durations to a map between them, after the paper (App. C.7). Pure.

Four families are fitted by least squares and judged on problems that the fit has not seen: one problem is left out at a
time. A calibration carries what it was measured under, so that datasets, rewards and evaluations can name it.
"""

import dataclasses
import hashlib
import json
import typing
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

SMALLEST_S = 1e-6
DRAWS = 2000


class DurationPairs(NamedTuple):
    """Durations [n] of the same program on the same test, stored and fresh, and the problem [n] each belongs to.

    `test` and `program` [n] name both within everything; only leaderboards need them.
    """

    stored_s: np.ndarray
    fresh_s: np.ndarray
    problem: np.ndarray
    test: np.ndarray | None = None
    program: np.ndarray | None = None

    def where(self, is_kept: np.ndarray) -> "DurationPairs":
        """The pairs that a mask [n] keeps."""
        names = (None if names is None else names[is_kept] for names in (self.test, self.program))
        return DurationPairs(self.stored_s[is_kept], self.fresh_s[is_kept], self.problem[is_kept], *names)


class CurveFamily(NamedTuple):
    """`fit` takes (stored, fresh) and returns coefficients; `apply` takes coefficients and stored seconds."""

    fit: Callable[[np.ndarray, np.ndarray], np.ndarray]
    apply: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _fit_multiplicative(stored_s: np.ndarray, fresh_s: np.ndarray) -> np.ndarray:
    return np.array([stored_s @ fresh_s / (stored_s @ stored_s)])


def _fit_power(stored_s: np.ndarray, fresh_s: np.ndarray) -> np.ndarray:
    log_stored, log_fresh = (np.log(np.maximum(values, SMALLEST_S)) for values in (stored_s, fresh_s))
    exponent, factor = np.polyfit(log_stored, log_fresh, 1)
    return np.array([exponent, factor])


FAMILIES: dict[str, CurveFamily] = {
    "multiplicative": CurveFamily(_fit_multiplicative, lambda c, x: c[0] * x),
    "power": CurveFamily(_fit_power, lambda c, x: np.exp(c[1]) * np.maximum(x, SMALLEST_S) ** c[0]),
    "affine": CurveFamily(lambda x, y: np.polyfit(x, y, 1), np.polyval),
    "polynomial": CurveFamily(lambda x, y: np.polyfit(x, y, 2), np.polyval),
}


class Quality(NamedTuple):
    """R² (1 is perfect, negative is worse than the mean) and root mean square error in seconds."""

    r_squared: float
    rmse_s: float


def fit_quality(fresh_s: np.ndarray, predicted_s: np.ndarray) -> Quality:
    """Agreement of predicted with fresh seconds; R² is 0 where all fresh seconds are equal."""
    residual = float(np.sum((fresh_s - predicted_s) ** 2))
    total = float(np.sum((fresh_s - fresh_s.mean()) ** 2))
    return Quality(1.0 - residual / total if total > 0 else 0.0, float(np.sqrt(residual / len(fresh_s))))


def cross_validated(pairs: DurationPairs, family: str) -> Quality:
    """Quality on problems left out one at a time; needs pairs of at least two problems."""
    predicted_s = np.empty_like(pairs.fresh_s)
    for problem in np.unique(pairs.problem):
        is_left_out = pairs.problem == problem
        coefficients = FAMILIES[family].fit(pairs.stored_s[~is_left_out], pairs.fresh_s[~is_left_out])
        predicted_s[is_left_out] = FAMILIES[family].apply(coefficients, pairs.stored_s[is_left_out])
    return fit_quality(pairs.fresh_s, predicted_s)


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


def calibrate(pairs: DurationPairs, *, measured_under: dict[str, str]) -> Calibration:
    """Fits all families; raises ValueError where there are too few pairs or problems to judge a fit."""
    problems = len(np.unique(pairs.problem))
    if problems < 2 or len(pairs.stored_s) < 4:
        raise ValueError(f"pairs = {len(pairs.stored_s)} of {problems} problems: expected 4 or more, of 2 or more")
    fits = {name: _fit(pairs, name) for name in FAMILIES}
    return Calibration(fits, len(pairs.stored_s), problems, measured_under)


def _fit(pairs: DurationPairs, family: str) -> Fit:
    coefficients = FAMILIES[family].fit(pairs.stored_s, pairs.fresh_s)
    seen = fit_quality(pairs.fresh_s, FAMILIES[family].apply(coefficients, pairs.stored_s))
    unseen = cross_validated(pairs, family)
    return Fit(tuple(map(float, coefficients)), seen.r_squared, seen.rmse_s, unseen.r_squared, unseen.rmse_s)


def calibration_from_dict(value: dict[str, typing.Any]) -> Calibration:
    """Reads what `dataclasses.asdict` wrote."""
    fits = {name: _fit_from_dict(fit) for name, fit in value["fits"].items()}
    fields: dict[str, typing.Any] = {**value, "fits": fits}
    return Calibration(**fields)


def _fit_from_dict(value: dict[str, typing.Any]) -> Fit:
    fields: dict[str, typing.Any] = {**value, "coefficients": tuple(value["coefficients"])}
    return Fit(**fields)


class Interval(NamedTuple):
    """Range that holds 95 % of the bootstrap's draws."""

    low: float
    high: float

    @property
    def holds_zero(self) -> bool:
        return self.low <= 0.0 <= self.high


def affine_draws(pairs: DurationPairs, *, problems: np.ndarray, seed: int = 0) -> np.ndarray:
    """Affine maps (alpha, beta) [draws, 2] of `problems` drawn anew with replacement; nan where a draw fixes no line.

    The problem is the unit, because pairs of one problem share what is odd about it. The same problems and seed give
    the same draws, so that two campaigns can be compared draw by draw.
    """
    counts = np.random.default_rng(seed).multinomial(len(problems), np.full(len(problems), 1 / len(problems)), DRAWS)
    x, y = pairs.stored_s, pairs.fresh_s
    moments = np.stack([np.ones_like(x), x, y, x * x, x * y])
    of_problem = np.stack([moments[:, pairs.problem == problem].sum(axis=1) for problem in problems])
    n, sx, sy, sxx, sxy = (counts @ of_problem).T
    spread = n * sxx - sx * sx
    alpha = (n * sxy - sx * sy) / np.where(spread > 1e-9 * n * sxx, spread, np.nan)
    return np.stack([alpha, (sy - alpha * sx) / n], axis=1)


def affine_intervals(pairs: DurationPairs) -> tuple[Interval, Interval]:
    """95 % intervals of alpha and beta, by a bootstrap over problems."""
    return _intervals(affine_draws(pairs, problems=np.unique(pairs.problem)))


class Movement(NamedTuple):
    """How the affine map moved from one campaign to another, on the `problems` that both have."""

    problems: int
    alpha_change: Interval
    beta_change_s: Interval

    @property
    def is_beyond_noise(self) -> bool:
        """True where other problems of the same kind would hardly show no change, in slope or in offset."""
        return not (self.alpha_change.holds_zero and self.beta_change_s.holds_zero)


def movement(old: DurationPairs, new: DurationPairs) -> Movement:
    """95 % intervals of the change of alpha and beta; raises ValueError where fewer than 2 problems are in common."""
    problems = np.intersect1d(old.problem, new.problem)
    if len(problems) < 2:
        raise ValueError(f"the campaigns have {len(problems)} problems in common: expected 2 or more")
    before, after = (affine_draws(pairs, problems=problems) for pairs in (old, new))
    return Movement(len(problems), *_intervals(after - before))


def _intervals(draws: np.ndarray) -> tuple[Interval, Interval]:
    slope, offset = (Interval(*map(float, np.nanpercentile(column, (2.5, 97.5)))) for column in draws.T)
    return slope, offset


def leaderboard_spearman(pairs: DurationPairs, stored_s: np.ndarray) -> float:
    """Do programs stand in the same order among references with seconds `stored_s` [n] as among fresh ones?

    Every program in turn is the candidate: on each of its tests its fresh seconds take a place among those of the other
    programs, once as given and once fresh (Table 32). Rank correlation of the mean places of all programs that have
    company; 0 where there are fewer than two of them.
    """
    given, fresh = (_mean_places(pairs, among_s) for among_s in (stored_s, pairs.fresh_s))
    return rank_correlation(given, fresh) if len(given) > 1 else 0.0


def _mean_places(pairs: DurationPairs, among_s: np.ndarray) -> np.ndarray:
    """Mean share of the other programs that are faster, for each program that shares a test with another."""
    assert pairs.test is not None
    assert pairs.program is not None
    tests, programs = pairs.test, pairs.program
    place = np.full(len(among_s), np.nan)
    for test in np.unique(tests):
        rows = np.flatnonzero(tests == test)
        if len(rows) > 1:
            is_faster = among_s[rows][None, :] < pairs.fresh_s[rows][:, None]
            place[rows] = (is_faster.sum(axis=1) - np.diag(is_faster)) / (len(rows) - 1)
    has_place = ~np.isnan(place)
    return np.array([place[has_place & (programs == name)].mean() for name in np.unique(programs[has_place])])


def rank_correlation(left: np.ndarray, right: np.ndarray) -> float:
    """Spearman's rank correlation; 0 where one side is constant, for which it is not defined."""
    if min(np.ptp(left), np.ptp(right)) == 0:
        return 0.0
    return float(stats.spearmanr(left, right).statistic)
