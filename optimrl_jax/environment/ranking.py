"""Post-execution ranking of candidates against the reference pool: QAR and exact QP.

App. D.2, "Post-execution ranking". Third stage of an environment: it takes calibrated references and measured seconds,
and never changes either. Every function expects references with +inf where unusable, as `calibrated` leaves them.
"""

import jax.numpy as jnp
from jaxtyping import Float, Int

from optimrl_jax.arrays import Array, References
from optimrl_jax.environment import leaderboard
from optimrl_jax.environment.leaderboard import faster_and_tied


def per_test_percentile(references: References, duration_s: Float[Array, "r k"], *, ties: str) -> Float[Array, "r k"]:
    """Rank each duration among the references of its test: 0 is the fastest position, 1 the slowest.

    p_t = (references strictly faster) / (usable references), so that ties get the percentile of the first participant
    among them (App. D.2, "Post-execution ranking"). With `ties="average"` half of the tied ones count too (App. D.3).

    Args:
      references: `[k, h]` calibrated pool of the problem.
      duration_s: `[r, k]` seconds of the candidates.
      ties: "first" or "average".

    Returns:
      `[r, k]` positions in [0, 1]; 0 where a test has no usable reference: mask with `references.is_usable.any(-1)`.
    """
    half_places = _half_places(references, duration_s, ties=ties)
    return (half_places / (2 * jnp.maximum(references.is_usable.sum(axis=-1, keepdims=True), 1))).T


def qar(references: References, duration_s: Float[Array, "r k"], *, ties: str) -> Float[Array, " r"]:
    """Average the per-test percentiles over tests with usable references: q_QAR = a(y) (App. D.2).

    Args:
      references: `[k, h]` calibrated pool of the problem.
      duration_s: `[r, k]` seconds of the candidates.
      ties: "first" or "average", as in `per_test_percentile`.

    Returns:
      `[r]` in [0, 1], 0 best; 0 where no test has a usable reference.
    """
    usable = references.is_usable.any(axis=-1)
    percentiles = jnp.where(usable, per_test_percentile(references, duration_s, ties=ties), 0.0)
    return percentiles.sum(axis=-1) / jnp.maximum(usable.sum(), 1)


def qp(references: References, duration_s: Float[Array, "r k"], *, ties: str) -> Float[Array, " r"]:
    """Place candidates on the leaderboard ordered by a(.): q_QP = b(y) / max(1, N - 1) (App. D.2).

    Exact: the candidate is inserted into the list of every test, which also moves the references that it beats. A
    candidate tied with a reference on a(.) takes the better position. N counts the candidate and the references with at
    least one usable test; the others are not ranked.

    Args:
      references: `[k, h]` calibrated pool of the problem.
      duration_s: `[r, k]` seconds of the candidates.
      ties: "first" or "average", as in `per_test_percentile`.

    Returns:
      `[r]` in [0, 1], 0 best; 0 where no reference is ranked.
    """
    faster, tied = faster_and_tied(references.duration_s, references.duration_s)
    # A reference is tied with itself, which is no tie.
    among_references = 2 * faster + tied - 1 if ties == "average" else 2 * faster
    board = leaderboard.board_of(among_references, references.duration_s)
    mean = leaderboard.mean_of(_half_places(references, duration_s, ties=ties), board)
    ahead = leaderboard.positions(board, duration_s, mean, ties=ties)
    return ahead / jnp.maximum((board.mean.tests > 0).sum(), 1)


def _half_places(references: References, duration_s: Array, *, ties: str) -> Int[Array, "k r"]:
    """Count twice the position of each candidate among the references of each test."""
    faster, tied = faster_and_tied(references.duration_s, jnp.asarray(duration_s).T)
    return 2 * faster + tied if ties == "average" else 2 * faster


RANKINGS = {"qar": qar, "qp": qp}
