"""Problems whose references stand in for a policy's programs, and what is computed once for each of them.

First stage of the simulator: (tests, stored seconds, stored statuses) -> durations sorted once a test, with everything
that the families derive from the order. NumPy sorts here: XLA's sort on CPUs took twelve times as long.
"""

import typing

import numpy as np

from optimrl_jax.arrays import References, Status, TestKind, Tests
from optimrl_jax.environment.calibration import calibrated
from optimrl_jax.environment.families import PERCENTS
from optimrl_jax.environment.leaderboard import mean_rank_order


class Problems(typing.NamedTuple):
    """Problems of one padded shape: tests [b, k], stored seconds and Status values of each reference, [b, k, h].

    Padded references and tests have the status NOT_RUN. A cell is usable if its run succeeded or timed out.
    """

    tests: Tests
    duration_s: np.ndarray
    status: np.ndarray


class Prepared(typing.NamedTuple):
    """What every family shares, over the optimization pool of each problem; +inf marks unusable cells.

    `duration_s` [b, k, h] calibrated, `ordered_s` the same sorted by reference, `places` [b, k, h] how many references
    are strictly faster (0 where unusable), `ranked_limit_s` [b, percents, bounds, k], nan where nothing is usable.
    """

    tests: Tests
    status: np.ndarray
    duration_s: np.ndarray
    ordered_s: np.ndarray
    places: np.ndarray
    ranked_limit_s: np.ndarray


def usable_cells(problems: Problems) -> np.ndarray:
    """bool[b, k, h]: recorded runs, timeouts included, on optimization tests."""
    pool = problems.tests.mask & (problems.tests.kind == TestKind.OPTIMIZATION)
    return pool[..., None] & np.isin(problems.status, (Status.SUCCESS, Status.TIMEOUT))


def prepare(problems: Problems, *, alpha: float, beta_s: float) -> Prepared:
    """Calibrates, sorts and ranks the references of each test, once (paper L2985, L3040, L3060)."""
    raw = References(problems.duration_s, np.zeros((), np.float32), usable_cells(problems))
    duration_s = np.asarray(calibrated(raw, alpha=alpha, beta_s=beta_s).duration_s)
    order = np.argsort(duration_s, axis=-1)
    ordered_s = np.take_along_axis(duration_s, order, axis=-1)
    places = _places(ordered_s, order)
    return Prepared(
        tests=problems.tests,
        status=problems.status,
        duration_s=duration_s,
        ordered_s=ordered_s,
        places=places,
        ranked_limit_s=_ranked_limits(ordered_s, order, places),
    )


def _places(ordered_s: np.ndarray, order: np.ndarray) -> np.ndarray:
    """How many references of the test are strictly faster than each one, int32[b, k, h]; 0 where unusable."""
    index = np.arange(ordered_s.shape[-1], dtype=np.int32)
    starts = np.concatenate(
        [np.ones_like(ordered_s[..., :1], bool), ordered_s[..., 1:] != ordered_s[..., :-1]], axis=-1
    )
    first = np.maximum.accumulate(np.where(starts, index, 0), axis=-1)
    places = np.empty_like(first)
    np.put_along_axis(places, order, np.where(np.isfinite(ordered_s), first, 0), axis=-1)
    return places


def _ranked_limits(ordered_s: np.ndarray, order: np.ndarray, places: np.ndarray) -> np.ndarray:
    """lambda_ranked for every percent and both bounds (max, median), [b, percents, 2, k] s (paper L3040)."""
    is_usable = np.isfinite(ordered_s)
    usable = np.empty_like(is_usable)
    np.put_along_axis(usable, order, is_usable, axis=-1)
    tests_of = usable.sum(axis=1, dtype=np.int32)
    position = mean_rank_order(places.sum(axis=1, dtype=np.int32), tests_of).astype(np.int32)
    position = np.take_along_axis(np.broadcast_to(position[:, None], order.shape), order, axis=-1)
    limits = []
    for percent in PERCENTS:
        kept = np.maximum(1, np.ceil(percent * (tests_of > 0).sum(axis=-1) / 100 - 1e-4))
        limits.append(_max_and_median(ordered_s, is_usable & (position < kept[:, None, None])))
    return np.stack(limits, axis=1)


def _max_and_median(ordered_s: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Maximum and median of the chosen values of each ascending row, [b, 2, k]; nan where none is chosen."""
    place = np.cumsum(chosen, axis=-1, dtype=np.int32)
    last = place[..., -1:] - 1

    def value_at(rank: np.ndarray) -> np.ndarray:
        index = np.argmax(place > np.maximum(rank, 0), axis=-1)
        return np.take_along_axis(ordered_s, index[..., None], axis=-1)[..., 0]

    low, high = value_at(last // 2), value_at((last + 1) // 2)
    with np.errstate(invalid="ignore"):
        median = np.where(low == high, low, low + np.float32(0.5) * (high - low))
    limits = np.stack([value_at(last), median], axis=-2)
    return np.where(last[..., None, :, 0] >= 0, limits, np.float32(np.nan))
