"""Pre-execution filters: which optimization tests take part (paper L2995-3020). Each returns bool[k]."""

import jax.numpy as jnp

from optimrl_jax.arrays import References, Tests
from optimrl_jax.environment.calibration import aggregate_duration


def keep_all(tests: Tests, references: References, limit: float, *, aggregate: str) -> jnp.ndarray:
    """F_id: every test."""
    return jnp.ones_like(tests.mask)


def absolute(tests: Tests, references: References, limit: float, *, aggregate: str) -> jnp.ndarray:
    """F_abs: tests with a usable reference whose aggregate duration is below `limit` seconds."""
    return references.is_usable.any(axis=-1) & (aggregate_duration(references, aggregate) < limit)


def length(tests: Tests, references: References, limit: float, *, aggregate: str) -> jnp.ndarray:
    """F_len: tests whose input and expected output have fewer than `limit` characters together."""
    return tests.characters < limit


def relative(tests: Tests, references: References, limit: float, *, aggregate: str) -> jnp.ndarray:
    """F_rel: drops the floor(limit * |T_D| / 100) slowest rankable tests; keeps those without references.

    `references` must be unusable outside the pool. Among tests of equal aggregate the later ones go first.
    """
    rankable = references.is_usable.any(axis=-1)
    duration_s = jnp.where(rankable, aggregate_duration(references, aggregate), -jnp.inf)
    slowest_first = jnp.argsort(jnp.argsort(duration_s[::-1], descending=True, stable=True))[::-1]
    # A hair of float32 must not turn 0.29999 * 10 / 100 into one test fewer.
    dropped = jnp.floor(limit * rankable.sum() / 100 + 1e-4)
    return ~(rankable & (slowest_first < dropped))


FILTERS = {"none": keep_all, "absolute": absolute, "length": length, "relative": relative}
