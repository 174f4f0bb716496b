"""The whole sweep at once: which reference solutions pass in which of the 1,578 environments.

Second stage of the simulator. What `environment.judge` computes for one environment, this computes for all of them
from shared parts: references are sorted and ranked once a problem (`problems.prepare_problems`), filters and limits are
evaluated once each, and the number of timeouts under every (filter, limit) pair is one matrix product. The results are
the same, candidate for candidate; a test holds the two together.
"""

import collections
import concurrent.futures
import functools
import itertools
import operator
import typing
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from optimrl_jax.arrays import GATE_MARGIN, Array, Status, TestKind
from optimrl_jax.environment import families, leaderboard
from optimrl_jax.simulator.configurations import configurations
from optimrl_jax.simulator.problems import PreparedProblems, Problems, prepare_problems

# Cells of the [k, h] matrices in one batch: small enough for the caches, large enough to hide the dispatch.
BATCH_CELLS = 1 << 18
# NumPy sorts one batch while XLA judges another; a third in flight would only wait.
IN_FLIGHT = 2
# Batches that are sorted while XLA compiles, and then wait: 5 MB each.
PREPARED = 24
BYTE = 8


class Passes(typing.NamedTuple):
    """One row for each (problem, reference), problem by problem; padding is included and never a candidate.

    Attributes:
      packed: uint8`[n, ceil(c / 8)]`, the bits of c_strict and g in each configuration, in the order of
        `configurations()` (`np.packbits`): at 12,275 problems a byte for each would take 2.5 GB.
      quality: float`[n]` in [0, 1], 1 - q_QP over the whole optimization pool, 1 best.
      is_candidate: bool`[n]`; leaves out padding, references without any usable test and those with a recorded fault.
      problem: int`[n]`, the problem of the row.
    """

    packed: np.ndarray
    quality: np.ndarray
    is_candidate: np.ndarray
    problem: np.ndarray

    def passes(self, rows: np.ndarray | slice) -> np.ndarray:
        """Unpack who passes where: bool`[m, c]` of the rows."""
        return np.unpackbits(self.packed[rows], axis=-1, count=len(configurations())).astype(bool)


