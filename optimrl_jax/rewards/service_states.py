"""Fixed rollouts, other states of the timing service: how far do their rewards move (paper L2889)?"""

import functools
import typing
from collections.abc import Callable

import jax
import numpy as np

from optimrl_jax.arrays import Execution, Tests
from optimrl_jax.environment.service import ServiceState, checked, under_state
from optimrl_jax.rewards.shaping import Judged

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float


class Rewards(typing.NamedTuple):
    """Rewards of `r` rollouts in `draws` replays of a state; invalid ones are masked, never rewarded."""

    reward: "Float[Array, 'draws r']"
    is_valid: "Bool[Array, 'draws r']"


class ServiceEffect(typing.NamedTuple):
    """What a state does to the rewards of one group, each a mean over valid (draw, rollout) pairs.

    `shift` mean change of reward; `service_std` standard deviation of a rollout's reward over the draws; `sign_flips`
    share of advantages (reward minus the group's mean) whose sign is another one than in the recorded state;
    `masked_share` share of pairs without a reward. nan where no pair is valid.
    """

    shift: float
    service_std: float
    sign_flips: float
    masked_share: float


def replayed(
    judge: Callable[[Execution], Judged],
    tests: Tests,
    execution: Execution,
    *,
    state: ServiceState,
    key: jax.Array,
    draws: int = 1,
) -> Rewards:
    """The rewards of recorded executions [r, k] had the service been in `state`, in `draws` independent replays.

    `judge` closes over environment, problem and composition. Pure: one key, one result. Raises ValueError for a state
    that no service can be in.
    """
    return _replayed(judge, tests, execution, checked(state), key, draws)


@functools.partial(jax.jit, static_argnums=(0, 5))
def _replayed(judge, tests, execution, state, key, draws) -> Rewards:
    found = jax.vmap(lambda one: judge(under_state(state, tests, execution, key=one)))(jax.random.split(key, draws))
    return Rewards(found.reward, found.outcome.is_valid)


def effect_of(state: Rewards, recorded: Rewards) -> ServiceEffect:
    """Compares a replayed state with the recorded one (a replay in the state "healthy"); one scalar reward each."""
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
