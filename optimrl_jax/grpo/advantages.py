"""Advantages of the rollouts of one prompt: returns centred on the token-weighted mean (paper L3790-3800).

Pure; no division by a standard deviation (L300). Groups that teach nothing are recognized here and dropped by the loop.
"""

import typing

import jax.numpy as jnp

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int


def advantages(
    reward: "Float[Array, '*b r']", lengths: "Int[Array, '*b r']", is_valid: "Bool[Array, '*b r']"
) -> "Float[Array, '*b r']":
    """A_i = R_i - sum_j(L_j R_j) / sum_j(L_j) over the valid rollouts of each prompt; 0 for the others.

    `lengths` are sampled tokens. A reward that is not finite is not valid. Fewer than two valid rollouts: all are 0.
    Constant rewards give exactly 0 in every dtype: rewards are first centred on the smallest valid one, which leaves
    nothing to round.
    """
    is_valid = is_valid & jnp.isfinite(reward)
    lowest = jnp.min(jnp.where(is_valid, reward, jnp.inf), axis=-1, keepdims=True)
    above = jnp.where(is_valid, reward - lowest, 0)
    weight = jnp.where(is_valid, lengths, 0).astype(reward.dtype)
    total = jnp.sum(weight, axis=-1, keepdims=True)
    mean = jnp.sum(weight * above, axis=-1, keepdims=True) / jnp.maximum(total, 1)
    has_pair = jnp.sum(is_valid, axis=-1, keepdims=True) >= 2
    return jnp.where(is_valid & has_pair, above - mean, 0)
