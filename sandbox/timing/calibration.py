"""Fits maps from stored to fresh durations, after the paper (App. C.7), and judges them. Pure.

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
    """n pairs of durations of the same program on the same test.

    Attributes:
      stored_s: `[n]` seconds as they were stored.
      fresh_s: `[n]` seconds as measured again.
      problem: `[n]` problem that each pair belongs to.
      test: `[n]` name of the test, unique over all problems; only leaderboards need it.
      program: `[n]` name of the program, unique over all problems; only leaderboards need it.
    """

    stored_s: np.ndarray
    fresh_s: np.ndarray
    problem: np.ndarray
    test: np.ndarray | None = None
    program: np.ndarray | None = None

    def where(self, is_kept: np.ndarray) -> "DurationPairs":
        """Return the pairs that a mask `[n]` keeps."""
        names = (None if names is None else names[is_kept] for names in (self.test, self.program))
        return DurationPairs(self.stored_s[is_kept], self.fresh_s[is_kept], self.problem[is_kept], *names)


class CurveFamily(NamedTuple):
    """A family of maps from stored to fresh seconds.

    Attributes:
      fit: takes stored and fresh seconds `[n]`, returns coefficients.
      apply: takes coefficients and stored seconds `[n]`, returns predicted fresh seconds `[n]`.
    """

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
    """How well predictions agree with fresh seconds.

    Attributes:
      r_squared: R²: 1 is perfect, negative is worse than predicting the mean.
      rmse_s: root mean square error in seconds.
    """

    r_squared: float
    rmse_s: float


def fit_quality(fresh_s: np.ndarray, predicted_s: np.ndarray) -> Quality:
    """Judge predicted seconds `[n]` by fresh ones `[n]`; R² is 0 where all fresh seconds are equal."""
    residual = float(np.sum((fresh_s - predicted_s) ** 2))
    total = float(np.sum((fresh_s - fresh_s.mean()) ** 2))
    return Quality(1.0 - residual / total if total > 0 else 0.0, float(np.sqrt(residual / len(fresh_s))))


def cross_validated(pairs: DurationPairs, family: str) -> Quality:
    """Judge a family on problems left out one at a time.

    Args:
      pairs: pairs of at least two problems.
      family: a key of FAMILIES.
    """
    predicted_s = np.empty_like(pairs.fresh_s)
    for problem in np.unique(pairs.problem):
        is_left_out = pairs.problem == problem
        coefficients = FAMILIES[family].fit(pairs.stored_s[~is_left_out], pairs.fresh_s[~is_left_out])
        predicted_s[is_left_out] = FAMILIES[family].apply(coefficients, pairs.stored_s[is_left_out])
    return fit_quality(pairs.fresh_s, predicted_s)


@dataclasses.dataclass(frozen=True)
class Fit:
    """One family fitted to all pairs.

    Attributes:
      coefficients: as the family's `apply` takes them.
      r_squared: R² on the pairs that were fitted.
      rmse_s: root mean square error on them, in seconds.
      unseen_r_squared: R² on problems left out one at a time.
      unseen_rmse_s: root mean square error on those, in seconds.
    """

    coefficients: tuple[float, ...]
    r_squared: float
    rmse_s: float
    unseen_r_squared: float
    unseen_rmse_s: float


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Maps from stored to fresh seconds; environments use the affine one.

    Attributes:
      fits: one fit for each key of FAMILIES.
      pairs: number of pairs fitted.
      problems: number of problems among them.
      measured_under: what measured the fresh seconds.
    """

    fits: dict[str, Fit]
    pairs: int
    problems: int
    measured_under: dict[str, str]

    @property
    def alpha(self) -> float:
        """Slope of the affine map, fresh seconds per stored second."""
        return self.fits["affine"].coefficients[0]

    @property
    def beta(self) -> float:
        """Offset of the affine map in seconds."""
        return self.fits["affine"].coefficients[1]

    @property
    def version(self) -> str:
        """Name under which datasets, rewards and evaluations refer to this calibration."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return f"calibration-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def calibrate(pairs: DurationPairs, *, measured_under: dict[str, str]) -> Calibration:
    """Fit all families to pairs of durations (App. C.7).

    Args:
      pairs: four pairs or more, of two problems or more.
      measured_under: what measured the fresh seconds; becomes part of the version.

    Raises:
      ValueError: too few pairs or problems to judge a fit.
    """
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
    """Read what `dataclasses.asdict` made of a calibration; raise KeyError or TypeError for anything else."""
    fits = {name: _fit_from_dict(fit) for name, fit in value["fits"].items()}
    fields: dict[str, typing.Any] = {**value, "fits": fits}
    return Calibration(**fields)


def _fit_from_dict(value: dict[str, typing.Any]) -> Fit:
    fields: dict[str, typing.Any] = {**value, "coefficients": tuple(value["coefficients"])}
    return Fit(**fields)


class Interval(NamedTuple):
    """Range, in the unit of what was drawn, that holds 95 % of the bootstrap's draws."""

    low: float
    high: float

    @property
    def holds_zero(self) -> bool:
        """True where 0 lies in the range, its ends included."""
        return self.low <= 0.0 <= self.high


