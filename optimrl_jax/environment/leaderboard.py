"""Who is ahead of whom on a leaderboard: exact order of mean positions, with a candidate put into every list.

Positions are counted in halves, so that both tie rules give whole numbers. A mean adds fractions whose denominators
differ from test to test, and as float32 it would tie programs that differ and part programs that are equal. `Mean`
therefore keeps each sum as a whole number of small units, which 32 bits hold exactly, and a rest below one unit a test.
"""

import typing

import jax
import jax.numpy as jnp

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int

# Candidates compared with the whole pool at once: bounds the memory of a leaderboard at this many rows of references.
CHUNK = 256
# Units by which cross-multiplied means must differ. The float32 rests of 256 tests stay below it; with equally many
# references on each test, two different means lie at least 2^bits / (2 h) apart: 2.5 units for 256 tests x 3,185.
ROUNDING = 0.25


class Mean(typing.NamedTuple):
    """Sum over `tests` tests of position / participants, in units of 2^-bits: whole + rest; smaller is faster."""

    whole: "Int[Array, '*n']"
    rest: "Float[Array, '*n']"
    tests: "Int[Array, '*n']"


class Board(typing.NamedTuple):
    """The references of one problem as they stand among themselves: seconds and usable cells [k, h], means [h]."""

    duration_s: "Float[Array, 'k h']"
    is_usable: "Bool[Array, 'k h']"
    mean: Mean


def board_of(half_places: "Int[Array, 'k h']", duration_s: "Float[Array, 'k h']") -> Board:
    """A board from twice the position of each reference among the others; +inf seconds mark unusable cells."""
    is_usable = jnp.isfinite(duration_s)
    return Board(duration_s, is_usable, _summed(half_places, is_usable, is_usable))


def mean_of(half_places: "Int[Array, 'k r']", board: Board) -> Mean:
    """Means [r] of candidates from twice their position on each test, over all tests with usable references."""
    return _summed(half_places, board.is_usable.any(axis=-1, keepdims=True), board.is_usable)


def positions(board: Board, candidate_s: "Float[Array, 'r k']", mean: Mean, *, ties: str) -> "Int[Array, 'r']":
    """How many references are ahead of each candidate once it is in the list of every test (SPEC section 3, 2)."""
    gains = [_beaten(board, halves) for halves in ((2,) if ties == "first" else (2, 1))]

    def position(candidate: tuple[jax.Array, Mean]) -> jax.Array:
        own_s, own_mean = candidate
        return (_is_ahead(_moved_back(board, own_s, gains=gains), own_mean) & (board.mean.tests > 0)).sum()

    candidates = (jnp.asarray(candidate_s), mean)
    # A group fits one chunk; `lax.map` would compile the comparison twice.
    if jnp.shape(candidate_s)[0] <= CHUNK:
        return jax.vmap(position)(candidates)
    return jax.lax.map(position, candidates, batch_size=CHUNK)


def _bits(k: int, h: int) -> int:
    """Bits after the point such that neither a scaled position nor a sum times the tests overflows 32 bits."""
    return max(0, min(30 - 2 * (k - 1).bit_length(), 29 - h.bit_length()))


def _participants(is_usable: jax.Array) -> jax.Array:
    """References of each test, [k, 1]: with the candidate, those it is compared with."""
    return jnp.maximum(is_usable.sum(axis=-1, keepdims=True), 1)


def _in_units(halves: jax.Array, is_usable: jax.Array) -> tuple[jax.Array, jax.Array]:
    """halves / (2 participants) in units: (whole, rest in [0, 1))."""
    whole, rest = jnp.divmod(halves << _bits(*is_usable.shape), 2 * _participants(is_usable))
    return whole, rest / (2 * _participants(is_usable))


def _summed(halves: jax.Array, counts: jax.Array, is_usable: jax.Array) -> Mean:
    whole, rest = (jnp.where(counts, part, 0).sum(axis=0) for part in _in_units(halves, is_usable))
    return Mean(whole, rest, jnp.broadcast_to(counts.sum(axis=0), whole.shape))


def _beaten(board: Board, halves: int) -> tuple[jax.Array, jax.Array]:
    """What falling back by so many half positions adds to a mean on each test, [k] each."""
    return tuple(
        part[:, 0] for part in _in_units(jnp.full_like(_participants(board.is_usable), halves), board.is_usable)
    )


def _moved_back(board: Board, candidate_s: "Float[Array, 'k']", *, gains: list[tuple[jax.Array, jax.Array]]) -> Mean:
    """The references' means after one candidate was inserted: those it beats fall back by one, tied ones by half."""

    def one_more(mean: Mean, test) -> tuple[Mean, None]:
        own_s, pool_s, is_usable, (won, *tied) = test
        whole, rest = (jnp.where(is_usable & (own_s < pool_s), part, 0) for part in won)
        for part_whole, part_rest in tied:
            is_tied = is_usable & (own_s == pool_s)
            whole, rest = whole + jnp.where(is_tied, part_whole, 0), rest + jnp.where(is_tied, part_rest, 0)
        return mean._replace(whole=mean.whole + whole, rest=mean.rest + rest), None

    return jax.lax.scan(one_more, board.mean, (candidate_s, board.duration_s, board.is_usable, gains))[0]


def _is_ahead(left: Mean, right: Mean) -> "Bool[Array, '*n']":
    """left < right as means: cross-multiplied whole numbers first, which are exact, and the rests on top."""
    whole = right.tests * left.whole - left.tests * right.whole
    rest = right.tests * left.rest - left.tests * right.rest
    return whole + rest < -ROUNDING
