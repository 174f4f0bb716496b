"""Quality maps: a lower-is-better q in [0, 1] becomes higher-is-better credit in [0, 1] (paper L3290-3304)."""

import functools

import jax.numpy as jnp


def bucket(q: jnp.ndarray) -> jnp.ndarray:
    """Ten bins: 1 at q = 0, else max(0, 0.9 - 0.1 floor(10 (q - 1e-6)))."""
    binned = 0.9 - 0.1 * jnp.floor(10 * (q - 1e-6))
    return jnp.where(q == 0, 1.0, jnp.maximum(0.0, binned))


def linear(q: jnp.ndarray) -> jnp.ndarray:
    """1 - q."""
    return 1 - q


def compressed(q: jnp.ndarray, *, low: float) -> jnp.ndarray:
    """low + (1 - low)(1 - q): the same order in [low, 1], a wider gap to failure."""
    return low + (1 - low) * (1 - q)


QUALITY_MAPS = {
    "bucket": bucket,
    "linear": linear,
    "range_1_3": functools.partial(compressed, low=1 / 3),
    "range_1_2": functools.partial(compressed, low=1 / 2),
}
