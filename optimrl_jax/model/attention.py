"""Rotary positions, visibility and grouped-query attention: what a token sees and how it sums it up.

Pure functions between the projections of a decoder block. Visibility is decided here and nowhere else: by segment and
branch (packed sequences see nothing of each other but a trunk that they share), by position (causal, wherever padding
lies) and by an optional window.
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
    window: "int | Int[Array, '']" = NO_WINDOW,
) -> "Bool[Array, 's t u']":
    """True where a query may see a key of its sequence: not later, among the last `window` positions, itself included.

    A negative key position marks an empty slot, which nobody sees.
    """
    q, k = query_positions[:, :, None], key_positions[:, None, :]
    return (k >= 0) & (k <= q) & (q - k < window)


class Layout(typing.NamedTuple):
    """Where the tokens of packed rows stand: int32[s, t] each.

    The tokens of a segment are neighbours, those of its trunk (branch 0) before its branches. Positions count from 0 in
    a segment and go on from the trunk's end in each branch. Segment 0 is padding.
    """

    positions: "Int[Array, 's t']"
    segments: "Int[Array, 's t']"
    branches: "Int[Array, 's t']"


def visible_in_rows(
    query: Layout, key: Layout, *, window: "int | Int[Array, '']" = NO_WINDOW
) -> "Bool[Array, 's t u']":
    """`visible` in packed rows: of its own segment alone a query sees the trunk and its own branch."""
    same = query.segments[:, :, None] == key.segments[:, None, :]
    other = key.branches[:, None, :]
    same &= (other == 0) | (other == query.branches[:, :, None])
    return same & visible(query.positions, key.positions, window=window)


class Sight(typing.NamedTuple):
    """What queries may see where no window narrows it, and the positions by which a window would."""

    seen: "Bool[Array, 's t u']"
    query_positions: "Int[Array, 's t']"
    key_positions: "Int[Array, 's u']"


def within(sight: Sight, window: "int | Int[Array, '']") -> "Bool[Array, 's t u']":
    """Visibility narrowed to the last `window` positions, the query's own included."""
    distance = sight.query_positions[:, :, None] - sight.key_positions[:, None, :]
    return sight.seen & (distance < window)


def attend(
    query: "Float[Array, 's t n d']",
    key: "Float[Array, 's m u d']",
    value: "Float[Array, 's m u d']",
    seen: "Bool[Array, 's t u']",
) -> "Float[Array, 's t n d']":
    """Softmax attention in float32, n query heads sharing m key heads; a query that sees nothing gets finite values.

    Keys and values come with the head axis first, the layout in which caches are kept: both products are then plain
    batched matrix products without a transposed copy of the cache.
    """
    s, t, n, d = query.shape
    m, u = key.shape[1:3]
    g = n // m
    grouped = (query / math.sqrt(d)).reshape(s, t, m, g, d).transpose(0, 2, 3, 1, 4).reshape(s, m, g * t, d)
    scores = jnp.einsum("smqd,smud->smqu", grouped, key, preferred_element_type=jnp.float32)
    scores = scores.reshape(s, m, g, t, u) + jnp.where(seen, 0.0, HIDDEN)[:, None, None]
    # Dividing the short sums instead of the weights saves two passes over [t, u].
    weights = jnp.exp(scores - jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True)))
    total = weights.sum(axis=-1).reshape(s, m, g * t, 1)
    weights = weights.reshape(s, m, g * t, u).astype(value.dtype)
    summed = jnp.einsum("smqu,smud->smqd", weights, value, preferred_element_type=jnp.float32) / total
    return summed.astype(value.dtype).reshape(s, m, g, t, d).transpose(0, 3, 1, 2, 4).reshape(s, t, n, d)
