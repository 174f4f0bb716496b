"""Rewards of this package in other people's trainers: `reward_function(dataset, sandbox, row)`."""

from optimrl_jax.integrations.speed_reward import SpeedReward, reward_function

__all__ = ["SpeedReward", "reward_function"]
