"""What rewards that read a speed-up pay: twice as fast as the median, as fast, half as fast, wrong, too slow."""

import numpy as np
import pytest

from optimrl_jax import environment, rewards
from optimrl_jax.arrays import Execution, References, Status, Tests
from optimrl_jax.rewards.speedup import speedup_over_median

TESTS = Tests(np.array([0, 2]), np.ones(2, np.int32), np.ones(2, bool))
REFERENCES = References(np.array([[0.1] * 3, [0.5, 1.0, 3.0]], np.float32), np.zeros((2, 3)), np.ones((2, 3), bool))
OK, FAIL, LATE, NONE = Status.SUCCESS, Status.FAILURE, Status.TIMEOUT, Status.NOT_RUN
EXECUTION = Execution(
    np.array([[OK, OK], [OK, OK], [OK, OK], [OK, FAIL], [LATE, LATE], [FAIL, NONE]]),
    np.array([[0.1, 0.5], [0.1, 1.0], [0.1, 2.0], [0.1, 0.1], [10, 10], [0.1, 0]], np.float32),
)
PAID = {
    "relative_speedup": [1 / 3, 0.0, -0.5, -1, -1, -1],
    "gated_speedup": [0.5, 0.25, 0.125, 0, 0, 0],
    "status_ladder": [0.5, 0.25, 0.125, -0.75, -0.5, -1],
    "bucketed_speedup": [4 / 6, 1 / 6, 0.0, -1, -1, -1],
}


@pytest.mark.parametrize("composition", PAID)
def test_rewards_by_hand(composition):
    env = environment.build("mc_mo")
    found = rewards.judge_and_reward(env, TESTS, REFERENCES, EXECUTION, composition=composition)
    np.testing.assert_allclose(found.reward, PAID[composition], atol=1e-6)


def test_the_blend_adds_efficiency_to_correct_programs_alone():
    found = rewards.judge_and_reward(
        environment.build("mc_mo"), TESTS, REFERENCES, EXECUTION, composition="additive_blend"
    )
    assert float(found.reward[0]) == pytest.approx(0.5 + 0.5 * np.tanh(np.log(2)), abs=1e-6)
    assert float(found.reward[5]) == pytest.approx(-0.5)
    assert np.diff(found.reward[:3]).max() < 0
    assert np.abs(found.reward).max() <= 1


def test_references_are_read_on_the_live_clock():
    env = environment.build("mc_mo", alpha=2.0)
    found = rewards.judge_and_reward(env, TESTS, REFERENCES, EXECUTION, composition="gated_speedup")
    assert float(found.reward[1]) == pytest.approx(0.5)


def test_without_references_nothing_is_faster_than_anything():
    none = REFERENCES._replace(is_usable=np.zeros((2, 3), bool), duration_s=np.full((2, 3), np.inf))
    np.testing.assert_array_equal(speedup_over_median(TESTS, none, EXECUTION), np.ones(6))


def test_a_family_without_optimization_tests_cannot_pay_for_speed():
    with pytest.raises(ValueError, match=r"gated_speedup': expected a family that runs those tests, not 'mc'"):
        rewards.judge_and_reward(environment.build("mc"), TESTS, REFERENCES, EXECUTION, composition="gated_speedup")
