"""What a state of the service does to the rewards of fixed rollouts."""

import jax
import numpy as np
import pytest

from optimrl_jax import environment, rewards
from optimrl_jax.arrays import Execution, References, Tests
from optimrl_jax.rewards.service_states import ReplayedRewards

K, H, R, DRAWS = 12, 8, 6, 20
KEY = jax.random.key(0)
TESTS = Tests(np.where(np.arange(K) < 4, 0, 2).astype(np.int32), np.ones(K, np.int32), np.ones(K, bool))
REFERENCES = References(
    np.tile(np.geomspace(0.05, 0.4, H), (K, 1)).astype(np.float32), np.zeros((K, H), np.float32), np.ones((K, H), bool)
)
RECORDED = Execution(
    np.zeros((R, K), np.int32), np.tile(np.geomspace(0.06, 0.3, R)[:, None], (1, K)).astype(np.float32)
)
ENV = environment.build("qar_ranked", threshold=0.3)


@jax.jit
def judge(execution):
    return rewards.judge_and_reward(ENV, TESTS, REFERENCES, execution, composition="two_gate_graded")


def replayed(name):
    state = environment.SERVICE_STATES[name]
    return rewards.replay_state(judge, TESTS, RECORDED, state=state, key=KEY, draws=DRAWS)


def effect(name):
    return rewards.service_effect(replayed(name), replayed("healthy"))


def test_a_healthy_replay_earns_what_was_earned():
    found = replayed("healthy")
    np.testing.assert_allclose(found.reward, np.tile(judge(RECORDED).reward, (DRAWS, 1)), atol=1e-6)
    assert effect("healthy") == (0.0, 0.0, 0.0, 0.0)


def test_a_slow_service_costs_reward_without_spread():
    found = effect("slow_50")
    assert found.shift < -0.05
    assert found.service_std == pytest.approx(0, abs=1e-6)


def test_a_noisy_service_spreads_rewards():
    assert effect("noisy_10").service_std > 0.01
    assert effect("noisy_10").masked_share == 0


def test_discarded_faults_are_masked_and_move_no_reward():
    found = effect("faults_discarded")
    assert 0 < found.masked_share < 0.3
    assert found.shift == pytest.approx(0, abs=1e-6)


def test_a_quarantine_without_any_valid_rollout_has_no_effect_to_report():
    lost = environment.ServiceState(fault_share=1.0, fallback="quarantine")
    found = rewards.service_effect(
        rewards.replay_state(judge, TESTS, RECORDED, state=lost, key=KEY, draws=2), replayed("healthy")
    )
    assert found.masked_share == 1
    assert np.isnan(found[:3]).all()


def test_effects_by_hand():
    """Two draws of two rollouts, one of them masked: the first rises by 1 and falls by 1, the order flips once."""
    recorded = ReplayedRewards(np.array([[0.0, 0.5]]), np.ones((1, 2), bool))
    state = ReplayedRewards(np.array([[1.0, 0.5], [-1.0, 0.5]]), np.array([[True, True], [True, True]]))
    found = rewards.service_effect(state, recorded)
    assert found == pytest.approx((0.0, 0.5, 0.5, 0.0))


def test_an_impossible_state_is_refused():
    with pytest.raises(ValueError, match=r"service.slowdown = -1.0"):
        rewards.replay_state(judge, TESTS, RECORDED, state=environment.ServiceState(slowdown=-1.0), key=KEY)
