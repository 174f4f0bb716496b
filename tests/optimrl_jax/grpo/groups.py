"""Small groups of rollouts for tests, sampled and scored by the tiny decoder."""

import functools

import jax
import numpy as np

from optimrl_jax.arrays import Rollouts
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.rollout.groups import Group
from optimrl_jax.settings import Settings
from tests.optimrl_jax.model import tiny

SETTINGS: Settings = freeze(
    Settings,
    {
        "data": {"prompt_tokens": 4, "completion_tokens": 8, "row_tokens": 16, "micro_rows": 8},
        "grpo": {"problems": 2, "rollouts": 4, "steps": 6, "horizon": 64, "warmup_steps": 0, "learning_rate": 0.01},
    },
)


@functools.cache
def group(seed: int, *, version: int = 0, reward: tuple[float, ...] | None = None, rollouts: int = 4) -> Group:
    """Rollouts of one prompt, of random tokens and lengths, with the log-probabilities that the tiny decoder gives."""
    draw = np.random.default_rng(seed)
    tokens = np.zeros((rollouts, 12), np.int32)
    is_completion = np.zeros((rollouts, 12), bool)
    log_prob = np.zeros((rollouts, 12), np.float32)
    tokens[:, :3] = draw.integers(2, 40, 3)
    for row in range(rollouts):
        length = int(draw.integers(2, 9))
        tokens[row, 3 : 3 + length] = draw.integers(2, 40, length)
        is_completion[row, 3 : 3 + length] = True
        log_prob[row, 3 : 3 + length] = tiny.log_probs(tiny.params(), tiny.SETTINGS, tokens[row])[2 : 2 + length]
    rewards = draw.choice([-1.0, 0.0, 1.0], rollouts) if reward is None else np.asarray(reward)
    return Group(
        rollouts=Rollouts(tokens, is_completion, log_prob, np.full(rollouts, version, np.int32)),
        reward=rewards.astype(np.float32),
        is_valid=np.ones(rollouts, bool),
        is_correct=rewards > -1,
        is_fast=rewards > 0,
        is_cut=is_completion.sum(axis=1) == 8,
        problem=np.int32(seed),
    )


def copied_params() -> dict:
    return jax.tree.map(np.array, tiny.params())
