"""Chunked scores against the dense ones, gradients too, and the memory that each needs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from optimrl_jax.learner import cross_entropy
from tests.benchmarks.model_costs import loss_memory_share

TABLES = {"tied": lambda draw: {"embedding": draw(11, 6)}, "untied": lambda draw: {"unembedding": draw(6, 11)}}


def inputs_of(s: int, t: int, *, table: str, seed: int) -> tuple:
    """Parameters, hidden states, targets and a weight for each token, some of them 0."""
    source = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return 2 * source.normal(size=shape).astype(np.float32)

    weight = draw(s, t) * source.integers(0, 2, (s, t))
    return TABLES[table](draw), draw(s, t, 6), source.integers(0, 11, (s, t)), weight


@functools.partial(jax.jit, static_argnames=("chunk", "temperature"))
def value_and_grads(params, hidden, targets, weight, *, chunk, temperature):
    def total(params, hidden):
        score = functools.partial(cross_entropy.chunked, chunk=chunk) if chunk else cross_entropy.dense
        found = score(params, hidden, targets, temperature=temperature)
        return jnp.sum(jnp.sin(found.log_prob) * weight) + jnp.sum(found.entropy), found

    return jax.value_and_grad(total, argnums=(0, 1), has_aux=True)(params, hidden)


def test_four_equal_scores_have_a_quarter_each_and_entropy_log_four():
    params = {"embedding": np.ones((4, 3), np.float32)}
    found = cross_entropy.chunked(
        params, np.ones((1, 5, 3), np.float32), np.zeros((1, 5), int), temperature=1.0, chunk=2
    )
    np.testing.assert_allclose(found.log_prob, np.full((1, 5), np.log(0.25)), rtol=1e-6)
    np.testing.assert_allclose(found.entropy, np.full((1, 5), np.log(4)), rtol=1e-6)


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize(("t", "chunk"), [(1, 3), (8, 3), (6, 2), (5, 16)])
def test_chunks_equal_the_dense_scores_with_their_gradients(t, chunk, table):
    inputs = inputs_of(2, t, table=table, seed=t)
    (_, found), grads = value_and_grads(*inputs, chunk=chunk, temperature=0.7)
    (_, expected), expected_grads = value_and_grads(*inputs, chunk=0, temperature=0.7)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    for one, other in zip(jax.tree.leaves(grads), jax.tree.leaves(expected_grads), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_bfloat16_hidden_states_still_give_float32_scores_and_table_gradients():
    params, hidden, targets, weight = inputs_of(2, 8, table="tied", seed=0)
    narrow = jnp.asarray(hidden, jnp.bfloat16)
    (_, found), (table_grad, hidden_grad) = value_and_grads(params, narrow, targets, weight, chunk=3, temperature=1.0)
    (_, expected), (wide_grad, _) = value_and_grads(params, hidden, targets, weight, chunk=0, temperature=1.0)
    assert found.log_prob.dtype == table_grad["embedding"].dtype == jnp.float32
    assert hidden_grad.dtype == jnp.bfloat16
    np.testing.assert_allclose(found.log_prob, expected.log_prob, atol=0.3)
    np.testing.assert_allclose(table_grad["embedding"], wide_grad["embedding"], atol=1.0)


def test_entropy_of_a_certain_choice_is_zero_however_large_the_scores():
    params = {"embedding": np.array([[131.7], [3.0], [-40.0]], np.float32)}
    hidden, targets = np.full((1, 4, 1), 1.3, np.float32), np.zeros((1, 4), int)
    for score in (cross_entropy.dense, functools.partial(cross_entropy.chunked, chunk=3)):
        np.testing.assert_allclose(score(params, hidden, targets, temperature=0.7).entropy, 0, atol=1e-6 * 300)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_the_loss_at_32k_tokens_and_152k_words_needs_a_twentieth_of_the_dense_scores(dtype):
    share = loss_memory_share(tokens=32_768, vocabulary=152_064, width=64, chunk=256, dtype=dtype)
    assert share < 1 / 20
