"""Problems whose references stand in for a policy's programs, and what is computed once for each of them.

First stage of the simulator: stored or synthetic (tests, seconds, statuses), stacked by padded shape -> durations
sorted once a test, with everything that the families derive from the order: filters and limits of every grid. NumPy
works here: XLA's sort on CPUs took twelve times as long, and XLA compiled filters and percentiles for longer than NumPy
needs for a thousand problems.
"""

import typing
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool

from optimrl_jax.arrays import CAP_S, Array, References, Status, TestKind, Tests
from optimrl_jax.environment.calibration import calibrated, percentile
from optimrl_jax.environment.families import CHARACTERS, DURATIONS_S, PERCENTS
from optimrl_jax.environment.filters import FILTERS
from optimrl_jax.environment.leaderboard import mean_rank_order
from optimrl_jax.environment.limits import SHORTEST_S
from optimrl_jax.environment.padding import Record, pad_array, pad_tests

# Synthetic durations: chosen for the quantiles that the paper reports (App. B.8, Table 21, and App. C.10): median
# 0.099 s, p90 0.736 s, 7 % of the runs over 1 s.
FLOOR_S = 0.03
SCALE_S = 0.07
PROBLEM_SPREAD = 0.9
SPEED_SPREAD = 0.45
GROWTH = (0.1, 0.9)
NOISE = 0.05
SYNTHETIC_BLOCK = 256


class Problems(typing.NamedTuple):
    """Problems of one padded shape; padded references and tests have the status NOT_RUN.

    Attributes:
      tests: `[b, k]`.
      duration_s: `[b, k, h]` stored seconds of each reference.
      status: int8`[b, k, h]` values of `Status`; a cell is usable if its run succeeded or timed out.
    """

    tests: Tests
    duration_s: np.ndarray
    status: np.ndarray


class PreparedProblems(typing.NamedTuple):
    """What every family shares, over the optimization pool of each problem; +inf marks unusable cells.

    Attributes:
      tests: `[b, k]`.
      status: `[b, k, h]` values of `Status`.
      duration_s: `[b, k, h]` calibrated seconds.
      places: `[b, k, h]` how many references are strictly faster; 0 where unusable.
      is_kept: bool`[b, f, k]`, the tests kept by every point of the three filter grids and, last, by no filter.
      limit_s: `[b, l, k]` seconds of relative timeouts, then of ranked ones; nan where nothing is usable.
    """

    tests: Tests
    status: np.ndarray
    duration_s: np.ndarray
    places: np.ndarray
    is_kept: np.ndarray
    limit_s: np.ndarray


class StoredRecord(Record, typing.Protocol):
    """What the sweep needs of a problem record: also the statuses of its references, `[k, h]`."""

    @property
    def status(self) -> np.ndarray: ...


def stack_problems(
    records: Sequence[StoredRecord], *, shape_of: Callable[[StoredRecord], tuple[int, int]]
) -> list[Problems]:
    """Group records by padded shape and stack each group, so that the sweep compiles few shapes.

    Args:
      records: in any number of tests and references.
      shape_of: the padded (k, h) of a record.

    Returns:
      Problems `[b, k, h]` of each shape, in order of shape; records keep their order within one.
    """
    grouped: dict[tuple[int, int], list[StoredRecord]] = {}
    for record in records:
        grouped.setdefault(shape_of(record), []).append(record)
    return [_stack_group(members, *shape) for shape, members in sorted(grouped.items())]


def _stack_group(records: Sequence[StoredRecord], k: int, h: int) -> Problems:
    tests = [pad_tests(record, k) for record in records]
    duration_s = [pad_array(np.asarray(record.duration_s, np.float32), (k, h)) for record in records]
    status = [pad_array(np.asarray(record.status, np.int8), (k, h), fill=int(Status.NOT_RUN)) for record in records]
    return Problems(
        Tests(*(np.stack(column) for column in zip(*tests, strict=True))), np.stack(duration_s), np.stack(status)
    )


def synthetic(*, problems: int, tests: int, references: int, seed: int) -> Problems:
    """Make up problems at the paper's scale, with its spread of durations.

    Every problem has a scale; every test a size; every reference a speed and a growth, so that slow and fast solutions
    part on large tests, as they do in DMC-Optim. Only shapes and quantiles are borrowed, no measured data.

    Args:
      problems: how many.
      tests: of each problem.
      references: of each problem.
      seed: of everything drawn.

    Returns:
      Problems `[b, k, h]` of optimization tests alone; runs that reach 10 s are recorded timeouts.
    """
    draw = np.random.default_rng(seed)
    shape = (problems, tests, references)
    size = draw.random((problems, tests, 1), np.float32)
    growth = draw.uniform(*GROWTH, (problems, 1, references)).astype(np.float32)
    speed = draw.normal(0, SPEED_SPREAD, (problems, 1, references)).astype(np.float32)
    scale = draw.normal(0, PROBLEM_SPREAD, (problems, 1, 1)).astype(np.float32)
    duration_s = np.empty(shape, np.float32)
    # Blocks of problems draw the numbers that one call would; whole intermediate arrays would take five times the room.
    for start in range(0, problems, SYNTHETIC_BLOCK):
        block = slice(start, start + SYNTHETIC_BLOCK)
        noise = NOISE * draw.standard_normal(duration_s[block].shape, np.float32)
        # Half a decade above the middle size costs half a decade times the growth: sizes span four decades.
        trend = np.log(10) * growth[block] * 2 * (2 * size[block] - 1)
        logarithm = np.log(SCALE_S) + scale[block] + speed[block] + trend + noise
        duration_s[block] = np.minimum(FLOOR_S * np.exp(noise) + np.exp(logarithm), CAP_S)
    kind = np.full((problems, tests), TestKind.OPTIMIZATION, np.int32)
    characters = (10 ** (1.0 + 4.5 * size[..., 0])).astype(np.int32)
    status = np.where(duration_s >= CAP_S, np.int8(Status.TIMEOUT), np.int8(Status.SUCCESS))
    return Problems(Tests(kind, characters, np.ones((problems, tests), bool)), duration_s, status)


