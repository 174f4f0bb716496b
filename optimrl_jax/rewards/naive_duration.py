"""Raw-duration baselines: seconds added to correctness, without any reference (App. D.5, Table 42)."""

import jax.numpy as jnp
from jaxtyping import Float

from optimrl_jax.arrays import CAP_S, Array, Execution, Status, TestKind, Tests

SHORTEST_S = 1e-6


def linear_credit(mean_s: Float[Array, "*r"]) -> Float[Array, "*r"]:
    """Credit seconds in [0, 1] by clip(1 - d/10, 0, 1): 10 s earns 0, 1 s earns 0.9."""
    return jnp.clip(1 - mean_s / CAP_S, 0, 1)


def log_credit(mean_s: Float[Array, "*r"]) -> Float[Array, "*r"]:
    """Credit seconds in [0, 1] by clip((1 - log10 max(d, 1e-6))/3, 0, 1): 10 s earns 0, 1 s 1/3, 10 ms and less 1."""
    return jnp.clip((1 - jnp.log10(jnp.maximum(mean_s, SHORTEST_S))) / 3, 0, 1)


DURATION_MAPS = {"linear": linear_credit, "log": log_credit}
SOURCES = {"base": frozenset({TestKind.ORIGINAL}), "optimization": frozenset({TestKind.OPTIMIZATION})}
NAIVE_COMPOSITIONS = {
    f"naive_{source}_{duration_map}": (kinds, duration_map)
    for source, kinds in SOURCES.items()
    for duration_map in DURATION_MAPS
}


def mean_duration(
    tests: Tests, execution: Execution, *, kinds: frozenset[TestKind], limit_s: float
) -> Float[Array, " r"]:
    """Average a program's seconds over its tests of some kinds.

    Args:
      tests: `[k]`.
      execution: `[r, k]`.
      kinds: which tests count.
      limit_s: what timeouts, missing and non-positive durations count as, seconds.

    Returns:
      `[r]` seconds; `limit_s` where there is no such test.
    """
    is_counted = tests.mask & jnp.isin(jnp.asarray(tests.kind), jnp.asarray(sorted(kinds)))
    status, measured_s = jnp.asarray(execution.status), jnp.asarray(execution.duration_s)
    is_measured = (status == Status.SUCCESS) | (status == Status.FAILURE)
    duration_s = jnp.where(is_measured & (measured_s > 0), measured_s, limit_s)
    total_s = jnp.where(is_counted, duration_s, 0.0).sum(axis=-1)
    return jnp.where(is_counted.any(), total_s / jnp.maximum(is_counted.sum(), 1), limit_s)


def naive_reward(c: Float[Array, "*r"], mean_s: Float[Array, "*r"], *, duration_map: str) -> Float[Array, "*r"]:
    """Add credit for seconds to correctness: R = c + m(mean duration) - 1 with c in {0, 1}.

    A wrong but very fast program earns almost 0, as much as a correct one at the cap.

    Args:
      c: `[*r]` 1 where all correctness tests succeed, else 0.
      mean_s: `[*r]` mean seconds (`mean_duration`).
      duration_map: m, a key of `DURATION_MAPS`.

    Returns:
      `[*r]` in [-1, 1].
    """
    return c + DURATION_MAPS[duration_map](mean_s) - 1
