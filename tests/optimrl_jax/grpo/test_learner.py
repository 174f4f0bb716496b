"""The learner: a step raises what earned more, a gradient that is not finite changes nothing, and too many stop."""

import dataclasses

import jax
import numpy as np
import pytest

from optimrl_jax.grpo.loop import Learner
from optimrl_jax.training.trainer import DivergedError
from tests.optimrl_jax.grpo.groups import SETTINGS, copied_params, group
from tests.optimrl_jax.model import tiny


def learner(**grpo) -> Learner:
    settings = dataclasses.replace(SETTINGS, grpo=dataclasses.replace(SETTINGS.grpo, **grpo))
    return Learner(copied_params(), tiny.SETTINGS, settings)


def total(params: dict, one, row: int) -> float:
    sampled = np.flatnonzero(one.rollouts.is_completion[row])
    return float(tiny.log_probs(params, tiny.SETTINGS, one.rollouts.tokens[row])[sampled - 1].sum())


def test_an_update_makes_what_earned_more_more_likely():
    one = group(0, reward=(1, -1, -1, -1))
    own = learner()
    before = total(own.trainer.state.params, one, 0)
    found = own.learn([one])
    assert found["updated"] == 1
    assert found["learning_rate"] == pytest.approx(SETTINGS.grpo.learning_rate)
    assert total(own.trainer.state.params, one, 0) > before


def test_nothing_to_learn_from_counts_a_step_and_leaves_the_weights():
    own = learner()
    found = own.learn([group(1, reward=(0.1,) * 4)])
    assert (own.step, found["updated"], found["zero_advantage_share"]) == (1, 0, 1)
    for left, right in zip(jax.tree.leaves(own.trainer.state.params), jax.tree.leaves(copied_params()), strict=True):
        np.testing.assert_array_equal(left, right)


def test_gradients_that_are_not_finite_are_skipped_and_stop_the_run_after_a_few():
    own = learner(most_skipped=3)
    one = group(0, reward=(1, -1, -1, -1))
    poisoned = one._replace(rollouts=one.rollouts._replace(log_prob=np.full_like(one.rollouts.log_prob, np.nan)))
    assert own.learn([poisoned])["updated"] == 0
    assert own.learn([poisoned])["updated"] == 0
    for left, right in zip(jax.tree.leaves(own.trainer.state.params), jax.tree.leaves(copied_params()), strict=True):
        np.testing.assert_array_equal(left, right)
    assert own.learn([one])["updated"] == 1
    own.learn([poisoned])
    own.learn([poisoned])
    with pytest.raises(DivergedError, match="3 updates in a row"):
        own.learn([poisoned])
