"""The queue keeps order and bounds, says who did not answer, and survives as arrays."""

import numpy as np
import pytest

from optimrl_jax.rollout.groups import QueueTimeoutError, RolloutQueue, group_metrics
from tests.optimrl_jax.grpo.groups import group


def filled(*seeds: int, capacity: int = 3) -> RolloutQueue:
    queue = RolloutQueue(capacity)
    for seed in seeds:
        queue.put(group(seed), timeout_s=0)
    return queue


def test_groups_leave_in_the_order_they_came():
    queue = filled(4, 2, 7)
    assert [int(queue.take(timeout_s=0).problem) for _ in range(3)] == [4, 2, 7]


def test_a_full_and_an_empty_queue_raise_inside_their_timeout():
    with pytest.raises(QueueTimeoutError, match="learner took nothing"):
        filled(1, 2, 3).put(group(4), timeout_s=0.05)
    with pytest.raises(QueueTimeoutError, match="actor put nothing"):
        RolloutQueue(1).take(timeout_s=0.05)


def test_contents_restore_the_same_groups_in_another_queue():
    queue, other = filled(4, 2), RolloutQueue(3)
    other.restore(queue.contents())
    assert len(queue) == len(other) == 2
    for _ in range(2):
        left, right = queue.take(timeout_s=0), other.take(timeout_s=0)
        np.testing.assert_array_equal(left.rollouts.tokens, right.rollouts.tokens)
        np.testing.assert_array_equal(left.rollouts.log_prob, right.rollouts.log_prob)
        assert left.problem == right.problem
    assert queue.contents() is None


def test_figures_of_a_step_tell_lengths_cuts_spread_and_age():
    calm = group(1, version=3, reward=(0.5,) * 4)
    mixed = group(2, version=5, reward=(1.0, -1.0, 1.0, 7.0))
    # The last one was lost: what it is said to have earned counts nowhere.
    mixed = mixed._replace(is_valid=np.array([True, True, True, False]), is_cut=np.array([True, False, False, True]))
    found = group_metrics([calm._replace(is_cut=np.zeros(4, bool)), mixed], step=7)
    lengths = np.concatenate([one.rollouts.is_completion.sum(axis=1) for one in (calm, mixed)])
    assert found["completion_tokens"] == lengths.mean()
    assert (found["completion_tokens_min"], found["completion_tokens_max"]) == (lengths.min(), lengths.max())
    assert found["cut_share"] == 2 / 8
    assert found["reward"] == pytest.approx(3 / 7)
    # Spread within prompts: none in the first, that of 1, -1, 1 in the second.
    assert found["reward_std"] == pytest.approx(np.std([1, -1, 1]) / 2)
    assert (found["faults"], found["staleness"], found["staleness_max"]) == (1, 3.0, 4)
