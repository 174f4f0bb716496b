"""Who is ahead of whom: places among durations, exact order of mean places, and a candidate put into every list.

Durations are ranked by counting instead of sorting. Each comparison of a test is one vectorized step, so that memory
stays linear in the pool and the time of a test is the number of pairs: on a CPU that is a tenth of what XLA's sort
takes at 128 references, and still less at 3,000.

Positions are counted in halves, so that both tie rules give whole numbers. A mean adds fractions whose denominators
differ from test to test, and as one float32 it would tie programs that differ and part programs that are equal. `Mean`
therefore keeps each sum as a whole number of small units, which 32 bits hold exactly, and a rest below one unit a test.
"""

import typing

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from optimrl_jax.arrays import Array, array_module

# Candidates compared with the whole pool at once: bounds the memory of a leaderboard at this many rows of references.
CHUNK = 256
# Units by which cross-multiplied means must differ. The float32 rests of 256 tests stay below it; with equally many
# references on each test, two different means lie at least 2^bits / (2 h) apart: 2.5 units for 256 tests x 3,185.
ROUNDING = 0.25


class Mean(typing.NamedTuple):
    """Mean places, smaller is faster: the sum over `tests` of position / participants in units of 2^-bits.

    Attributes:
      whole: `[*n]` whole units of the sum.
      rest: `[*n]` remainder of the sum, below one unit a test.
      tests: `[*n]` number of summands; 0 for a participant that no test ranks.
    """

    whole: Int[Array, "*n"]
    rest: Float[Array, "*n"]
    tests: Int[Array, "*n"]


class Board(typing.NamedTuple):
    """The references of one problem as they stand among themselves.

    Attributes:
      duration_s: `[k, h]` seconds, +inf where unusable.
      is_usable: `[k, h]` cells that take part.
      mean: `[h]` mean places.
    """

    duration_s: Float[Array, "k h"]
    is_usable: Bool[Array, "k h"]
    mean: Mean


def faster_and_tied(
    pool_s: Float[Array, "k h"], duration_s: Float[Array, "k n"]
) -> tuple[Int[Array, "k n"], Int[Array, "k n"]]:
    """Count, test by test, how much of the pool is strictly faster than each duration and how much exactly as fast.

    Args:
      pool_s: `[k, h]` seconds, +inf where unusable.
      duration_s: `[k, n]` seconds to place among them.

    Returns:
      Two counts `[k, n]`. A duration that is itself in the pool counts as tied with itself.
    """

    def count_rival(counts, rival_s):
        faster, tied = counts
        rival_s = rival_s[:, None]
        return (faster + (rival_s < duration_s), tied + (rival_s == duration_s)), None

    nobody = jnp.zeros(jnp.shape(duration_s), jnp.int32)
    counts, _ = jax.lax.scan(count_rival, (nobody, nobody), jnp.swapaxes(pool_s, 0, 1))
    return counts


def places(duration_s: Float[Array, "k h"]) -> Int[Array, "k h"]:
    """Rank each row from 0 with all places different: among equal values the earlier one comes first."""
    index = jnp.arange(jnp.shape(duration_s)[1])

    def count_rival(ahead, rival):
        rival_s, rival_index = rival
        rival_s = rival_s[:, None]
        is_ahead = (rival_s < duration_s) | ((rival_s == duration_s) & (rival_index < index))
        return ahead + is_ahead, None

    nobody = jnp.zeros(jnp.shape(duration_s), jnp.int32)
    return jax.lax.scan(count_rival, nobody, (jnp.swapaxes(duration_s, 0, 1), index))[0]


def ordered(duration_s: Float[Array, "k h"]) -> Float[Array, "k h"]:
    """Sort each row in ascending order."""
    rows = jnp.arange(jnp.shape(duration_s)[0])[:, None]
    empty = jnp.zeros(jnp.shape(duration_s), jnp.float32)
    return empty.at[rows, places(duration_s)].set(duration_s, unique_indices=True)


def mean_rank_order(total: Int[Array, "*b h"], tests: Int[Array, "*b h"]) -> Int[Array, "*b h"]:
    """Place participants in the order of their mean rank, total / tests; among equals the earlier one comes first.

    The mean is compared as a whole number and a fraction: as one float32, close means of large pools would be tied
    (191 tests and ranks of 257 are enough). Ranked-reference timeouts keep the best of this order (App. D.2).

    Args:
      total: `[*b, h]` sum of a participant's ranks over its tests; NumPy in, NumPy out, and JAX likewise.
      tests: `[*b, h]` number of those tests; participants with 0 come last.

    Returns:
      `[*b, h]` places, 0 for the smallest mean.
    """
    xp = array_module(total, tests)
    whole, rest = xp.divmod(total, xp.maximum(tests, 1))
    fraction = (rest / xp.maximum(tests, 1)).astype(xp.float32)
    whole = xp.where(tests > 0, whole, xp.iinfo(xp.int32).max)
    return xp.argsort(xp.lexsort((fraction, whole), axis=-1), axis=-1)


