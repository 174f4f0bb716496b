"""Rewards: (c, c_strict, g, q) -> one scalar in [-1, 1] for each rollout, as pure functions over arrays.

reward(outcome, "two_gate_graded", quality_map="linear")
judged(env, tests, references, execution, composition="collapsed_binary").reward
"""

from optimrl_jax.rewards.compositions import COMPOSITIONS
from optimrl_jax.rewards.naive_duration import NAIVE_COMPOSITIONS, mean_duration, naive_reward
from optimrl_jax.rewards.quality_maps import QUALITY_MAPS
from optimrl_jax.rewards.service_states import ServiceEffect, effect_of, replayed
from optimrl_jax.rewards.shaping import Judged, judged, reward, signed

__all__ = [
    "COMPOSITIONS",
    "NAIVE_COMPOSITIONS",
    "QUALITY_MAPS",
    "Judged",
    "ServiceEffect",
    "effect_of",
    "judged",
    "mean_duration",
    "naive_reward",
    "replayed",
    "reward",
    "signed",
]
