"""Pre-execution filters: which optimization tests take part (App. D.2, "Pre-execution filtering").

First stage of an environment. Each function takes the tests `[k]`, the calibrated references `[k, h]` (unusable outside
the pool) and the family's number, and returns `[k]` booleans; none of them looks at a candidate.
"""

import jax.numpy as jnp
from jaxtyping import Bool

from optimrl_jax.arrays import Array, References, Tests
from optimrl_jax.environment.calibration import aggregate_duration

# Keeps a hair of float32 from turning 30 % of 10 tests into two.
ROUNDING = 1e-4


def keep_all(tests: Tests, references: References, limit: float, *, aggregate: str) -> Bool[Array, " k"]:
    """Keep every test: F_id."""
    return jnp.ones_like(tests.mask)


def keep_fast(tests: Tests, references: References, limit: float, *, aggregate: str) -> Bool[Array, " k"]:
    """Keep tests whose references take less than `limit` seconds in aggregate: F_abs; drop those without references."""
    return references.is_usable.any(axis=-1) & (aggregate_duration(references, aggregate) < limit)


def keep_short(tests: Tests, references: References, limit: float, *, aggregate: str) -> Bool[Array, " k"]:
    """Keep tests whose input and expected output have fewer than `limit` characters together: F_len."""
    return tests.characters < limit


def drop_slowest(tests: Tests, references: References, limit: float, *, aggregate: str) -> Bool[Array, " k"]:
    """Drop the floor(limit * |T_D| / 100) slowest of the tests T_D that have references: F_rel.

    Tests without references stay. Among tests of equal aggregate the later ones go first.
    """
    rankable = references.is_usable.any(axis=-1)
    duration_s = jnp.where(rankable, aggregate_duration(references, aggregate), -jnp.inf)
    slowest_first = jnp.argsort(jnp.argsort(duration_s[::-1], descending=True, stable=True))[::-1]
    dropped = jnp.floor(limit * rankable.sum() / 100 + ROUNDING)
    return ~(rankable & (slowest_first < dropped))


FILTERS = {"none": keep_all, "absolute": keep_fast, "length": keep_short, "relative": drop_slowest}
