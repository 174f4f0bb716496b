"""Intra-execution limits: the intended time limit lambda_t of each optimization test (App. D.2).

Second stage of an environment, after the filters. Everything runs under the service's cap of 10 s; the limit is applied
afterwards, to recorded seconds. Each function returns `[k]` seconds: +inf means that only the cap holds, nan that the
test has nothing to derive a limit from and is left out.
"""

import jax.numpy as jnp
from jaxtyping import Float

from optimrl_jax.arrays import Array, References
from optimrl_jax.environment.calibration import ROUNDING, percentile
from optimrl_jax.environment.leaderboard import faster_and_tied, mean_rank_order, ordered

SHORTEST_S = 1e-3


def no_limit(references: References, limit: float, *, bound: str) -> Float[Array, " k"]:
    """Set no intended limit beyond the cap under which everything is executed."""
    return jnp.full(references.duration_s.shape[:-1], jnp.inf)


def fixed_limit(references: References, limit: float, *, bound: str) -> Float[Array, " k"]:
    """Set the same limit l, in seconds, for every test (App. D.2, "Absolute-timeout environments")."""
    return jnp.full(references.duration_s.shape[:-1], limit, jnp.float32)


def percentile_limit(references: References, limit: float, *, bound: str) -> Float[Array, " k"]:
    """Set the `limit`-th percentile of the test's references, at least 1 ms (App. D.2)."""
    count = references.is_usable.sum(axis=-1)
    limit_s = percentile(ordered(references.duration_s), count, limit)
    return jnp.where(count > 0, jnp.maximum(SHORTEST_S, limit_s), jnp.nan)


def leaderboard_limit(references: References, limit: float, *, bound: str) -> Float[Array, " k"]:
    """Set what the best `limit` percent of references, by mean per-test rank, needed on each test.

    App. D.2, "Ranked-reference timeout environments": ceil(limit * n / 100) references are kept, at least one; among
    equal mean ranks the earlier ones.

    Args:
      references: `[k, h]` calibrated, unusable outside the retained tests.
      limit: percent of the references that are kept.
      bound: "max" for the slowest of them on the test, "median" for their median.

    Returns:
      `[k]` seconds; nan where none of those kept has a usable duration.
    """
    tests_of = references.is_usable.sum(axis=0)
    faster, _ = faster_and_tied(references.duration_s, references.duration_s)
    total = jnp.where(references.is_usable, faster, 0).sum(axis=0)
    kept = jnp.maximum(1.0, jnp.ceil(limit * (tests_of > 0).sum() / 100 - ROUNDING))
    is_kept = references.is_usable & (mean_rank_order(total, tests_of) < kept)
    duration_s = jnp.where(is_kept, references.duration_s, jnp.inf)
    count = is_kept.sum(axis=-1)
    if bound == "max":
        limit_s = jnp.where(is_kept, duration_s, -jnp.inf).max(axis=-1, initial=-jnp.inf)
    else:
        limit_s = percentile(ordered(duration_s), count, 50.0)
    return jnp.where(count > 0, limit_s, jnp.nan)


LIMITS = {
    "none": no_limit,
    "absolute": fixed_limit,
    "relative": percentile_limit,
    "ranked": leaderboard_limit,
}
# Those that read the seconds of references.
TIMED_LIMITS = frozenset({"relative", "ranked"})
