"""Intra-execution limits: the intended time limit of each optimization test (paper L3024-3062). Each returns [k] s.

+inf means that only the service cap holds, nan that the test has nothing to derive a limit from and is left out.
"""

import jax.numpy as jnp

from optimrl_jax.arrays import References
from optimrl_jax.environment.calibration import percentile
from optimrl_jax.environment.ranking import strictly_faster

SHORTEST_S = 1e-3


def service_cap(references: References, limit: float, *, bound: str) -> jnp.ndarray:
    """No intended limit beyond the cap under which everything is executed."""
    return jnp.full(references.duration_s.shape[:-1], jnp.inf)


def absolute(references: References, limit: float, *, bound: str) -> jnp.ndarray:
    """The same `limit` in seconds for every test."""
    return jnp.full(references.duration_s.shape[:-1], limit, jnp.float32)


def relative(references: References, limit: float, *, bound: str) -> jnp.ndarray:
    """max(1e-3 s, `limit`-th percentile of the references of the test)."""
    count = references.is_usable.sum(axis=-1)
    limit_s = percentile(jnp.sort(references.duration_s, axis=-1), count, limit)
    return jnp.where(count > 0, jnp.maximum(SHORTEST_S, limit_s), jnp.nan)


def ranked(references: References, limit: float, *, bound: str) -> jnp.ndarray:
    """Maximum or median duration, on each test, of the best `limit` percent of references by mean per-test rank.

    ceil(limit * n / 100) references are kept, at least one (SPEC section 3, 9); ties on the mean rank keep the earlier
    reference. `references` must be unusable outside the retained tests.
    """
    tests_of = references.is_usable.sum(axis=0)
    ranks = jnp.where(references.is_usable, strictly_faster(references.duration_s, references.duration_s), 0)
    mean_rank = jnp.where(tests_of > 0, ranks.sum(axis=0) / jnp.maximum(tests_of, 1), jnp.inf)
    position = jnp.argsort(jnp.argsort(mean_rank, stable=True))
    kept = jnp.maximum(1.0, jnp.ceil(limit * (tests_of > 0).sum() / 100 - 1e-4))
    chosen = references.is_usable & (position < kept)
    count = chosen.sum(axis=-1)
    ordered = jnp.sort(jnp.where(chosen, references.duration_s, jnp.inf), axis=-1)
    limit_s = percentile(ordered, count, 100.0 if bound == "max" else 50.0)
    return jnp.where(count > 0, limit_s, jnp.nan)


LIMITS = {"none": service_cap, "absolute": absolute, "relative": relative, "ranked": ranked}
