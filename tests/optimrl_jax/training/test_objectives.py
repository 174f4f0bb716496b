"""The clipped surrogate against a loop over unpacked rollouts, its gradient too, and the ratio's two policies."""

import functools

import jax
import numpy as np
import pytest

from optimrl_jax.grpo import rows as rows_lib
from optimrl_jax.rollout import groups as groups_lib
from optimrl_jax.settings import ComputeSettings, Network
from optimrl_jax.training import objectives
from tests.benchmarks.model_costs import compiled_update, growth_exponent, temporary_bytes
from tests.optimrl_jax.grpo.groups import copied_params, group
from tests.optimrl_jax.model import tiny

LOW, HIGH = 0.2, 0.25
OBJECTIVE = jax.jit(
    jax.value_and_grad(
        functools.partial(
            objectives.clipped_surrogate, settings=tiny.SETTINGS, temperature=1.0, epsilon_low=LOW, epsilon_high=HIGH
        ),
        has_aux=True,
    )
)

LEAN = {"attention_block": 4, "logits_chunk": 3, "unroll": 2}


def moved(by: float = 0.02) -> dict:
    """The tiny decoder after a step: not the policy that sampled."""
    return jax.tree.map(lambda x: x + by * np.sin(np.arange(x.size)).reshape(x.shape).astype(x.dtype), copied_params())


def packed_rows(groups, *, row_tokens: int = 16, rows: int = 8, shares_prompts: bool = True):
    kept, _ = groups_lib.select_informative(groups, step=0, max_staleness=30)
    packed, _ = rows_lib.pack_groups(
        kept, row_tokens=row_tokens, micro_rows=rows, microbatches=1, shares_prompts=shares_prompts
    )
    return jax.tree.map(lambda x: x[0], packed), kept


