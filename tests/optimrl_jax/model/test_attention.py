"""What a token sees, how rotary positions turn, and attention against a loop over heads and queries."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from optimrl_jax.model import attention
from optimrl_jax.model.kv_cache import KeyValue
from tests.optimrl_jax.model import tiny


def test_a_window_of_three_lets_a_token_see_exactly_three_keys():
    positions = np.arange(6)[None]
    seen = attention.causal_mask(positions, positions, window=3)
    assert seen[0].sum(axis=1).tolist() == [1, 2, 3, 3, 3, 3]
    assert np.flatnonzero(seen[0, 5]).tolist() == [3, 4, 5]


def test_segments_and_empty_slots_are_never_seen():
    positions = np.array([[0, 1, 0, 1]])
    segments = np.array([[1, 1, 2, 2]])
    layout = attention.TokenLayout(positions, segments, np.zeros_like(segments))
    seen = attention.packed_mask(layout, layout)
    assert seen[0].astype(int).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    slots = np.array([[0, -1, 1, -1]])
    assert attention.causal_mask(np.array([[1]]), slots)[0].tolist() == [[True, False, True, False]]


def test_rotation_of_one_pair_is_a_rotation_in_the_plane():
    by = attention.angles_of_positions(np.array([[3]]), attention.unscaled_frequencies(2, 10_000.0))
    turned = attention.rotate(jnp.array([[[[1.0, 0.0]]]]), by)[0, 0, 0]
    np.testing.assert_allclose(turned, [np.cos(3), np.sin(3)], rtol=1e-6)


def test_scores_of_rotated_vectors_depend_on_distance_alone():
    draw = np.random.default_rng(0)
    q, k = draw.normal(size=(2, 1, 1, 1, 16)).astype(np.float32)
    turns = attention.unscaled_frequencies(16, 1e6)

    def score(query_at: int, key_at: int) -> float:
        turned = [
            attention.rotate(jnp.asarray(x), attention.angles_of_positions(np.array([[at]]), turns))
            for x, at in ((q, query_at), (k, key_at))
        ]
        return float(jnp.sum(turned[0] * turned[1]))

    assert np.isclose(score(2040, 2030), score(10, 0), atol=1e-3)
    assert not np.isclose(score(10, 0), score(11, 0), atol=1e-3)


def test_attention_equals_a_loop_over_rows_heads_and_queries():
    draw = np.random.default_rng(1)
    s, t, n, m, d = 2, 5, 6, 3, 4
    query = draw.normal(size=(s, t, n, d)).astype(np.float32)
    key, value = draw.normal(size=(2, s, m, t, d)).astype(np.float32)
    seen = np.tril(np.ones((s, t, t), bool))
    found = attention.attend(query, attention.KVBlock(KeyValue(key.swapaxes(2, 3), value), seen))
    for row in range(s):
        for head in range(n):
            own_key, own_value = key[row, head // (n // m)], value[row, head // (n // m)]
            for at in range(t):
                scores = own_key[: at + 1] @ query[row, at, head] / np.sqrt(d)
                weights = np.exp(scores) / np.exp(scores).sum()
                np.testing.assert_allclose(found[row, at, head], weights @ own_value[: at + 1], rtol=2e-5, atol=1e-6)


def test_attention_of_a_query_that_sees_nothing_is_finite_with_its_gradient():
    ones = jnp.ones((1, 2, 2, 4))
    nothing = attention.KVBlock(KeyValue(ones.swapaxes(2, 3), ones), jnp.zeros((1, 2, 2), bool))
    for parts in ([nothing], [nothing, nothing]):
        grads = jax.grad(lambda x, parts=parts: attention.attend(x, *parts).sum())(ones)
        assert np.isfinite(grads).all()


@pytest.mark.parametrize("samples", [1, 3])
def test_a_prefix_that_neighbours_share_counts_as_if_each_row_held_it(samples):
    draw = np.random.default_rng(2)
    b, t, n, m, d, shared, own = 2, 2, 4, 2, 8, 5, 3
    s = b * samples
    query = 3 * draw.normal(size=(s, t, n, d)).astype(np.float32)

    def held(rows: int, columns: int) -> KeyValue:
        key = draw.normal(size=(rows, m, d, columns)).astype(np.float32)
        return KeyValue(key, draw.normal(size=(rows, m, columns, d)).astype(np.float32))

    prefix, suffix = held(b, shared), held(s, own)
    sees_prefix, sees_suffix = draw.random((s, t, shared)) < 0.5, draw.random((s, t, own)) < 0.5
    # One query sees nothing of the prefix, another nothing of its own.
    sees_prefix[0, 0], sees_suffix[0, 0, 0], sees_suffix[-1, 1], sees_prefix[-1, 1, 0] = False, True, False, True
    found = attention.attend(query, attention.KVBlock(suffix, sees_suffix), attention.KVBlock(prefix, sees_prefix))
    each = [np.repeat(part, samples, axis=0) for part in prefix]
    whole = KeyValue(*(np.concatenate(parts, axis) for *parts, axis in zip(each, suffix, (3, 2), strict=True)))
    expected = attention.attend(query, attention.KVBlock(whole, np.concatenate([sees_prefix, sees_suffix], axis=2)))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scaling", ["none", "linear", "llama3", "yarn"])
def test_rotary_angles_are_exact_far_from_the_start(scaling):
    long = dataclasses.replace(
        tiny.SETTINGS,
        head_width=128,
        rope_theta=1e6,
        rope_scaling=scaling,
        rope_factor=4.0,
        rope_original_tokens=32_768,
    )
    positions = np.array([[0, 1, 4_097, 32_767, 131_071]])
    # In whole numbers and doubles: no product of the two is rounded to float32 before its turns are dropped.
    angles = positions[..., None].astype(np.float64) * attention.rotary_frequencies(long)
    scale = 1 if scaling != "yarn" else 0.1 * np.log(4) + 1
    for found in (
        attention.rotary_angles(jnp.asarray(positions), long),
        jax.jit(attention.rotary_angles, static_argnums=1)(jnp.asarray(positions), long),
    ):
        np.testing.assert_allclose(found.cos[:, :, 0], np.cos(angles) * scale, atol=2e-6)
        np.testing.assert_allclose(found.sin[:, :, 0], np.sin(angles) * scale, atol=2e-6)
