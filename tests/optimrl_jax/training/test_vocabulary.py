"""Chunked sums against those of the dense scores, gradients too, and the memory that each needs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from optimrl_jax.training import objectives
from tests.benchmarks.model_costs import loss_memory_share

TABLES = {"tied": lambda draw: {"embedding": draw(11, 6)}, "untied": lambda draw: {"unembedding": draw(6, 11)}}


def inputs_of(s: int, t: int, *, table: str, seed: int) -> tuple:
    """Parameters, hidden states, targets and a weight for each token, some of them 0."""
    source = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return 2 * source.normal(size=shape).astype(np.float32)

    weight = draw(s, t) * source.integers(0, 2, (s, t))
    return TABLES[table](draw), draw(s, t, 6), source.integers(0, 11, (s, t)), {"weight": weight}


def objective(found: objectives.Scores, known: objectives.PerToken) -> objectives.Sums:
    """A curved loss of the log-probabilities; the other sums tell the scores of single tokens apart."""
    weight = known["weight"]
    return {
        "loss": jnp.sum(jnp.sin(found.log_prob) * weight),
        "log_prob": jnp.sum(found.log_prob * weight),
        "entropy": jnp.sum(found.entropy * weight),
    }


@functools.partial(jax.jit, static_argnames=("chunk", "temperature", "summed"))
def value_and_grads(params, hidden, targets, known, *, chunk, temperature, summed=objective):
    def total(params, hidden):
        of = functools.partial(objectives.chunked_objective, chunk=chunk) if chunk else objectives.dense_objective
        sums = of(params, hidden, targets, known, summed, temperature=temperature)
        # Half of it, so that a gradient that forgets what stands behind the loss is seen.
        return 0.5 * sums["loss"] + sums["entropy"], sums

    (_, sums), grads = jax.value_and_grad(total, argnums=(0, 1), has_aux=True)(params, hidden)
    return sums, grads


def scores_of(params, hidden, *, chunk) -> objectives.Sums:
    """Log-probability of word 0 and entropy, over all tokens."""
    targets, known = np.zeros(hidden.shape[:2], int), {"weight": np.ones(hidden.shape[:2], np.float32)}
    return value_and_grads(params, hidden, targets, known, chunk=chunk, temperature=0.7)[0]


@pytest.mark.parametrize("chunk", [0, 2])
def test_four_equal_scores_have_a_quarter_each_and_entropy_log_four(chunk):
    found = scores_of({"embedding": np.ones((4, 3), np.float32)}, np.ones((1, 5, 3), np.float32), chunk=chunk)
    np.testing.assert_allclose(found["log_prob"], 5 * np.log(0.25), rtol=1e-6)
    np.testing.assert_allclose(found["entropy"], 5 * np.log(4), rtol=1e-6)


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize(("t", "chunk"), [(1, 3), (8, 3), (6, 2), (5, 16)])
def test_chunks_equal_the_dense_sums_with_their_gradients(t, chunk, table):
    inputs = inputs_of(2, t, table=table, seed=t)
    found, grads = value_and_grads(*inputs, chunk=chunk, temperature=0.7)
    expected, expected_grads = value_and_grads(*inputs, chunk=0, temperature=0.7)
    for one, other in zip(jax.tree.leaves((found, grads)), jax.tree.leaves((expected, expected_grads)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    undifferentiated = objectives.chunked_objective(*inputs, objective, temperature=0.7, chunk=chunk)
    np.testing.assert_allclose(undifferentiated["log_prob"], expected["log_prob"], rtol=1e-4, atol=1e-4)


def test_bfloat16_hidden_states_still_give_float32_sums_and_table_gradients():
    params, hidden, targets, known = inputs_of(2, 8, table="tied", seed=0)
    narrow = jnp.asarray(hidden, jnp.bfloat16)
    found, (table_grad, hidden_grad) = value_and_grads(params, narrow, targets, known, chunk=3, temperature=1.0)
    expected, (wide_grad, _) = value_and_grads(params, hidden, targets, known, chunk=0, temperature=1.0)
    assert found["log_prob"].dtype == table_grad["embedding"].dtype == jnp.float32
    assert hidden_grad.dtype == jnp.bfloat16
    np.testing.assert_allclose(found["log_prob"], expected["log_prob"], atol=1.0)
    np.testing.assert_allclose(table_grad["embedding"], wide_grad["embedding"], atol=1.0)


@pytest.mark.parametrize("chunk", [0, 3])
def test_entropy_of_a_certain_choice_is_zero_however_large_the_scores(chunk):
    params = {"embedding": np.array([[131.7], [3.0], [-40.0]], np.float32)}
    found = scores_of(params, np.full((1, 4, 1), 1.3, np.float32), chunk=chunk)
    np.testing.assert_allclose(found["entropy"], 0, atol=1e-6 * 300)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_the_loss_at_32k_tokens_and_152k_words_needs_a_twentieth_of_the_dense_scores(dtype):
    share = loss_memory_share(tokens=32_768, vocabulary=152_064, width=64, chunk=256, dtype=dtype)
    assert share < 1 / 20