def board_of(half_places: Int[Array, "k h"], duration_s: Float[Array, "k h"]) -> Board:
    """Make a board from the places of the references among themselves.

    Args:
      half_places: `[k, h]` twice the place of each reference.
      duration_s: `[k, h]` seconds; +inf marks unusable cells.
    """
    is_usable = jnp.isfinite(duration_s)
    return Board(duration_s, is_usable, _sum_places(half_places, is_usable, is_usable))


def mean_of(half_places: Int[Array, "k r"], board: Board) -> Mean:
    """Average the places of candidates over the tests with usable references.

    Args:
      half_places: `[k, r]` twice the place of each candidate.
      board: the references among themselves.

    Returns:
      Mean places whose fields are `[r]`.
    """
    return _sum_places(half_places, jnp.any(board.is_usable, axis=-1, keepdims=True), board.is_usable)


def positions(board: Board, candidate_s: Float[Array, "r k"], mean: Mean, *, ties: str) -> Int[Array, " r"]:
    """Count the references that stay ahead of each candidate once it is inserted into the list of every test.

    Inserting a candidate also moves the references that it beats: exact QP (App. D.2, "Post-execution ranking").

    Args:
      board: the references among themselves.
      candidate_s: `[r, k]` seconds of the candidates.
      mean: `[r]` the candidates' own mean places (`mean_of`).
      ties: "first", or "average" where tied participants share the mean of their places.

    Returns:
      `[r]` zero-based positions; a candidate tied with a reference on the mean takes the better one.
    """
    gains = [_cost_of_places(board, halves) for halves in ((2,) if ties == "first" else (2, 1))]

    def position(candidate: tuple[Array, Mean]) -> Array:
        own_s, own_mean = candidate
        return (_is_ahead(_insert(board, own_s, gains=gains), own_mean) & (board.mean.tests > 0)).sum()

    candidates = (jnp.asarray(candidate_s), mean)
    # A group fits one chunk; `lax.map` would compile the comparison twice.
    if jnp.shape(candidate_s)[0] <= CHUNK:
        return jax.vmap(position)(candidates)
    return jax.lax.map(position, candidates, batch_size=CHUNK)


def _bits(k: int, h: int) -> int:
    """Choose the bits after the point: neither a scaled position nor a sum times the tests may overflow 32 bits."""
    return max(0, min(30 - 2 * (k - 1).bit_length(), 29 - h.bit_length()))


def _participants(is_usable: Array) -> Array:
    """Count the usable references of each test, `[k, 1]`, as 1 where there are none."""
    return jnp.maximum(is_usable.sum(axis=-1, keepdims=True), 1)


def _in_units(halves: Array, is_usable: Array) -> tuple[Array, Array]:
    """Split halves / (2 participants) into whole units and a rest in [0, 1)."""
    whole, rest = jnp.divmod(halves << _bits(*is_usable.shape), 2 * _participants(is_usable))
    return whole, rest / (2 * _participants(is_usable))


def _sum_places(halves: Array, counts: Array, is_usable: Array) -> Mean:
    whole, rest = (jnp.where(counts, part, 0).sum(axis=0) for part in _in_units(halves, is_usable))
    return Mean(whole, rest, jnp.broadcast_to(counts.sum(axis=0), whole.shape))


def _cost_of_places(board: Board, halves: int) -> tuple[Array, Array]:
    """Compute what falling back by so many half places adds to a mean on each test, `[k]` each."""
    whole, rest = _in_units(jnp.full_like(_participants(board.is_usable), halves), board.is_usable)
    return whole[:, 0], rest[:, 0]


def _insert(board: Board, candidate_s: Float[Array, " k"], *, gains: list[tuple[Array, Array]]) -> Mean:
    """Update the references' means for one inserted candidate: those it beats fall back by one, tied ones by half."""

    def insert_into_test(mean: Mean, test) -> tuple[Mean, None]:
        own_s, pool_s, is_usable, (won, *tied) = test
        whole, rest = (jnp.where(is_usable & (own_s < pool_s), part, 0) for part in won)
        for part_whole, part_rest in tied:
            is_tied = is_usable & (own_s == pool_s)
            whole, rest = whole + jnp.where(is_tied, part_whole, 0), rest + jnp.where(is_tied, part_rest, 0)
        return mean._replace(whole=mean.whole + whole, rest=mean.rest + rest), None

    return jax.lax.scan(insert_into_test, board.mean, (candidate_s, board.duration_s, board.is_usable, gains))[0]


def _is_ahead(left: Mean, right: Mean) -> Bool[Array, "*n"]:
    """Compare means: cross-multiplied whole numbers, which are exact, with the rests on top."""
    whole = right.tests * left.whole - left.tests * right.whole
    rest = right.tests * left.rest - left.tests * right.rest
    return whole + rest < -ROUNDING
