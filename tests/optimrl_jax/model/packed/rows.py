"""Packed rows with their layouts and arrays, and dense attention over them, which every other kind has to equal."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from optimrl_jax.model import attention
from optimrl_jax.model.kv_cache import KeyValue

HEADS, KV_HEADS, HEAD_WIDTH = 4, 2, 8


def packed_layout(rows: list[list[tuple[int, ...]]], row_tokens: int) -> attention.TokenLayout:
    """In each row segments of a prefix and suffixes of the given lengths, padding after them."""
    positions, segments, suffixes = np.zeros((3, len(rows), row_tokens), np.int32)
    for row, lengths in enumerate(rows):
        start = 0
        for segment, parts in enumerate(lengths, start=1):
            for suffix, length in enumerate(parts):
                at = slice(start, start + length)
                positions[row, at] = np.arange(length) + (parts[0] if suffix else 0)
                segments[row, at], suffixes[row, at] = segment, suffix
                start += length
    return attention.TokenLayout(positions, segments, suffixes)


def arrays_of(layout: attention.TokenLayout, *, seed: int) -> tuple[np.ndarray, ...]:
    """Query, key and value, and a weight for each output that is 0 in padding."""
    s, t = layout.positions.shape
    draw = np.random.default_rng(seed)
    query, weight = draw.normal(size=(2, s, t, HEADS, HEAD_WIDTH)).astype(np.float32)
    key, value = draw.normal(size=(2, s, KV_HEADS, t, HEAD_WIDTH)).astype(np.float32)
    return 2 * query, key.swapaxes(2, 3), value, weight * (layout.segments > 0)[..., None, None]


def dense(query, key, value, layout, window):
    seen = attention.packed_mask(layout, layout, window=window)
    return attention.attend(query, attention.KVBlock(KeyValue(key, value), seen))


@functools.partial(jax.jit, static_argnames="attend")
def value_and_grads(query, key, value, weight, layout, window, *, attend):
    def total(query, key, value):
        summed = attend(query, key, value, layout, window)
        return jnp.sum(summed * weight), summed

    return jax.value_and_grad(total, argnums=(0, 1, 2), has_aux=True)(query, key, value)
