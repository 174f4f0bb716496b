"""Rotary positions, visibility and grouped-query attention: what a token sees and how it sums it up.

Pure functions between the projections of a decoder block. Visibility is decided here and nowhere else: by segment
(packed sequences never see each other), by position (causal, wherever padding lies) and by an optional window.
"""

import math
import typing

import jax
import jax.numpy as jnp

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int

NO_WINDOW = 1 << 30
HIDDEN = -1e30


class Rotation(typing.NamedTuple):
    """Cosines and sines of the rotary angles, [s, t, 1, d / 2], one pair for each token."""

    cos: "Float[Array, 's t 1 half']"
    sin: "Float[Array, 's t 1 half']"


def rotation(positions: "Int[Array, 's t']", frequencies: "Float[Array, 'half']") -> Rotation:
    """Angles `position * frequency` in float32: bfloat16 would already round positions above 256."""
    angles = positions.astype(jnp.float32)[..., None, None] * frequencies
    return Rotation(jnp.cos(angles), jnp.sin(angles))


def frequencies(head_width: int, theta: float) -> "Float[Array, 'half']":
    """theta^(-2i/d) for i in 0..d/2-1, the inverse wavelengths of rotary embeddings."""
    return theta ** (-jnp.arange(0, head_width, 2, dtype=jnp.float32) / head_width)


def rotate(x: "Float[Array, 's t n d']", by: Rotation) -> "Float[Array, 's t n d']":
    """Rotates the pairs (x_i, x_{i + d/2}), the convention of the Qwen2 and Llama checkpoints."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = (first * by.cos - second * by.sin, second * by.cos + first * by.sin)
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def visible(
    query_positions: "Int[Array, 's t']",
    key_positions: "Int[Array, 's u']",
    *,
    query_segments: "Int[Array, 's t'] | None" = None,
    key_segments: "Int[Array, 's u'] | None" = None,
    window: "int | Int[Array, '']" = NO_WINDOW,
) -> "Bool[Array, 's t u']":
    """True where a query may see a key: same segment, not later, among the last `window` positions, itself included.

    A negative key position marks an empty slot, which nobody sees.
    """
    q, k = query_positions[:, :, None], key_positions[:, None, :]
    seen = (k >= 0) & (k <= q) & (q - k < window)
    if query_segments is not None and key_segments is not None:
        seen &= query_segments[:, :, None] == key_segments[:, None, :]
    return seen


def attend(
    query: "Float[Array, 's t n d']",
    key: "Float[Array, 's u m d']",
    value: "Float[Array, 's u m d']",
    seen: "Bool[Array, 's t u']",
) -> "Float[Array, 's t n d']":
    """Softmax attention in float32, n query heads sharing m key heads; a query that sees nothing gets finite values."""
    s, t, n, d = query.shape
    m = key.shape[2]
    grouped = query.reshape(s, t, m, n // m, d)
    scores = jnp.einsum("stmgd,sumd->smgtu", grouped, key, preferred_element_type=jnp.float32) / math.sqrt(d)
    weights = jax.nn.softmax(jnp.where(seen[:, None, None], scores, HIDDEN), axis=-1)
    summed = jnp.einsum("smgtu,sumd->stmgd", weights.astype(value.dtype), value)
    return summed.reshape(s, t, n, d)
