"""The queue keeps order and bounds, says who did not answer, and survives as arrays."""

import numpy as np
import pytest

from optimrl_jax.rollout.groups import QueueTimeoutError, RolloutQueue
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