def sweep(
    groups: typing.Sequence[Problems],
    *,
    alpha: float = 1.0,
    beta_s: float = 0.0,
    on_batch: Callable[[int, int], None] = lambda done, total: None,
) -> Passes:
    """Judge every reference of every problem in every configuration.

    Time grows linearly with problems and tests, at most quadratically with references; memory holds one bit for each
    candidate and configuration.

    Args:
      groups: problems of equal padded shape; each group is compiled once.
      alpha: slope of the calibration of references, without unit.
      beta_s: its offset, seconds.
      on_batch: called with the number of problems done and their total.

    Raises:
      ValueError: without any problem.
    """
    groups = [group for group in groups if len(group.status)]
    if not groups:
        raise ValueError("groups: expected at least one problem")
    references = [h for group in groups for h in [group.status.shape[2]] * len(group.status)]
    problem = np.repeat(np.arange(len(references)), references)
    found = Passes(
        np.empty((problem.size, -(-len(configurations()) // BYTE)), np.uint8),
        np.empty(problem.size, np.float32),
        np.empty(problem.size, bool),
        problem,
    )
    first_row = first_problem = 0
    for group in groups:
        b, _, h = group.status.shape
        for start, (packed, quality, is_candidate) in _judge_batches(group, alpha=alpha, beta_s=beta_s):
            rows = slice(first_row + start * h, first_row + start * h + quality.size)
            found.packed[rows] = packed.reshape(quality.size, -1)
            found.quality[rows] = quality.ravel()
            found.is_candidate[rows] = is_candidate.ravel()
            on_batch(first_problem + start + len(quality), len(references))
        first_row, first_problem = first_row + b * h, first_problem + b
    return found


def _judge_batches(group: Problems, *, alpha: float, beta_s: float) -> Iterator[tuple[int, tuple[np.ndarray, ...]]]:
    """Yield (first problem, judged arrays) of every batch of a group; the last batch overlaps the one before it.

    Equal batches share one program, which is compiled while the first ones are sorted.
    """
    b, k, h = group.status.shape
    size = min(b, max(1, BATCH_CELLS // (k * h)))
    starts = [min(start, b - size) for start in range(0, b, size)]
    batches = (jax.tree.map(operator.itemgetter(slice(start, start + size)), group) for start in starts)
    prepare = functools.partial(prepare_problems, alpha=alpha, beta_s=beta_s)
    with (
        concurrent.futures.ThreadPoolExecutor(1) as sorter,
        concurrent.futures.ThreadPoolExecutor(IN_FLIGHT) as judges,
    ):
        prepared = _map_ahead(sorter, prepare, batches, most=PREPARED)
        first = judges.submit(_judge_batch, next(prepared))
        judged = _map_ahead(judges, functools.partial(_judge_batch, after=first), prepared, most=IN_FLIGHT)
        yield from zip(starts, itertools.chain(map(operator.methodcaller("result"), [first]), judged), strict=True)


def _map_ahead(
    pool: concurrent.futures.ThreadPoolExecutor,
    function: Callable[..., typing.Any],
    values: Iterator[typing.Any],
    *,
    most: int,
) -> Iterator[typing.Any]:
    """Map in order like `pool.map`, at most so many values ahead of whoever takes the results; begins at once."""
    waiting = collections.deque(pool.submit(function, value) for value in itertools.islice(values, most))

    def take() -> Iterator[typing.Any]:
        while waiting:
            found = waiting.popleft().result()
            waiting.extend(pool.submit(function, value) for value in itertools.islice(values, 1))
            yield found

    return take()


def _judge_batch(
    prepared: PreparedProblems, *, after: concurrent.futures.Future | None = None
) -> tuple[np.ndarray, ...]:
    """Judge a batch; `after` is the one whose call compiles the program."""
    if after:
        after.result()
    # Durations go in twice: once XLA knows that candidates are the references, the QP comparison runs ten times slower.
    return tuple(np.asarray(part) for part in _judge_problems(prepared, prepared.duration_s))


@jax.jit
def _judge_problems(prepared: PreparedProblems, candidate_s: np.ndarray) -> tuple[Array, ...]:
    """Judge problems one at a time, so that each stays in the caches.

    Returns passes as bits `[b, h, ceil(c / 8)]`, quality `[b, h]` and is_candidate `[b, h]`.
    """
    return jax.lax.map(lambda problem: _judge_problem(*problem), (prepared, candidate_s))


def _judge_problem(problem: PreparedProblems, candidate_s: Array) -> tuple[Array, ...]:
    """Judge the references of one problem: passes as bits `[h, ceil(c / 8)]`, quality `[h]`, is_candidate `[h]`."""
    tests, status = problem.tests, problem.status
    pool = tests.mask & (tests.kind == TestKind.OPTIMIZATION)
    usable = jnp.isfinite(problem.duration_s)
    succeeded = status == Status.SUCCESS
    c = jnp.all(succeeded | ~(tests.mask & ~pool)[:, None], axis=0)
    is_soiled = ~(succeeded | (status == Status.TIMEOUT))
    is_late = functools.partial(_is_late, status, problem.duration_s)
    shared = (c, is_soiled, is_late)

    kept = (pool & problem.is_kept).astype(jnp.float32)
    late = jax.vmap(is_late)(_column(families.DURATIONS_S)).astype(jnp.float32)
    late_count = jnp.einsum("fk,lkh->flh", kept, late)
    strict = c & (kept @ is_soiled.astype(jnp.float32) == 0)
    filtered = strict[:, None, None] & _gate(late_count, kept.sum(axis=-1)[:, None, None])

    limited = jax.vmap(lambda limit_s: _gate_by_limit(limit_s, pool, *shared))(problem.limit_s)

    strict = c & ~jnp.any(is_soiled & pool[:, None], axis=0)
    thresholds = _column(families.THRESHOLDS)[:, None] + GATE_MARGIN
    qp = _leaderboard_percentile(problem, candidate_s)
    post = [strict & (~usable.any() | (q <= thresholds)) for q in (_mean_percentile(problem), qp)]
    columns = [block.reshape(-1, c.size) for block in (filtered, limited)]
    is_faulty = jnp.any((status == Status.FAULT) & tests.mask[:, None], axis=0)
    return _packed(jnp.concatenate([*columns, *post])), 1 - qp, usable.any(axis=0) & ~is_faulty


def _packed(passes: Array) -> Array:
    """Pack `[c, h]` into bits `[h, ceil(c / 8)]` as `np.packbits` does: the first of eight is the highest bit."""
    c, h = passes.shape
    eights = jnp.pad(passes, ((0, -c % BYTE), (0, 0))).reshape(-1, BYTE, h)
    weights = (1 << jnp.arange(BYTE - 1, -1, -1)).astype(jnp.uint8)
    return (eights * weights[:, None]).sum(axis=1, dtype=jnp.uint8).T


def _is_late(status: Array, duration_s: Array, limit_s: Array) -> Array:
    """Mark timeouts `[k, h]` under a limit `[k]` or a scalar: recorded ones, and successes that reached the limit."""
    reached = duration_s >= jnp.expand_dims(limit_s, -1)
    return (status == Status.TIMEOUT) | ((status == Status.SUCCESS) & reached)


def _gate(late_count: Array, used_count: Array) -> Array:
    """Compute g_to of every tolerance, on a new axis before the last: phi <= rho."""
    phi = late_count / jnp.maximum(used_count, 1)
    return phi[..., None, :] <= _column(families.TOLERANCES)[:, None] + GATE_MARGIN


def _gate_by_limit(limit_s, pool, c, is_soiled, is_late) -> Array:
    """Compute passes `[tolerances, h]` under limits `[k]` that come from references; a test without one is left out."""
    used = (pool & ~jnp.isnan(limit_s))[:, None]
    strict = c & ~jnp.any(is_soiled & used, axis=0)
    return strict & _gate((is_late(limit_s) & used).sum(axis=0), used.sum())


def _mean_percentile(problem: PreparedProblems) -> Array:
    """Compute a(.) of each reference over its usable tests, `[h]`; as a candidate it takes its own place."""
    usable = jnp.isfinite(problem.duration_s)
    share = problem.places / jnp.maximum(usable.sum(axis=-1, keepdims=True), 1)
    return jnp.where(usable, share, 0.0).sum(axis=0) / jnp.maximum(usable.sum(axis=0), 1)


def _leaderboard_percentile(problem: PreparedProblems, candidate_s: Array) -> Array:
    """Compute q_QP of each reference, `[h]`: exact, each is inserted into the list of every test."""
    board = leaderboard.board_of(2 * problem.places, problem.duration_s)
    ahead = leaderboard.positions(board, candidate_s.T, board.mean, ties="first")
    return ahead / jnp.maximum((board.mean.tests > 0).sum(), 1)


def _column(values: tuple[float, ...]) -> Array:
    return jnp.asarray(values, jnp.float32)
