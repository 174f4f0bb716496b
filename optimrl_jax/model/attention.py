"""Rotary positions, visibility and grouped-query attention: what a token sees and how it sums it up.

Pure functions between the projections of a decoder block. Visibility is decided here and nowhere else: by segment and
branch (packed sequences see nothing of each other but a trunk that they share), by position (causal, wherever padding
lies) and by an optional window.
"""

import functools
import math
import typing

import jax
import jax.numpy as jnp

from optimrl_jax.model.kv_cache import KeyValue
from optimrl_jax.settings import ModelSettings

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
    return Rotation(_computed_once(jnp.cos(angles)), _computed_once(jnp.sin(angles)))


def _computed_once(x: "Float[Array, '*rest half']") -> "Float[Array, '*rest half']":
    """The same values as the result of a product, which no compiler computes again for every layer and head."""
    return jnp.matmul(x, jnp.eye(x.shape[-1]), precision=jax.lax.Precision.HIGHEST)


def frequencies(head_width: int, theta: float) -> "Float[Array, 'half']":
    """theta^(-2i/d) for i in 0..d/2-1, the inverse wavelengths of rotary embeddings."""
    return theta ** (-jnp.arange(0, head_width, 2, dtype=jnp.float32) / head_width)


def rotate(x: "Float[Array, 's t n d']", by: Rotation) -> "Float[Array, 's t n d']":
    """Rotates the pairs (x_i, x_{i + d/2}), the convention of the Qwen2 and Llama checkpoints."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = (first * by.cos - second * by.sin, second * by.cos + first * by.sin)
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def rotary_angles(positions: "Int[Array, 's t']", settings: ModelSettings) -> Rotation:
    """Cosines and sines [s, t, 1, head_width / 2] for `rotate`, scaled where the stretching asks for it."""
    by = rotation(positions, rotary_frequencies(settings))
    scale = _rotary_magnitude(settings)
    return by if scale == 1 else Rotation(by.cos * scale, by.sin * scale)


def rotary_frequencies(settings: ModelSettings) -> "Float[Array, 'half']":
    """Radians a position of each pair of features, by `rope_scaling`; head_width / 2 of them, fastest first."""
    plain = frequencies(settings.head_width, settings.rope_theta)
    return STRETCHES[settings.rope_scaling](plain, settings)


def _rotary_magnitude(settings: ModelSettings) -> float:
    """Factor of cosines and sines: 0.1 ln(factor) + 1 under YaRN (which sharpens attention), 1 otherwise."""
    if settings.rope_scaling != "yarn" or settings.rope_factor <= 1:
        return 1.0
    return 0.1 * math.log(settings.rope_factor) + 1


def _none(plain: "Float[Array, 'half']", _: ModelSettings) -> "Float[Array, 'half']":
    return plain


def _linear(plain: "Float[Array, 'half']", settings: ModelSettings) -> "Float[Array, 'half']":
    return plain / settings.rope_factor


def _llama3(plain: "Float[Array, 'half']", settings: ModelSettings) -> "Float[Array, 'half']":
    """Stretched below `rope_slow_turns`, kept above `rope_fast_turns`, blended by the number of turns in between."""
    turns = settings.rope_original_tokens * plain / (2 * math.pi)
    slow, fast = settings.rope_slow_turns, settings.rope_fast_turns
    return _blend(plain, jnp.clip((turns - slow) / (fast - slow), 0, 1), settings)


def _yarn(plain: "Float[Array, 'half']", settings: ModelSettings) -> "Float[Array, 'half']":
    """As `_llama3`, but blended by the index of the pair between the two, rounded outwards to whole indices."""
    width = settings.head_width

    def index(turns: float) -> float:
        reach = math.log(settings.rope_original_tokens / (turns * 2 * math.pi))
        return width * reach / (2 * math.log(settings.rope_theta))

    first = max(math.floor(index(settings.rope_fast_turns)), 0)
    last = min(math.ceil(index(settings.rope_slow_turns)), width - 1)
    # The published rule widens an empty span by a thousandth.
    span = (last - first) or 0.001
    return _blend(plain, 1 - jnp.clip((jnp.arange(width // 2) - first) / span, 0, 1), settings)


def _blend(
    plain: "Float[Array, 'half']", kept: "Float[Array, 'half']", settings: ModelSettings
) -> "Float[Array, 'half']":
    return plain * kept + plain / settings.rope_factor * (1 - kept)


STRETCHES = {"none": _none, "linear": _linear, "llama3": _llama3, "yarn": _yarn}


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


class Held(typing.NamedTuple):
    """Keys and values in b rows, each of which belongs to s / b neighbouring rows of queries, and which they see."""

    past: KeyValue
    seen: "Bool[Array, 's t u']"


def attend(query: "Float[Array, 's t n d']", *parts: Held) -> "Float[Array, 's t n d']":
    """Softmax attention in float32 over keys and values that may lie apart, n query heads sharing m key heads.

    What neighbouring rows share is read once for all of them. Keys and values come in the layout of caches
    (`cache.KeyValue`): both products are then plain batched matrix products without a transposed copy. A query that
    sees nothing gets finite values.
    """
    found = [_softmax(query, part) for part in parts]
    greatest = functools.reduce(jnp.maximum, (part.greatest for part in found))
    shares = [jnp.exp(part.greatest - greatest) for part in found]
    total = sum(share * part.total for share, part in zip(shares, found, strict=True))
    # Dividing the short sums instead of the weights saves two passes over [t, u].
    summed = sum(share * part.summed for share, part in zip(shares, found, strict=True)) / total
    return summed.astype(parts[0].past.value.dtype)


class _Softmax(typing.NamedTuple):
    """Greatest score and sum of weights relative to it, [s, t, n, 1], and the weighted sum of values [s, t, n, d]."""

    greatest: "Float[Array, 's t n 1']"
    total: "Float[Array, 's t n 1']"
    summed: "Float[Array, 's t n d']"


def _softmax(query: "Float[Array, 's t n d']", held: Held) -> _Softmax:
    s, t, n, d = query.shape
    b, m, u, _ = held.past.value.shape
    k, g = s // b, n // m
    grouped = (query / math.sqrt(d)).reshape(b, k, t, m, g, d).transpose(0, 3, 1, 4, 2, 5).reshape(b, m, k * g * t, d)
    scores = jnp.einsum("bmqd,bmdu->bmqu", grouped, held.past.key, preferred_element_type=jnp.float32)
    hidden = jnp.where(held.seen, 0.0, HIDDEN).reshape(b, 1, k, 1, t, u)
    scores = scores.reshape(b, m, k, g, t, u) + hidden
    greatest = jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True))
    weights = jnp.exp(scores - greatest)
    total = weights.sum(axis=-1, keepdims=True)
    weights = weights.reshape(b, m, k * g * t, u).astype(held.past.value.dtype)
    summed = jnp.einsum("bmqu,bmud->bmqd", weights, held.past.value, preferred_element_type=jnp.float32)

    def by_row(x: "Array") -> "Array":
        return x.reshape(b, m, k, g, t, -1).transpose(0, 2, 4, 1, 3, 5).reshape(s, t, n, -1)

    return _Softmax(by_row(greatest), by_row(total), by_row(summed))