def affine_draws(pairs: DurationPairs, *, problems: np.ndarray, seed: int = 0) -> np.ndarray:
    """Fit the affine map to resampled problems, drawn with replacement.

    The problem is the unit, because pairs of one problem share what is odd about it. The same problems and seed give
    the same draws, so that two campaigns can be compared draw by draw.

    Args:
      pairs: n pairs of durations.
      problems: `[p]` distinct problems to draw from.
      seed: seed of the draws.

    Returns:
      `[DRAWS, 2]` slopes and offsets in seconds; nan where a draw fixes no line.
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
    """Bootstrap 95 % intervals of the affine map's slope and of its offset in seconds, over problems."""
    return _intervals(affine_draws(pairs, problems=np.unique(pairs.problem)))


class Movement(NamedTuple):
    """How the affine map moved from one campaign to another.

    Attributes:
      problems: number of problems that both have.
      alpha_change: 95 % interval of new minus old slope.
      beta_change_s: 95 % interval of new minus old offset, in seconds.
    """

    problems: int
    alpha_change: Interval
    beta_change_s: Interval

    @property
    def is_beyond_noise(self) -> bool:
        """True where the interval of the slope's change, or that of the offset's, does not hold zero."""
        return not (self.alpha_change.holds_zero and self.beta_change_s.holds_zero)


def movement(old: DurationPairs, new: DurationPairs) -> Movement:
    """Bootstrap the change of the affine map from an old campaign to a new one, on the problems in common.

    Raises:
      ValueError: fewer than two problems are in common.
    """
    problems = np.intersect1d(old.problem, new.problem)
    if len(problems) < 2:
        raise ValueError(f"the campaigns have {len(problems)} problems in common: expected 2 or more")
    before, after = (affine_draws(pairs, problems=problems) for pairs in (old, new))
    return Movement(len(problems), *_intervals(after - before))


def _intervals(draws: np.ndarray) -> tuple[Interval, Interval]:
    slope, offset = (Interval(*map(float, np.nanpercentile(column, (2.5, 97.5)))) for column in draws.T)
    return slope, offset


def leaderboard_spearman(pairs: DurationPairs, stored_s: np.ndarray) -> float:
    """Compare the order of programs among references with given seconds to their order among fresh ones (Table 32).

    Every program in turn is the candidate: on each of its tests its fresh seconds take a place among those of the other
    programs, once as given and once fresh.

    Args:
      pairs: n pairs with `test` and `program`.
      stored_s: `[n]` seconds of the references, such as stored or calibrated ones.

    Returns:
      Rank correlation of the mean places of all programs that share a test with another; 0 if they are fewer than two.
    """
    given, fresh = (_mean_places(pairs, among_s) for among_s in (stored_s, pairs.fresh_s))
    return rank_correlation(given, fresh) if len(given) > 1 else 0.0


def _mean_places(pairs: DurationPairs, among_s: np.ndarray) -> np.ndarray:
    """Average, for each program that shares a test with another, the share of the other programs that are faster."""
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
    """Compute Spearman's rank correlation of two `[n]`; 0 where one is constant, for which it is not defined."""
    if min(np.ptp(left), np.ptp(right)) == 0:
        return 0.0
    return float(stats.spearmanr(left, right).statistic)
