"""How much of a group's rewards is noise of the clock, and rewards that count for no more than the rest (App. C.12).

Stored deviations say what the same programs might have earned. Where that varies as much as rewards differ within the
group, advantages are noise, and should not move a policy. Pure; between rewards and advantages.
"""

from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Bool, Float

from optimrl_jax.arrays import Array, Execution, References
from optimrl_jax.environment.confidence import SEED, redraw


def reward_variance(
    reward: Callable[[References, Execution], Array], references: References, execution: Execution, *, draws: int
) -> Float[Array, "*r"]:
    """Estimate the variance of each reward over what the same programs might have measured.

    Args:
      reward: rewards one measurement.
      references: `[k, h]` stored seconds and standard deviations.
      execution: `[r, k]` as measured.
      draws: number of redrawn measurements, at least 2.

    Returns:
      The variance in the shape of the rewards; 0 without stored deviations. The stream is fixed, as in
      `environment.confidence`.
    """
    keys = jax.random.split(jax.random.key(SEED), draws)
    return jax.vmap(lambda key: reward(*redraw(references, execution, key)))(keys).var(axis=0)


def reliability(
    reward: Float[np.ndarray, " r"], variance: Float[np.ndarray, " r"], is_valid: Bool[np.ndarray, " r"]
) -> float:
    """Estimate the share of a group's spread of rewards that another measurement would find again.

    max(0, 1 - mean variance / variance of the group), both over valid rollouts.

    Args:
      reward: `[r]` of one group.
      variance: `[r]` of each reward (`reward_variance`).
      is_valid: `[r]`.

    Returns:
      A share in [0, 1]; 1 where rewards do not differ.
    """
    spread = float(np.var(reward[is_valid])) if is_valid.any() else 0.0
    return max(0.0, 1 - float(np.mean(variance[is_valid])) / spread) if spread > 0 else 1.0


def weigh_by_reliability(
    reward: Float[np.ndarray, " r"], variance: Float[np.ndarray, " r"], is_valid: Bool[np.ndarray, " r"]
) -> Float[np.ndarray, " r"]:
    """Shrink a group's rewards towards their mean by its reliability; every advantage shrinks by the same factor.

    Args:
      reward: `[r]` of one group.
      variance: `[r]` of each reward (`reward_variance`).
      is_valid: `[r]`; others keep their reward.

    Returns:
      `[r]` with the mean of the valid ones unchanged.
    """
    if not is_valid.any():
        return reward
    mean, share = reward[is_valid].mean(), reliability(reward, variance, is_valid)
    return np.where(is_valid, mean + share * (reward - mean), reward).astype(reward.dtype)
