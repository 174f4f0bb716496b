"""Post-execution ranking of a candidate against the reference pool: QAR and exact QP (paper L3060-3080)."""

import jax
import jax.numpy as jnp

from optimrl_jax.arrays import References

# Two means of the same fractions, summed in another order, differ by less than this in float32; two different ones by
# more wherever tests times references stay below about half a million.
SAME = 1e-6


def strictly_faster(pool_s: jnp.ndarray, duration_s: jnp.ndarray) -> jnp.ndarray:
    """How many of `pool_s` [k, h] are strictly faster than each of `duration_s` [k, n], test by test; int [k, n]."""
    return jax.vmap(jnp.searchsorted)(jnp.sort(pool_s, axis=-1), duration_s)


def per_test_percentile(references: References, duration_s: jnp.ndarray, *, ties: str) -> jnp.ndarray:
    """Position of each candidate among the references of each test, 0 fastest and 1 slowest: [r, k] (L3060).

    (references strictly faster) / (usable references); with `ties="average"` half of the tied ones count too (L3180).
    0 where a test has no usable reference: mask with `references.is_usable.any(-1)`. `references` hold +inf where
    unusable.
    """
    faster = strictly_faster(references.duration_s, duration_s.T)
    if ties == "average":
        ordered = jnp.sort(references.duration_s, axis=-1)
        not_slower = jax.vmap(lambda row, values: jnp.searchsorted(row, values, side="right"))(ordered, duration_s.T)
        faster = (faster + not_slower) / 2
    count = references.is_usable.sum(axis=-1, keepdims=True)
    return (faster / jnp.maximum(count, 1)).T


def mean_percentile(references: References, duration_s: jnp.ndarray, *, ties: str) -> jnp.ndarray:
    """a(y) of each candidate, [r] in [0, 1]: mean per-test percentile over tests with usable references (L3065).

    0 where no test is usable.
    """
    usable = references.is_usable.any(axis=-1)
    percentiles = jnp.where(usable, per_test_percentile(references, duration_s, ties=ties), 0.0)
    return percentiles.sum(axis=-1) / jnp.maximum(usable.sum(), 1)


def qar(references: References, duration_s: jnp.ndarray, *, ties: str) -> jnp.ndarray:
    """q_QAR = a(y): the average place on each test, [r] in [0, 1]."""
    return mean_percentile(references, duration_s, ties=ties)


def qp(references: References, duration_s: jnp.ndarray, *, ties: str) -> jnp.ndarray:
    """q_QP: the place on the leaderboard ordered by a(.), [r] in [0, 1] (L3073).

    Exact: the candidate is inserted into the list of every test, which also moves the references it beats (SPEC
    section 3, 2). A candidate tied with a reference on a(.) takes the better position. References without any usable
    test are not ranked; 0 where nobody is.
    """
    usable = references.is_usable
    participants = jnp.maximum(usable.sum(axis=-1), 1)
    tests_of = usable.sum(axis=0)
    weight = jnp.where(usable, 1 / participants[:, None], 0.0) / jnp.maximum(tests_of, 1)
    places = strictly_faster(references.duration_s, references.duration_s).astype(jnp.float32)
    if ties == "average":
        ordered = jnp.sort(references.duration_s, axis=-1)
        not_slower = jax.vmap(lambda row: jnp.searchsorted(row, row, side="right"))(ordered)
        places = (places + jnp.take_along_axis(not_slower, _rank_of(references.duration_s), axis=-1) - 1) / 2
    own = (places * weight).sum(axis=0)
    a = mean_percentile(references, duration_s, ties=ties)

    def position(candidate_s: jnp.ndarray, a_of_candidate: jnp.ndarray) -> jnp.ndarray:
        beaten = (candidate_s[:, None] < references.duration_s).astype(jnp.float32)
        if ties == "average":
            beaten = beaten + 0.5 * (candidate_s[:, None] == references.duration_s)
        a_of_references = own + (beaten * weight).sum(axis=0)
        return ((tests_of > 0) & (a_of_references < a_of_candidate - SAME)).sum()

    ahead = jax.vmap(position)(duration_s, a)
    return ahead / jnp.maximum((tests_of > 0).sum(), 1)


def _rank_of(duration_s: jnp.ndarray) -> jnp.ndarray:
    return jnp.argsort(jnp.argsort(duration_s, axis=-1), axis=-1)


RANKINGS = {"qar": qar, "qp": qp}
