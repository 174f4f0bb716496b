"""Raw-duration baselines: seconds added to correctness, without any reference (paper L3401-3432)."""

import jax.numpy as jnp

from optimrl_jax.arrays import Execution, Status, TestKind, Tests

SHORTEST_S = 1e-6


def linear(mean_s: jnp.ndarray) -> jnp.ndarray:
    """clip(1 - d/10, 0, 1): 10 s earns 0, 1 s earns 0.9."""
    return jnp.clip(1 - mean_s / 10, 0, 1)


def log(mean_s: jnp.ndarray) -> jnp.ndarray:
    """clip((1 - log10 max(d, 1e-6))/3, 0, 1): 10 s earns 0, 1 s 1/3, 10 ms and less 1."""
    return jnp.clip((1 - jnp.log10(jnp.maximum(mean_s, SHORTEST_S))) / 3, 0, 1)


DURATION_MAPS = {"linear": linear, "log": log}
SOURCES = {"base": frozenset({TestKind.ORIGINAL}), "optimization": frozenset({TestKind.OPTIMIZATION})}
NAIVE_COMPOSITIONS = {
    f"naive_{source}_{duration_map}": (kinds, duration_map)
    for source, kinds in SOURCES.items()
    for duration_map in DURATION_MAPS
}


def mean_duration(tests: Tests, execution: Execution, *, kinds: frozenset[int], limit_s: float) -> jnp.ndarray:
    """Mean seconds over the tests of `kinds`, [r]; timeouts, missing and non-positive durations count as `limit_s`.

    `limit_s` where there is no such test.
    """
    chosen = tests.mask & jnp.isin(jnp.asarray(tests.kind), jnp.asarray(sorted(kinds)))
    status, measured_s = jnp.asarray(execution.status), jnp.asarray(execution.duration_s)
    is_measured = (status == Status.SUCCESS) | (status == Status.FAILURE)
    duration_s = jnp.where(is_measured & (measured_s > 0), measured_s, limit_s)
    total_s = jnp.where(chosen, duration_s, 0.0).sum(axis=-1)
    return jnp.where(chosen.any(), total_s / jnp.maximum(chosen.sum(), 1), limit_s)


def naive_reward(c: jnp.ndarray, mean_s: jnp.ndarray, *, duration_map: str) -> jnp.ndarray:
    """c + m(mean duration) - 1 with c in {0, 1}: in [-1, 1]; a wrong but very fast program earns almost 0."""
    return c + DURATION_MAPS[duration_map](mean_s) - 1