def test_the_loss_equals_a_loop_over_tokens_of_unpacked_rollouts():
    rows, kept = packed_rows([group(0, reward=(1, -1, 0, 1)), group(1, reward=(1, -1, -1, -1))])
    params = moved()
    expected = clipped = tokens = 0.0
    for one, advantage in kept:
        for row in range(4):
            sampled = np.flatnonzero(one.rollouts.is_completion[row])
            now = tiny.log_probs(params, tiny.SETTINGS, one.rollouts.tokens[row])[sampled - 1]
            ratio = np.exp(now - one.rollouts.log_prob[row, sampled])
            plain, bounded = ratio * advantage[row], np.clip(ratio, 1 - LOW, 1 + HIGH) * advantage[row]
            expected -= np.minimum(plain, bounded).sum()
            clipped += (bounded < plain - 1e-7).sum()
            tokens += len(sampled)
    (found, sums), _ = OBJECTIVE(params, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    assert sums["tokens"] == tokens
    assert clipped > 0
    assert abs(float(sums["clipped"]) - clipped) <= 1


@pytest.mark.parametrize("shares_prompts", [False, True])
def test_gradients_of_packed_rows_equal_those_of_single_rollouts(shares_prompts):
    groups = [group(0, reward=(1, -1, 0, 1)), group(1, reward=(1, -1, -1, -1))]
    rows = packed_rows(groups, shares_prompts=shares_prompts)[0]
    assert (rows.suffixes.max() > 1) == shares_prompts
    params = moved()
    (value, _), together = OBJECTIVE(params, rows)
    # Rows of 12 tokens hold one rollout each.
    (alone_value, _), alone = OBJECTIVE(params, packed_rows(groups, row_tokens=12, shares_prompts=False)[0])
    np.testing.assert_allclose(value, alone_value, rtol=1e-4)
    for left, right in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(left, right, atol=2e-3 * max(1.0, float(np.abs(right).max())))


def test_the_sampling_policy_itself_has_ratio_one_and_a_moved_one_has_not():
    rows, _ = packed_rows([group(0, reward=(1, -1, 0, 1))])
    (_, own), _ = OBJECTIVE(copied_params(), rows)
    (_, other), _ = OBJECTIVE(moved(), rows)
    assert abs(float(own["kl"])) < 1e-4
    assert float(own["clipped"]) == 0
    assert float(other["kl"]) > 1e-2


CORRECTED = jax.jit(
    jax.value_and_grad(
        functools.partial(
            objectives.clipped_surrogate, settings=tiny.SETTINGS, temperature=1.0, epsilon_low=LOW, epsilon_high=HIGH,
            importance_cap=1.02,
        ),
        has_aux=True,
    )
)  # fmt: skip


def test_a_sampler_that_is_the_policy_needs_no_correction():
    rows, _ = packed_rows([group(0, reward=(1, -1, 0, 1))])
    (plain, _), grads = OBJECTIVE(copied_params(), rows)
    (corrected, sums), corrected_grads = CORRECTED(copied_params(), rows)
    np.testing.assert_allclose(plain, corrected, atol=1e-4)
    for left, right in zip(jax.tree.leaves(grads), jax.tree.leaves(corrected_grads), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-3 * max(1.0, float(np.abs(left).max())))
    assert float(sums["mismatch"]) / float(sums["tokens"]) < 1e-5
    assert float(sums["truncated"]) == 0


def test_tokens_count_by_their_probability_here_over_the_samplers_up_to_the_cap():
    rows, kept = packed_rows([group(0, reward=(1, -1, 0, 1)), group(1, reward=(1, -1, -1, -1))])
    params = moved()
    expected = truncated = mismatch = 0.0
    for one, advantage in kept:
        for row in range(4):
            sampled = np.flatnonzero(one.rollouts.is_completion[row])
            now = tiny.log_probs(params, tiny.SETTINGS, one.rollouts.tokens[row])[sampled - 1]
            difference = now - one.rollouts.log_prob[row, sampled]
            expected -= (np.minimum(np.exp(difference), 1.02) * advantage[row]).sum()
            truncated += (np.exp(difference) >= 1.02).sum()
            mismatch += np.abs(difference).sum()
    (found, sums), _ = CORRECTED(params, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(sums["mismatch"], mismatch, rtol=1e-3)
    assert truncated > 0
    assert float(sums["truncated"]) == truncated


def test_a_fully_masked_batch_has_loss_zero_and_no_gradient():
    rows, _ = packed_rows([group(0, reward=(1, -1, 0, 1))])
    empty = rows._replace(per_token={name: np.zeros_like(values) for name, values in rows.per_token.items()})
    (value, _), grads = OBJECTIVE(copied_params(), empty)
    assert float(value) == 0
    assert all(not np.asarray(leaf).any() for leaf in jax.tree.leaves(grads))


@functools.cache
def lean(remat: str):
    own = Network.of(tiny.SETTINGS, ComputeSettings(**LEAN, remat=remat))
    plain = functools.partial(objectives.clipped_surrogate, temperature=1.0, epsilon_low=LOW, epsilon_high=HIGH)
    return jax.jit(jax.value_and_grad(functools.partial(plain, settings=own), has_aux=True))


@pytest.mark.parametrize("remat", ["none", "block", "dots"])
def test_blocks_chunks_and_what_is_computed_again_change_no_loss_and_no_gradient(remat):
    rows, _ = packed_rows([group(0, reward=(1, -1, 0, 1)), group(1, reward=(1, -1, -1, -1))])
    params = moved()
    (expected, sums), expected_grads = OBJECTIVE(params, rows)
    (found, found_sums), grads = lean(remat)(params, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    for name, value in sums.items():
        np.testing.assert_allclose(found_sums[name], value, rtol=1e-3, atol=1e-3)
    for one, other in zip(jax.tree.leaves(grads), jax.tree.leaves(expected_grads), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3 * max(1.0, float(np.abs(other).max())))


@pytest.mark.parametrize("shares_prompts", [False, True])
def test_a_packed_row_in_blocks_has_the_gradients_of_single_rollouts_in_dense_rows(shares_prompts):
    groups = [group(0, reward=(1, -1, 0, 1)), group(1, reward=(1, -1, -1, -1))]
    rows = packed_rows(groups, row_tokens=32, rows=4, shares_prompts=shares_prompts)[0]
    params = moved()
    (value, _), together = lean("block")(params, rows)
    (alone_value, _), alone = OBJECTIVE(params, packed_rows(groups, row_tokens=12, shares_prompts=False)[0])
    np.testing.assert_allclose(value, alone_value, rtol=1e-4)
    for left, right in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(left, right, atol=2e-3 * max(1.0, float(np.abs(right).max())))


@pytest.mark.parametrize(("blocks", "least", "most"), [(0, 1.8, 2.1), (64, 0.9, 1.1)], ids=["dense", "blockwise"])
def test_memory_grows_with_the_square_of_a_dense_row_and_in_line_with_one_in_blocks(blocks, least, most):
    model = Network.of(tiny.SETTINGS, ComputeSettings(attention_block=blocks))
    lengths = (512, 2048)
    needed = [temporary_bytes(compiled_update(model, rows=1, row_tokens=length)) for length in lengths]
    assert least < growth_exponent(lengths, needed) < most


def test_a_token_that_the_sampling_policy_found_impossible_leaves_every_gradient_finite():
    rows, _ = packed_rows([group(0, reward=(1, -1, 0, 1))])
    impossible = rows.per_token["log_prob"] - 1_000.0
    rows = rows._replace(per_token={**rows.per_token, "log_prob": impossible})
    (value, sums), grads = OBJECTIVE(moved(), rows)
    assert np.isfinite(value)
    assert np.isfinite(sums["kl"])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))
