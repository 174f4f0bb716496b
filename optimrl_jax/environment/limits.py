"""Intra-execution limits: the intended time limit of each optimization test (paper L3024-3062). Each returns [k] s.

+inf means that only the service cap holds, nan that the test has nothing to derive a limit from and is left out.
"""

import jax.numpy as jnp

from optimrl_jax.arrays import References
from optimrl_jax.environment.calibration import percentile
from optimrl_jax.environment.order import faster_and_tied, ordered

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
    limit_s = percentile(ordered(references.duration_s), count, limit)
    return jnp.where(count > 0, jnp.maximum(SHORTEST_S, limit_s), jnp.nan)


def ranked(references: References, limit: float, *, bound: str) -> jnp.ndarray:
    """Maximum or median duration, on each test, of the best `limit` percent of references by mean per-test rank.

    ceil(limit * n / 100) references are kept, at least one (SPEC section 3, 9); ties on the mean rank keep the earlier
    reference. `references` must be unusable outside the retained tests.
    """
    tests_of = references.is_usable.sum(axis=0)
    kept = jnp.maximum(1.0, jnp.ceil(limit * (tests_of > 0).sum() / 100 - 1e-4))
    chosen = references.is_usable & (_position_by_mean_rank(references, tests_of) < kept)
    duration_s = jnp.where(chosen, references.duration_s, jnp.inf)
    count = chosen.sum(axis=-1)
    if bound == "max":
        limit_s = jnp.where(chosen, duration_s, -jnp.inf).max(axis=-1, initial=-jnp.inf)
    else:
        limit_s = percentile(ordered(duration_s), count, 50.0)
    return jnp.where(count > 0, limit_s, jnp.nan)


def _position_by_mean_rank(references: References, tests_of: jnp.ndarray) -> jnp.ndarray:
    """Place of each reference in the order by mean per-test rank, [h]; those without a usable test come last.

    The mean is compared as a whole number and a fraction: as one float32, close means of large pools would be tied.
    """
    faster, _ = faster_and_tied(references.duration_s, references.duration_s)
    total = jnp.where(references.is_usable, faster, 0).sum(axis=0)
    whole, rest = jnp.divmod(total, jnp.maximum(tests_of, 1))
    whole = jnp.where(tests_of > 0, whole, jnp.iinfo(jnp.int32).max)
    return jnp.argsort(jnp.lexsort((rest / jnp.maximum(tests_of, 1), whole)))


LIMITS = {"none": service_cap, "absolute": absolute, "relative": relative, "ranked": ranked}
