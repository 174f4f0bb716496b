"""Post-execution ranking of candidates against the reference pool: QAR and exact QP (paper L3060-3080)."""

import typing

import jax
import jax.numpy as jnp

from optimrl_jax.arrays import References
from optimrl_jax.environment import leaderboard
from optimrl_jax.environment.order import faster_and_tied

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Float, Int


def per_test_percentile(
    references: References, duration_s: "Float[Array, 'r k']", *, ties: str
) -> "Float[Array, 'r k']":
    """Position of each candidate among the references of each test, 0 fastest and 1 slowest: [r, k] (L3060).

    (references strictly faster) / (usable references); with `ties="average"` half of the tied ones count too (L3180).
    0 where a test has no usable reference: mask with `references.is_usable.any(-1)`. `references` hold +inf where
    unusable.
    """
    half_places = _half_places(references, duration_s, ties=ties)
    return (half_places / (2 * jnp.maximum(references.is_usable.sum(axis=-1, keepdims=True), 1))).T


def qar(references: References, duration_s: "Float[Array, 'r k']", *, ties: str) -> "Float[Array, 'r']":
    """q_QAR = a(y): the mean place over tests with usable references, [r] in [0, 1] (L3065); 0 without any."""
    usable = references.is_usable.any(axis=-1)
    percentiles = jnp.where(usable, per_test_percentile(references, duration_s, ties=ties), 0.0)
    return percentiles.sum(axis=-1) / jnp.maximum(usable.sum(), 1)


def qp(references: References, duration_s: "Float[Array, 'r k']", *, ties: str) -> "Float[Array, 'r']":
    """q_QP: the place on the leaderboard ordered by a(.), [r] in [0, 1] (L3073).

    Exact: the candidate is inserted into the list of every test, which also moves the references it beats (SPEC
    section 3, 2). A candidate tied with a reference on a(.) takes the better position. References without any usable
    test are not ranked; 0 where nobody is.
    """
    faster, tied = faster_and_tied(references.duration_s, references.duration_s)
    own = 2 * faster + tied - 1 if ties == "average" else 2 * faster
    board = leaderboard.board_of(own, references.duration_s)
    mean = leaderboard.mean_of(_half_places(references, duration_s, ties=ties), board)
    ahead = leaderboard.positions(board, duration_s, mean, ties=ties)
    return ahead / jnp.maximum((board.mean.tests > 0).sum(), 1)


def _half_places(references: References, duration_s: jax.Array, *, ties: str) -> "Int[Array, 'k r']":
    """Twice the position of each candidate among the references of each test."""
    faster, tied = faster_and_tied(references.duration_s, jnp.asarray(duration_s).T)
    return 2 * faster + tied if ties == "average" else 2 * faster


RANKINGS = {"qar": qar, "qp": qp}
