"""Rewards: (c, c_strict, g, q) -> one scalar in [-1, 1] for each rollout, as pure functions over arrays.

    reward(outcome, "two_gate_graded", quality_map="linear")
"""

import jax.numpy as jnp

from optimrl_jax.arrays import Outcome
from optimrl_jax.rewards.compositions import COMPOSITIONS
from optimrl_jax.rewards.naive_duration import mean_duration, naive_reward
from optimrl_jax.rewards.quality_maps import QUALITY_MAPS


def signed(z: jnp.ndarray) -> jnp.ndarray:
    """2z - 1: from [0, 1] to reward units in [-1, 1]."""
    return 2 * z - 1


def reward(
    outcome: Outcome, composition: str, *, quality_map: str = "linear", blend_weight: float = 0.5
) -> jnp.ndarray:
    """Rewards of `r` rollouts, [r] in [-1, 1] (multitask: [r, 2], the correctness and the optimization stream).

    `composition` names the form and whether it reads the gate g (`..._binary`) or the mapped quality of q
    (`..._graded`). Invalid rollouts get a number too: mask with `outcome.is_valid`. Raises ValueError for a name that
    does not exist.
    """
    for field, value, choices in (
        ("composition", composition, COMPOSITIONS),
        ("quality_map", quality_map, QUALITY_MAPS),
    ):
        if value not in choices:
            raise ValueError(f"reward.{field} = {value!r}: expected one of {', '.join(choices)}")
    form, signal = COMPOSITIONS[composition]
    z = outcome.g if signal == "binary" else QUALITY_MAPS[quality_map](outcome.q)
    return form(signed(outcome.c), signed(outcome.c_strict), signed(z), blend_weight)


__all__ = ["COMPOSITIONS", "QUALITY_MAPS", "mean_duration", "naive_reward", "reward", "signed"]
