"""Rewards: (c, c_strict, g, q) -> one scalar in [-1, 1] for each rollout, as pure functions over arrays.

reward(outcome, "two_gate_graded", quality_map="linear")
judge_and_reward(env, tests, references, execution, composition="collapsed_binary").reward
"""

from optimrl_jax.rewards.compositions import COMPOSITIONS
from optimrl_jax.rewards.naive_duration import NAIVE_COMPOSITIONS, mean_duration, naive_reward
from optimrl_jax.rewards.quality_maps import QUALITY_MAPS
from optimrl_jax.rewards.reliability import reliability, reward_variance, weigh_by_reliability
from optimrl_jax.rewards.service_states import ReplayedRewards, ServiceEffect, replay_state, service_effect
from optimrl_jax.rewards.shaping import TIMED_COMPOSITIONS, RewardedOutcome, judge_and_reward, reward, signed
from optimrl_jax.rewards.speedup import SPEEDUP_COMPOSITIONS, speedup_over_median

__all__ = [
    "COMPOSITIONS",
    "NAIVE_COMPOSITIONS",
    "QUALITY_MAPS",
    "SPEEDUP_COMPOSITIONS",
    "TIMED_COMPOSITIONS",
    "ReplayedRewards",
    "RewardedOutcome",
    "ServiceEffect",
    "judge_and_reward",
    "mean_duration",
    "naive_reward",
    "reliability",
    "replay_state",
    "reward",
    "reward_variance",
    "service_effect",
    "signed",
    "speedup_over_median",
    "weigh_by_reliability",
]
