"""What is dropped before an update, and why; what is packed is what was sampled."""

import dataclasses

import numpy as np
import pytest

from optimrl_jax.grpo import rows as rows_lib
from optimrl_jax.rollout import groups as groups_lib
from tests.optimrl_jax.grpo.groups import SETTINGS, group

MIXED = (1.0, -1.0, 0.0, 1.0)


def test_stale_invalid_and_flat_groups_are_dropped_and_counted():
    faulted = group(3, reward=MIXED)._replace(is_valid=np.array([True, False, False, False]))
    groups = [group(0, reward=MIXED), group(1, reward=(0.1,) * 4), group(2, version=-31, reward=MIXED), faulted]
    kept, dropped = groups_lib.select_informative(groups, step=0, max_staleness=30)
    assert [int(one.problem) for one, _ in kept] == [0]
    assert dropped == {"stale_share": 0.25, "invalid_share": 0.25, "zero_advantage_share": 0.25}


def test_a_group_as_old_as_the_limit_is_still_fresh():
    kept, _ = groups_lib.select_informative([group(0, version=0, reward=MIXED)], step=30, max_staleness=30)
    assert len(kept) == 1
    kept, _ = groups_lib.select_informative([group(0, version=0, reward=MIXED)], step=31, max_staleness=30)
    assert not kept


def test_packed_rows_hold_the_sampled_ids_with_their_log_probs_and_no_masked_rollout():
    one = group(5, reward=MIXED)._replace(is_valid=np.array([True, True, False, True]))
    kept, _ = groups_lib.select_informative([one], step=0, max_staleness=30)
    packed, used = rows_lib.pack_groups(kept, row_tokens=16, micro_rows=8, microbatches=1, shares_prompts=True)
    assert used == 1
    weight = packed.per_token["weight"] > 0
    sampled = one.rollouts.is_completion[one.is_valid]
    assert sorted(packed.tokens[weight]) == sorted(one.rollouts.tokens[one.is_valid][sampled])
    assert np.isclose(packed.per_token["log_prob"].sum(), one.rollouts.log_prob[one.is_valid].sum(), rtol=1e-5)
    np.testing.assert_allclose((packed.per_token["advantage"] * weight).sum(), 0, atol=1e-5)


def test_rollouts_of_one_group_with_different_prompts_are_a_mistake():
    one = group(5, reward=MIXED)
    tokens = one.rollouts.tokens.copy()
    tokens[1, 0] += 1
    with pytest.raises(ValueError, match="different prompts"):
        groups_lib.prompt_length(one.rollouts._replace(tokens=tokens))
    assert groups_lib.prompt_length(one.rollouts) == 3


def test_figures_count_faults_and_ignore_what_they_earned():
    one = group(0, reward=MIXED)._replace(is_valid=np.array([True, True, True, False]))
    found = groups_lib.group_metrics([one], step=2)
    assert found["faults"] == 1
    assert np.isclose(found["reward"], 0)
    assert np.isclose(found["correct_share"], 2 / 3)
    assert found["staleness"] == 2


@pytest.mark.parametrize(
    ("loss_norm", "weights", "normalizer"),
    # Four rollouts, the last one masked: their advantages over their lengths, and the number of the others.
    [("horizon", [1, 1, 1, 1], 64), ("tokens", [1, 1, 1, 1], "tokens"), ("length", "lengths", 3)],
)
def test_what_the_sum_over_tokens_is_divided_by(loss_norm, weights, normalizer):
    one = group(5, reward=MIXED)._replace(is_valid=np.array([True, True, True, False]))
    lengths = one.rollouts.is_completion.sum(axis=1)
    kept, _ = groups_lib.select_informative([one], step=0, max_staleness=30)
    ((_, found),), divisor = rows_lib.normalize(
        kept, dataclasses.replace(SETTINGS.grpo, loss_norm=loss_norm, horizon=64)
    )
    np.testing.assert_allclose(found * (lengths if weights == "lengths" else weights), kept[0][1], rtol=1e-6)
    assert divisor == (lengths[:3].sum() if normalizer == "tokens" else normalizer)
