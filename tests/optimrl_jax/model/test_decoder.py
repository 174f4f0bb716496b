"""The decoder over packed rows: segments keep to themselves, positions are their own, padding changes nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from optimrl_jax.model import decoder, kv_cache
from tests.optimrl_jax.model import tiny

DRAW = np.random.default_rng(0)
A, B = DRAW.integers(0, 40, 7), DRAW.integers(0, 40, 5)


def hidden_of(tokens: np.ndarray, positions: np.ndarray, segments: np.ndarray, settings=tiny.SETTINGS) -> np.ndarray:
    states, _ = tiny.hidden_states(
        tiny.params(settings), settings, tokens=tokens[None], positions=positions[None], segments=segments[None]
    )
    return np.asarray(states[0])


def alone(tokens: np.ndarray, settings=tiny.SETTINGS) -> np.ndarray:
    return hidden_of(tokens, np.arange(len(tokens)), np.ones(len(tokens), int), settings)


def packed(a: np.ndarray, b: np.ndarray, *, padding: int = 3) -> np.ndarray:
    tokens = np.concatenate([a, b, np.zeros(padding, int)])
    positions = np.concatenate([np.arange(len(a)), np.arange(len(b)), np.zeros(padding, int)])
    segments = np.repeat([1, 2, 0], [len(a), len(b), padding])
    return hidden_of(tokens, positions, segments)


def test_packed_sequences_equal_unpacked_ones():
    together = packed(A, B)
    np.testing.assert_allclose(together[:7], alone(A), atol=1e-5)
    np.testing.assert_allclose(together[7:12], alone(B), atol=1e-5)


def test_changing_one_packed_sequence_does_not_move_the_other():
    np.testing.assert_array_equal(packed(A, B)[7:12], packed((A + 1) % 40, B)[7:12])


def test_a_later_token_does_not_move_an_earlier_one():
    changed = A.copy()
    changed[5] = (changed[5] + 1) % 40
    before, after = alone(A), alone(changed)
    np.testing.assert_allclose(before[:5], after[:5], atol=1e-6)
    assert not np.allclose(before[5], after[5])


@pytest.mark.parametrize("settings", [tiny.SETTINGS, tiny.UNTIED], ids=["tied_with_bias", "untied_without_bias"])
def test_parameters_are_what_the_settings_ask_for(settings):
    tree = decoder.initial_params(settings, jax.random.key(0))
    assert ("unembedding" in tree) == (not settings.has_tied_embeddings)
    assert ("query_bias" in tree["layers"]["attention"]) == settings.has_qkv_bias
    assert tree["layers"]["mlp"]["gate"].shape == (settings.layers, settings.width, settings.mlp_width)
    logits = decoder.logits(tree, alone(A, settings))
    assert logits.shape == (7, settings.vocabulary)


def test_decoding_token_by_token_equals_the_full_pass():
    settings, tree = tiny.SETTINGS, tiny.params()
    width = len(A)
    past = (kv_cache.empty_cache(settings, rows=1, columns=width),) * settings.layers
    full = np.asarray(decoder.logits(tree, alone(A)))
    for at, token in enumerate(A):
        logits, past = tiny.decode(
            tree,
            settings,
            tokens=np.array([token]),
            positions=np.array([at]),
            past=past,
            slot=np.int32(at),
        )
        np.testing.assert_allclose(logits[0], full[at], atol=1e-4)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize(
    ("rest", "inputs", "outputs"),
    [((2, 5), (3,), (7,)), ((2, 5), (7,), (3,)), ((4,), (3,), (2, 4)), ((2, 5), (2, 4), (3,)), ((), (3,), (3,))],
)
def test_a_product_and_its_gradients_are_those_of_a_plain_one(rest, inputs, outputs, dtype):
    draw = np.random.default_rng(0)
    x, weights = (jnp.asarray(draw.normal(size=shape), dtype) for shape in (rest + inputs, inputs + outputs))
    found, pull = jax.vjp(lambda *factors: decoder.project(*factors, len(inputs)), x, weights)
    expected, plain_pull = jax.vjp(lambda *factors: jnp.tensordot(*factors, len(inputs)), x, weights)
    grad = jnp.asarray(draw.normal(size=rest + outputs), dtype)
    for one, other in zip((found, *pull(grad)), (expected, *plain_pull(grad)), strict=True):
        assert one.dtype == other.dtype == dtype
        np.testing.assert_allclose(one.astype(np.float32), other.astype(np.float32), rtol=2e-2, atol=2e-2)
