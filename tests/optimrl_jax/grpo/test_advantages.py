"""Advantages by hand, against a loop, and for the groups that teach nothing."""

import jax.numpy as jnp
import numpy as np
import pytest

from optimrl_jax.rollout.groups import advantages


def found(reward, lengths, valid=None, dtype=np.float32):
    valid = np.ones(len(reward), bool) if valid is None else np.asarray(valid)
    return np.asarray(advantages(jnp.asarray(reward, dtype), jnp.asarray(lengths), jnp.asarray(valid)))


def test_the_baseline_weighs_returns_by_tokens():
    # mean = (10 * 1 + 30 * 0) / 40 = 0.25
    np.testing.assert_allclose(found([1.0, 0.0], [10, 30]), [0.75, -0.25])


def test_gradients_of_a_group_cancel_over_its_tokens():
    draw = np.random.default_rng(0)
    for _ in range(20):
        reward, lengths = draw.uniform(-1, 1, 9), draw.integers(1, 50, 9)
        valid = draw.random(9) < 0.8
        mean = sum(lengths[valid] * reward[valid]) / max(1, sum(lengths[valid]))
        expected = np.where(valid & (valid.sum() >= 2), reward - mean, 0)
        np.testing.assert_allclose(found(reward, lengths, valid), expected, atol=1e-6)
        assert abs((found(reward, lengths, valid) * lengths).sum()) < 1e-4


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("reward", [0.1, 1 / 3, -0.7])
@pytest.mark.parametrize("rollouts", [8, 16])
def test_constant_rewards_give_exactly_zero(dtype, reward, rollouts):
    lengths = np.random.default_rng(1).integers(1, 200, rollouts)
    assert not found([reward] * rollouts, lengths, dtype=dtype).any()


def test_a_reward_that_is_not_a_number_weighs_nothing():
    np.testing.assert_allclose(found([1, np.nan, 0], [10, 10, 10]), [0.5, 0, -0.5])
    assert not found([1, np.nan, np.inf], [10, 10, 10]).any()
    assert not found([1.0], [10]).any()
    assert not found([1, 0], [10, 10], [False, False]).any()


def test_division_by_the_deviation_of_the_valid_returns():
    # Returns 1, 0, 0 and one that is masked: mean by tokens 10 / 40, deviation sqrt(2) / 3.
    reward, lengths, valid = [1.0, 0.0, 0.0, 9.0], [10, 20, 10, 5], [True, True, True, False]
    scaled = np.asarray(advantages(*map(jnp.asarray, (reward, lengths, valid)), scale="std"))
    np.testing.assert_allclose(scaled, np.array([0.75, -0.25, -0.25, 0]) * 3 / np.sqrt(2), rtol=1e-6)
    assert not np.asarray(advantages(*map(jnp.asarray, ([0.3] * 4, lengths, valid)), scale="std")).any()
