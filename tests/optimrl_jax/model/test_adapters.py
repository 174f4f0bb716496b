"""Adapters: nothing at first, the same added as merged, and gradients that follow from those of the whole matrices."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from optimrl_jax.model import adapters, decoder
from optimrl_jax.settings import ComputeSettings, LoraSettings, Network
from tests.optimrl_jax.model import tiny

LORA = LoraSettings(rank=3, alpha=6.0)
TOKENS = np.random.default_rng(0).integers(0, 40, (2, 9))


def moved(model=tiny.SETTINGS, lora=LORA) -> decoder.Params:
    """Adapters after some steps: neither matrix is zero."""
    tree = adapters.initial_adapters(model, lora, jax.random.key(1))
    return jax.tree.map(lambda x: x + 0.3 * np.sin(np.arange(x.size)).reshape(x.shape), tree)


@functools.partial(jax.jit, static_argnums=1)
def log_likelihood(params, network):
    positions = jnp.broadcast_to(jnp.arange(TOKENS.shape[1]), TOKENS.shape)
    hidden, _ = decoder.hidden_states(
        params, network, tokens=TOKENS, positions=positions, segments=jnp.ones_like(positions)
    )
    scores = jax.nn.log_softmax(decoder.logits(params, hidden)[:, :-1])
    return jnp.take_along_axis(scores, TOKENS[:, 1:, None], axis=-1).sum()


@functools.cache
def gradients():
    """Of adapters, and of the merged matrices that they stand for."""
    base, tree = tiny.params(), moved()
    own = jax.grad(lambda a: log_likelihood(adapters.add_adapters(base, a, LORA), tiny.SETTINGS))(tree)
    dense = jax.grad(lambda p: log_likelihood(p, tiny.SETTINGS))(adapters.merge_adapters(base, tree, LORA))
    return tree, own, dense


def test_new_adapters_leave_the_policy_unchanged():
    base = tiny.params()
    fresh = adapters.initial_adapters(tiny.SETTINGS, LORA, jax.random.key(0))
    added = adapters.add_adapters(base, fresh, LORA)
    assert log_likelihood(added, tiny.SETTINGS) == log_likelihood(base, tiny.SETTINGS)
    for one, other in zip(*map(jax.tree.leaves, (adapters.merge_adapters(base, fresh, LORA), base)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert all(np.any(pair["down"]) and not np.any(pair["up"]) for pair in pairs(fresh).values())


def test_merged_weights_are_the_policy_with_its_adapters():
    base, tree = tiny.params(), moved()
    added = log_likelihood(adapters.add_adapters(base, tree, LORA), tiny.SETTINGS)
    merged = log_likelihood(adapters.merge_adapters(base, tree, LORA), tiny.SETTINGS)
    np.testing.assert_allclose(added, merged, rtol=1e-5)
    assert abs(merged - log_likelihood(base, tiny.SETTINGS)) > 1


@pytest.mark.parametrize("name", adapters.MATRICES)
def test_gradients_of_adapters_are_projections_of_the_matrix_gradient(name):
    tree, own, dense = gradients()
    block, inputs = adapters.MATRICES[name]
    for layer in range(tiny.SETTINGS.layers):
        pair, found = (jax.tree.map(lambda x, n=layer: np.asarray(x[n]), pairs(t)[name]) for t in (tree, own))
        whole = np.asarray(dense["layers"][block][name][layer])
        matrix = whole.reshape(int(np.prod(whole.shape[:inputs])), -1)
        down, up = pair["down"].reshape(-1, LORA.rank), pair["up"].reshape(LORA.rank, -1)
        tight = {"rtol": 2e-3, "atol": 2e-3 * np.abs(matrix).max()}
        np.testing.assert_allclose(found["down"].reshape(-1, LORA.rank), 2 * matrix @ up.T, **tight)
        np.testing.assert_allclose(found["up"].reshape(LORA.rank, -1), 2 * down.T @ matrix, **tight)


def test_gradients_of_adapters_are_finite_differences_of_merged_matrices():
    tree, own, _ = gradients()
    draw = np.random.default_rng(2)
    direction = jax.tree.map(lambda x: draw.normal(size=x.shape).astype(np.float32), tree)
    expected = sum(float((a * b).sum()) for a, b in zip(*map(jax.tree.leaves, (own, direction)), strict=True))

    def at(step: float) -> float:
        there = jax.tree.map(lambda x, d: x + step * d, tree, direction)
        return float(log_likelihood(adapters.merge_adapters(tiny.params(), there, LORA), tiny.SETTINGS))

    assert (at(1e-3) - at(-1e-3)) / 2e-3 == pytest.approx(expected, rel=2e-2)


def test_only_the_named_matrices_have_adapters():
    few = dataclasses.replace(LORA, targets=("query", "down"))
    tree = adapters.initial_adapters(tiny.SETTINGS, few, jax.random.key(0))
    assert set(pairs(tree)) == {"query", "down"}
    base, merged = tiny.params(), adapters.merge_adapters(tiny.params(), moved(lora=few), few)
    changed = {
        f"{block}/{name}"
        for block, matrices in base["layers"].items()
        for name, matrix in matrices.items()
        if np.any(matrix != merged["layers"][block][name])
    }
    assert changed == {"attention/query", "mlp/down"}


def test_the_frozen_base_is_kept_in_the_type_it_is_used_in():
    network = Network.of(tiny.SETTINGS, ComputeSettings(dtype="bfloat16"))
    base = adapters.frozen_base(tiny.params(), network)
    types = {leaf.dtype.name for path, leaf in jax.tree_util.tree_leaves_with_path(base) if path[-1].key != "scale"}
    assert types == {"bfloat16"}
    assert base["final_norm"]["scale"].dtype == jnp.float32
    shapes = adapters.frozen_base(decoder.abstract_params(network), network)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), shapes) == jax.tree.map(lambda x: (x.shape, x.dtype), base)
    merged = adapters.merge_adapters(base, moved(), LORA)
    assert merged["layers"]["mlp"]["up"].dtype == jnp.bfloat16


def pairs(tree) -> dict:
    """The pair of each matrix by its name."""
    return {
        name.removesuffix(adapters.SUFFIX): pair for block in tree["layers"].values() for name, pair in block.items()
    }
