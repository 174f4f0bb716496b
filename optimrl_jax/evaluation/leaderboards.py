"""Which reference durations a candidate is ranked against: as stored, mapped to today, or measured today.

Reference durations were stored when the dataset was built; the timing pass of an evaluation runs the references again
beside the candidates. A leaderboard is seconds and the calibration Gamma under which an environment reads them, so that
a calibration means the same here, in training and in judging: recorded timeouts go through it like everything else.
Pure arrays.
"""

import dataclasses
import typing

import numpy as np
from scipy import stats

from optimrl_jax.arrays import AffineMap

FEWEST_PAIRS = 3


@dataclasses.dataclass(frozen=True)
class DriftFit:
    """How fresh reference durations relate to stored ones.

    Attributes:
      map: fresh = map(stored); the identity with fewer than 3 pairs, when all figures are nan.
      spearman: rank correlation of all pairs, in [-1, 1].
      relative_rmse: root mean square of (predicted - fresh) / fresh, without unit.
      pairs: number of cells that succeeded both times.
    """

    map: AffineMap
    spearman: float
    relative_rmse: float
    pairs: int


class ReferenceTimes(typing.NamedTuple):
    """What candidates are ranked against.

    Attributes:
      reference_s: `[k, h]` seconds of each problem.
      gamma: the calibration that an environment applies to them.
    """

    reference_s: list[np.ndarray]
    gamma: AffineMap


def fit_affine(stored_s: np.ndarray, fresh_s: np.ndarray) -> DriftFit:
    """Fit an affine map from stored to fresh seconds by ordinary least squares (App. C.7).

    The same estimator as `sandbox.calibrate`, so that a map between two clocks means the same wherever it was fitted.
    With fewer than three pairs, or equal stored seconds, the map is the identity and the figures are nan.

    Args:
      stored_s: `[n]` seconds.
      fresh_s: `[n]` seconds of the same cells.

    Raises:
      ValueError: for arrays that are not 1-d or differ in length.
    """
    if stored_s.shape != fresh_s.shape or stored_s.ndim != 1:
        raise ValueError(f"stored {stored_s.shape}, fresh {fresh_s.shape}: expected two 1-d arrays of equal length")
    if stored_s.size < FEWEST_PAIRS or np.ptp(stored_s) == 0:
        return DriftFit(map=AffineMap(), spearman=float("nan"), relative_rmse=float("nan"), pairs=stored_s.size)
    design = np.stack([stored_s, np.ones_like(stored_s)], axis=1)
    (alpha, beta_s), *_ = np.linalg.lstsq(design, fresh_s, rcond=None)
    fitted = AffineMap(float(alpha), float(beta_s))
    relative = (fitted(stored_s) - fresh_s) / np.maximum(fresh_s, 1e-6)
    return DriftFit(
        map=fitted,
        spearman=spearman_rho(stored_s, fresh_s),
        relative_rmse=float(np.sqrt(np.mean(relative**2))),
        pairs=stored_s.size,
    )


def spearman_rho(left: np.ndarray, right: np.ndarray) -> float:
    """Correlate the ranks of two samples.

    Args:
      left: `[n]` values.
      right: `[n]` values.

    Returns:
      Spearman's rho in [-1, 1], with average ranks for ties; nan where one side does not vary.
    """
    if min(np.size(left), np.size(right)) < 2 or min(np.ptp(values) for values in (left, right)) == 0:
        return float("nan")
    return float(stats.spearmanr(left, right).statistic)


def stored_leaderboard(
    stored_s: list[np.ndarray], fresh_s: list[np.ndarray], drift: DriftFit, gamma: AffineMap
) -> ReferenceTimes:
    """Rank against stored durations under the configured calibration, as training does."""
    return ReferenceTimes(stored_s, gamma)


def mapped_leaderboard(
    stored_s: list[np.ndarray], fresh_s: list[np.ndarray], drift: DriftFit, gamma: AffineMap
) -> ReferenceTimes:
    """Rank against stored durations under the map that this timing pass fitted."""
    return ReferenceTimes(stored_s, drift.map)


def fresh_leaderboard(
    stored_s: list[np.ndarray], fresh_s: list[np.ndarray], drift: DriftFit, gamma: AffineMap
) -> ReferenceTimes:
    """Rank against the durations of this timing pass; cells not measured again have stored seconds, mapped."""
    pairs = zip(stored_s, fresh_s, strict=True)
    return ReferenceTimes([np.where(np.isfinite(new), new, drift.map(old)) for old, new in pairs], AffineMap())


LEADERBOARDS = {"stored": stored_leaderboard, "affine": mapped_leaderboard, "fresh": fresh_leaderboard}
