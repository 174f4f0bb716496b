"""Replays fixed rollouts under other states of the timing service: how far do their rewards move?

App. C.12, "Replaying service states on fixed rollouts". Takes recorded executions, never runs a program.
"""

import functools
import typing
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Bool, Float

from optimrl_jax.arrays import Array, Execution, Tests
from optimrl_jax.environment.service import ServiceState, under_state, validate_state
from optimrl_jax.rewards.shaping import RewardedOutcome


class ReplayedRewards(typing.NamedTuple):
    """Rewards of `r` rollouts in `draws` replays of a state.

    Attributes:
      reward: `[draws, r]`.
      is_valid: `[draws, r]` False where the state left nothing to judge: mask with it.
    """

    reward: Float[Array, "draws r"]
    is_valid: Bool[Array, "draws r"]


class ServiceEffect(typing.NamedTuple):
    """What a state does to the rewards of one group, each a mean over valid (draw, rollout) pairs; nan without any.

    Attributes:
      shift: mean change of the reward.
      service_std: standard deviation of a rollout's reward over the draws.
      sign_flips: share of advantages (reward minus the group's mean) whose sign differs from the recorded state's.
      masked_share: share of pairs without a reward.
    """

    shift: float
    service_std: float
    sign_flips: float
    masked_share: float


def replay_state(
    judge: Callable[[Execution], RewardedOutcome],
    tests: Tests,
    execution: Execution,
    *,
    state: ServiceState,
    key: Array,
    draws: int = 1,
) -> ReplayedRewards:
    """Reward recorded executions as if the service had been in `state`, in `draws` independent replays.

    Args:
      judge: closes over environment, problem and composition; compiled once for each such function.
      tests: `[k]`.
      execution: `[r, k]` as recorded.
      state: how the service behaves.
      key: of all replays; the same key gives the same rewards.
      draws: number of replays.

    Returns:
      Rewards and validity, `[draws, r]`.

    Raises:
      ValueError: for a state that no service can be in (`validate_state`).
    """
    return _replay_jitted(judge, tests, execution, validate_state(state), key, draws)


@functools.partial(jax.jit, static_argnums=(0, 5))
def _replay_jitted(
    judge: Callable[[Execution], RewardedOutcome],
    tests: Tests,
    execution: Execution,
    state: ServiceState,
    key: Array,
    draws: int,
) -> ReplayedRewards:
    judge_draw = jax.vmap(lambda draw_key: judge(under_state(state, tests, execution, key=draw_key)))
    rewarded = judge_draw(jax.random.split(key, draws))
    return ReplayedRewards(rewarded.reward, rewarded.outcome.is_valid)


def service_effect(state: ReplayedRewards, recorded: ReplayedRewards) -> ServiceEffect:
    """Compare a replayed state with the recorded one.

    Only rewards of one stream can be compared, so multitask compositions cannot.

    Args:
      state: `[draws, r]` replays of the state.
      recorded: a replay of the same rollouts in the state "healthy"; its first draw is read.

    Returns:
      Means over valid (draw, rollout) pairs; nan without any.
    """
    is_valid = np.asarray(state.is_valid & recorded.is_valid[:1])
    mean = functools.partial(_mean_where, is_valid)
    moved = np.asarray(state.reward, float) - np.asarray(recorded.reward[:1], float)
    signs = [
        np.sign(_advantages(np.asarray(part.reward, float), np.asarray(part.is_valid))) for part in (state, recorded)
    ]
    of_rollout = np.where(is_valid, state.reward, np.nan)
    heard = is_valid.any(axis=0)
    spread = np.nanstd(of_rollout[:, heard], axis=0)
    return ServiceEffect(
        shift=mean(moved),
        service_std=float(spread.mean()) if heard.any() else float("nan"),
        sign_flips=mean(signs[0] != signs[1][:1]),
        masked_share=float(1 - np.mean(state.is_valid)),
    )


def _advantages(reward: np.ndarray, is_valid: np.ndarray) -> np.ndarray:
    """Rewards minus the mean of the valid ones of their draw, rounding noise of equal rewards removed."""
    valid = np.maximum(is_valid.sum(axis=1, keepdims=True), 1)
    return np.round(reward - np.where(is_valid, reward, 0).sum(axis=1, keepdims=True) / valid, 6)


def _mean_where(is_valid: np.ndarray, values: np.ndarray) -> float:
    return float(np.mean(values[is_valid])) if is_valid.any() else float("nan")
