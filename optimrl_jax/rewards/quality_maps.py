"""Quality maps: a lower-is-better q in [0, 1] becomes higher-is-better credit in [0, 1] (App. D.4, Table 40)."""

import functools

import jax.numpy as jnp
from jaxtyping import Float

from optimrl_jax.arrays import Array

# q counts as the bin below where it exceeds a tenth by no more than this.
BIN_MARGIN = 1e-6


def bucket(q: Float[Array, "*r"]) -> Float[Array, "*r"]:
    """Give credit in steps of a tenth: 1 at q = 0, else max(0, 0.9 - 0.1 floor(10 (q - 1e-6)))."""
    binned = 0.9 - 0.1 * jnp.floor(10 * (q - BIN_MARGIN))
    return jnp.where(q == 0, 1.0, jnp.maximum(0.0, binned))


def linear(q: Float[Array, "*r"]) -> Float[Array, "*r"]:
    """Give credit 1 - q."""
    return 1 - q


def compressed(q: Float[Array, "*r"], *, low: float) -> Float[Array, "*r"]:
    """Give credit low + (1 - low)(1 - q): the same order within [low, 1], with a wider gap to failure.

    Args:
      q: `[*r]` in [0, 1], 0 best.
      low: credit of the slowest, in [0, 1].
    """
    return low + (1 - low) * (1 - q)


QUALITY_MAPS = {
    "bucket": bucket,
    "linear": linear,
    "range_1_3": functools.partial(compressed, low=1 / 3),
    "range_1_2": functools.partial(compressed, low=1 / 2),
}
