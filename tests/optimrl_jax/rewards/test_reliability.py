"""Advantages shrink by the share of a group's rewards that is noise, and keep their signs and their mean."""

import dataclasses
import math
import types

import numpy as np
import pytest

from optimrl_jax import arrays, rewards
from optimrl_jax.arrays import Execution, References
from optimrl_jax.rollout.rewarder import Rewarder
from optimrl_jax.settings import EnvironmentSettings, RewardSettings, Settings
from tests.optimrl_jax import records

REWARD = np.array([1.0, 0.0, 1.0, 0.0], np.float32)
VALID = np.ones(4, bool)


def test_the_share_that_is_not_noise_is_the_reliability():
    """The group's variance is 0.25; a noise variance of 0.05 leaves four fifths, one of 0.5 nothing."""
    assert rewards.reliability(REWARD, np.full(4, 0.05), VALID) == pytest.approx(0.8)
    assert rewards.reliability(REWARD, np.full(4, 0.5), VALID) == 0.0
    assert rewards.reliability(np.ones(4), np.full(4, 0.5), VALID) == 1.0


def test_rewards_move_towards_the_mean_of_the_valid_ones():
    is_valid = np.array([True, True, True, False])
    found = rewards.weigh_by_reliability(REWARD, np.full(4, 1 / 9), is_valid)
    np.testing.assert_allclose(found, [2 / 3 + 1 / 6, 2 / 3 - 1 / 3, 2 / 3 + 1 / 6, 0.0], rtol=1e-6)
    np.testing.assert_array_equal(rewards.weigh_by_reliability(REWARD, REWARD, np.zeros(4, bool)), REWARD)


def test_a_reward_linear_in_seconds_has_the_variance_of_the_clock():
    """Ten percent of 0.5 s is a deviation of 0.05 s."""
    references = References(np.array([[1.0]], np.float32), np.array([[0.1]], np.float32), np.array([[True]]))
    execution = Execution(np.zeros((1, 1), np.int32), np.full((1, 1), 0.5, np.float32))
    variance = rewards.reward_variance(lambda _, run: run.duration_s[:, 0], references, execution, draws=4000)
    assert math.sqrt(float(variance[0])) == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize(("std_share", "expected"), [(0.0, 0.25), (1.0, 0.0)])
def test_the_rewarder_weighs_groups_by_what_the_clock_can_tell(std_share, expected):
    """One test, four references, behind one and behind two of them: a quarter apart, or equal on a wild clock."""
    seconds = np.array([[0.1, 0.2, 0.3, 0.4]])
    record = dataclasses.replace(
        records.record(duration_s=seconds, test_kind=(2,)), std_s=(std_share * seconds).astype(np.float32)
    )
    settings = Settings(
        environment=EnvironmentSettings(family="qar_ranked", threshold=0.5),
        reward=RewardSettings(composition="two_gate_graded", reliability_draws=200),
    )
    runs = [
        types.SimpleNamespace(
            status=np.zeros(1, np.int32), duration_s=np.array([value], np.float32), drift=arrays.AffineMap()
        )
        for value in (0.15, 0.25)
    ]
    found = Rewarder([record], settings)(0, runs, stream=0, batch=0)
    assert found.reward[0] - found.reward[1] == pytest.approx(expected, abs=1e-6)
