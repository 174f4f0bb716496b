"""The ring of columns: every column holds what its position formula says, whatever the lengths and windows."""

import jax.numpy as jnp
import numpy as np
import pytest

from optimrl_jax.model import attention, decoder, kv_cache
from optimrl_jax.settings import Network
from tests.optimrl_jax.model import windowed

DRAW = np.random.default_rng(0)
SETTINGS = Network(kv_heads=2, head_width=4)


def held_at(tokens: jnp.ndarray) -> kv_cache.KeyValue:
    """A cache of tokens [s, m, u, d]: themselves as keys, and their negatives as values."""
    return kv_cache.KeyValue(tokens.swapaxes(2, 3), -tokens)


def test_columns_of_a_ring_of_four_after_position_five():
    # Positions 4 and 5 overwrote 0 and 1; a row that stands at position 1 has two columns filled.
    assert kv_cache.held_positions(jnp.array([5, 1]), 4).tolist() == [[4, 5, 2, 3], [0, 1, -2, -1]]


def test_a_layer_without_a_window_has_a_column_for_every_position():
    assert [kv_cache.cache_columns(20, window) for window in (attention.NO_WINDOW, 6, 40)] == [20, 6, 20]
    assert decoder.layer_windows(windowed.SETTINGS) == (attention.NO_WINDOW, 5, 5)


@pytest.mark.parametrize("write", [kv_cache.write_token, kv_cache.write_rows_in_turn])
@pytest.mark.parametrize("columns", [1, 3, 7, 16])
def test_rings_hold_the_newest_tokens_of_each_row_wherever_it_stands(columns, write):
    lengths, steps = np.array([1, 4, 9]), 6
    tokens = DRAW.normal(size=(3, 2, 15, 4)).astype(np.float32)
    past = kv_cache.empty_cache(SETTINGS, rows=3, columns=columns)
    for row, length in enumerate(lengths):
        prompt = jnp.asarray(np.where(np.arange(9)[:, None] < length, tokens[row, :, :9], np.nan))[None]
        ring = kv_cache.ring_of_prompt(held_at(prompt), jnp.int32(length), columns)
        if columns < 9:
            assert ring.columns == columns
        past = kv_cache.copy_row(
            past, kv_cache.KeyValue(ring.key[..., :columns], ring.value[:, :, :columns]), jnp.int32(row)
        )
    for n in range(steps):
        positions = lengths + n
        new = jnp.asarray(tokens[np.arange(3), :, positions][:, :, None])
        past = write(past, held_at(new), jnp.asarray(positions % columns))
        held = np.asarray(kv_cache.held_positions(jnp.asarray(positions), columns))
        for row in range(3):
            assert sorted(held[row])[-min(columns, positions[row] + 1) :] == list(
                range(max(0, positions[row] - columns + 1), positions[row] + 1)
            )
            for column in np.flatnonzero(held[row] >= 0):
                np.testing.assert_array_equal(past.key[row, :, :, column], tokens[row, :, held[row, column]])
                np.testing.assert_array_equal(past.value[row, :, column], -tokens[row, :, held[row, column]])


def test_attention_over_a_ring_equals_attention_over_everything_behind_a_window():
    window, total = 5, 17
    query = jnp.asarray(DRAW.normal(size=(1, 1, 4, 8)).astype(np.float32))
    key, value = (jnp.asarray(DRAW.normal(size=(1, 2, total, 8)).astype(np.float32)) for _ in range(2))
    newest = jnp.array([total - 1])
    seen = attention.causal_mask(newest[None], jnp.arange(total)[None], window=window)
    whole = kv_cache.KeyValue(key.swapaxes(2, 3), value)
    expected = attention.attend(query, attention.KVBlock(whole, seen))
    ring = kv_cache.ring_of_prompt(whole, jnp.int32(total), window)
    held = kv_cache.held_positions(newest, window)
    found = attention.attend(query, attention.KVBlock(ring, attention.causal_mask(newest[None], held, window=window)))
    np.testing.assert_allclose(found, expected, atol=1e-6)
