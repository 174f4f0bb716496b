"""Pre-execution filters: which optimization tests take part (App. D.2, "Pre-execution filtering").

First stage of an environment. Each function takes the tests `[k]`, the calibrated references `[k, h]` (unusable outside
the pool) and the family's number, and returns `[k]` booleans; none of them looks at a candidate. Several problems
`[b, k]` and several numbers `[f, 1, 1]` broadcast to `[f, b, k]`; NumPy in, NumPy out, and JAX likewise.
"""

from jaxtyping import Bool

from optimrl_jax.arrays import Array, References, Tests, array_module
from optimrl_jax.environment.calibration import ROUNDING, aggregate_duration


def keep_all(tests: Tests, references: References, limit: float | Array, *, aggregate: str) -> Bool[Array, "*k"]:
    """Keep every test: F_id."""
    return array_module(tests.mask).ones_like(tests.mask)


def keep_fast(tests: Tests, references: References, limit: float | Array, *, aggregate: str) -> Bool[Array, "*k"]:
    """Keep tests whose references take less than `limit` seconds in aggregate: F_abs; drop those without references."""
    return references.is_usable.any(axis=-1) & (aggregate_duration(references, aggregate) < limit)


def keep_short(tests: Tests, references: References, limit: float | Array, *, aggregate: str) -> Bool[Array, "*k"]:
    """Keep tests whose input and expected output have fewer than `limit` characters together: F_len."""
    return tests.characters < limit


def drop_slowest(tests: Tests, references: References, limit: float | Array, *, aggregate: str) -> Bool[Array, "*k"]:
    """Drop the floor(limit * |T_D| / 100) slowest of the tests T_D that have references: F_rel.

    Tests without references stay. Among tests of equal aggregate the later ones go first.
    """
    rankable = references.is_usable.any(axis=-1)
    xp = array_module(rankable, limit)
    duration_s = xp.where(rankable, aggregate_duration(references, aggregate), -xp.inf)
    slowest_first = xp.argsort(xp.argsort(-duration_s[..., ::-1], axis=-1, stable=True), axis=-1)[..., ::-1]
    dropped = xp.floor(limit * rankable.sum(axis=-1, keepdims=True) / 100 + ROUNDING)
    return ~(rankable & (slowest_first < dropped))


FILTERS = {"none": keep_all, "absolute": keep_fast, "length": keep_short, "relative": drop_slowest}
# Those that read the seconds of references.
TIMED_FILTERS = frozenset({"absolute", "relative"})