def usable_cells(problems: Problems) -> Bool[Array, "b k h"]:
    """Mark recorded runs on optimization tests, timeouts included: bool`[b, k, h]`."""
    pool = problems.tests.mask & (problems.tests.kind == TestKind.OPTIMIZATION)
    return np.asarray(pool)[..., None] & np.isin(problems.status, (Status.SUCCESS, Status.TIMEOUT))


def prepare_problems(problems: Problems, *, alpha: float, beta_s: float) -> PreparedProblems:
    """Calibrate, sort and rank the references of each test, once for all families (App. D.2).

    Args:
      problems: of one padded shape.
      alpha: slope of the calibration Gamma, without unit.
      beta_s: its offset, seconds.
    """
    raw = References(problems.duration_s, np.zeros((), np.float32), usable_cells(problems))
    duration_s = np.asarray(calibrated(raw, alpha=alpha, beta_s=beta_s).duration_s)
    order = np.argsort(duration_s, axis=-1)
    ordered_s = np.take_along_axis(duration_s, order, axis=-1)
    places = _places(ordered_s, order)
    limits = np.concatenate([_relative_limits(ordered_s), _ranked_limits(ordered_s, order, places)], axis=1)
    references = raw._replace(duration_s=duration_s)
    return PreparedProblems(
        problems.tests, problems.status, duration_s, places, _kept(problems.tests, references), limits
    )


def _kept(tests: Tests, references: References) -> np.ndarray:
    """Mark the tests kept by every point of the three filter grids and, last, by no filter: bool`[b, f, k]`."""
    kept = [
        FILTERS[name](tests, references, _column(grid), aggregate="mean")
        for name, grid in (("absolute", DURATIONS_S), ("length", CHARACTERS), ("relative", PERCENTS), ("none", (0.0,)))
    ]
    return np.concatenate([one.reshape(-1, *tests.mask.shape) for one in kept]).swapaxes(0, 1)


def _relative_limits(ordered_s: np.ndarray) -> np.ndarray:
    """Compute the limits of relative timeouts, `[b, percents, k]` seconds; nan where nothing is usable."""
    count = np.isfinite(ordered_s).sum(axis=-1)
    limit_s = percentile(ordered_s[None], count[None], _column(PERCENTS))
    return np.where(count > 0, np.maximum(np.float32(SHORTEST_S), limit_s), np.float32(np.nan)).swapaxes(0, 1)


def _column(grid: tuple[float, ...]) -> np.ndarray:
    """Lay the numbers of a grid along an axis of their own before problems and tests, float32`[f, 1, 1]`."""
    return np.asarray(grid, np.float32)[:, None, None]


def _places(ordered_s: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Count the references of the test that are strictly faster than each one, int32`[b, k, h]`; 0 where unusable."""
    index = np.arange(ordered_s.shape[-1], dtype=np.int32)
    starts = np.concatenate(
        [np.ones_like(ordered_s[..., :1], bool), ordered_s[..., 1:] != ordered_s[..., :-1]], axis=-1
    )
    first = np.maximum.accumulate(np.where(starts, index, 0), axis=-1)
    places = np.empty_like(first)
    np.put_along_axis(places, order, np.where(np.isfinite(ordered_s), first, 0), axis=-1)
    return places


def _ranked_limits(ordered_s: np.ndarray, order: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Compute lambda_ranked for every percent and, of each, both bounds (max, median), `[b, 2 percents, k]` seconds."""
    is_usable = np.isfinite(ordered_s)
    usable = np.empty_like(is_usable)
    np.put_along_axis(usable, order, is_usable, axis=-1)
    tests_of = usable.sum(axis=1, dtype=np.int32)
    position = mean_rank_order(places.sum(axis=1, dtype=np.int32), tests_of).astype(np.int16)
    position = np.take_along_axis(np.broadcast_to(position[:, None], order.shape), order, axis=-1)
    limits = []
    for percent in PERCENTS:
        kept = np.maximum(1, np.ceil(percent * (tests_of > 0).sum(axis=-1) / 100 - 1e-4))
        limits.append(_max_and_median(ordered_s, is_usable & (position < kept[:, None, None].astype(np.int16))))
    return np.concatenate(limits, axis=1)


def _max_and_median(ordered_s: np.ndarray, is_kept: np.ndarray) -> np.ndarray:
    """Find maximum and median of the kept values of each ascending row, `[b, 2, k]`; nan where none is kept."""
    kept_s = ordered_s[is_kept]
    count = np.count_nonzero(is_kept, axis=-1)
    if not kept_s.size:
        return np.full((len(count), 2, count.shape[1]), np.nan, np.float32)
    # The kept values of a row lie side by side, behind those of all rows before it.
    first = np.cumsum(count).reshape(count.shape) - count
    last = np.maximum(count - 1, 0)

    def value_at(rank: np.ndarray) -> np.ndarray:
        return kept_s[np.minimum(first + rank, kept_s.size - 1)]

    low, high = value_at(last // 2), value_at((last + 1) // 2)
    with np.errstate(invalid="ignore"):
        median = np.where(low == high, low, low + np.float32(0.5) * (high - low))
    limits = np.stack([value_at(last), median], axis=-2)
    return np.where(count[..., None, :] > 0, limits, np.float32(np.nan))
