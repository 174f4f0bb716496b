"""Which reference durations a candidate is ranked against: as stored, mapped affinely to today, or measured today.

Reference durations were stored when the dataset was built; the timing pass of an evaluation runs the references again
beside the candidates. The two are compared here, and one of three leaderboards is chosen by a setting. Pure arrays.
"""

import dataclasses

import numpy as np
from scipy import stats

from optimrl_jax.arrays import CAP_S, AffineMap


@dataclasses.dataclass(frozen=True)
class DriftFit:
    """How fresh reference durations stand against stored ones: fresh = map(stored).

    Fitted on cells that succeeded both times, each weighted by 1/stored**2, so that a 1 ms program counts as much as a
    1 s program (relative errors). `spearman` is the rank correlation of all pairs, `relative_rmse` the root mean square
    of (predicted - fresh) / fresh. With fewer than 3 pairs the map is the identity and the figures are nan.
    """

    map: AffineMap
    spearman: float
    relative_rmse: float
    pairs: int


def fit_drift(stored_s: np.ndarray, fresh_s: np.ndarray) -> DriftFit:
    """Fit an affine map by least squares from stored to fresh seconds (App. C.7), on 1-d arrays of equal length."""
    if stored_s.shape != fresh_s.shape or stored_s.ndim != 1:
        raise ValueError(f"stored {stored_s.shape}, fresh {fresh_s.shape}: expected two 1-d arrays of equal length")
    if stored_s.size < 3 or np.ptp(stored_s) == 0:
        return DriftFit(map=AffineMap(), spearman=float("nan"), relative_rmse=float("nan"), pairs=stored_s.size)
    weight = 1 / np.maximum(stored_s, 1e-6)
    design = np.stack([stored_s, np.ones_like(stored_s)], axis=1) * weight[:, None]
    (alpha, beta_s), *_ = np.linalg.lstsq(design, fresh_s * weight, rcond=None)
    fitted = AffineMap(float(alpha), float(beta_s))
    relative = (fitted(stored_s) - fresh_s) / np.maximum(fresh_s, 1e-6)
    return DriftFit(
        map=fitted,
        spearman=rank_correlation(stored_s, fresh_s),
        relative_rmse=float(np.sqrt(np.mean(relative**2))),
        pairs=stored_s.size,
    )


def rank_correlation(left: np.ndarray, right: np.ndarray) -> float:
    """Correlate ranks in [-1, 1] with average ranks for ties; nan where one side does not vary."""
    if min(np.ptp(values) for values in (left, right)) == 0:
        return float("nan")
    return float(stats.spearmanr(left, right).statistic)


def stored_leaderboard(stored_s: np.ndarray, fresh_s: np.ndarray, drift: DriftFit) -> np.ndarray:
    """Rank against the durations of the dataset, unchanged."""
    return stored_s


def mapped_leaderboard(stored_s: np.ndarray, fresh_s: np.ndarray, drift: DriftFit) -> np.ndarray:
    """Rank against stored durations under the fitted map, clamped to [0, 10] s; timeouts stay at the cap."""
    mapped = np.clip(drift.map(stored_s), 0.0, CAP_S)
    return np.where(stored_s >= CAP_S, CAP_S, mapped)


def fresh_leaderboard(stored_s: np.ndarray, fresh_s: np.ndarray, drift: DriftFit) -> np.ndarray:
    """Rank against durations of the same timing pass; a cell that was not measured again stays as stored."""
    return np.where(np.isfinite(fresh_s), fresh_s, stored_s)


LEADERBOARDS = {"stored": stored_leaderboard, "affine": mapped_leaderboard, "fresh": fresh_leaderboard}
