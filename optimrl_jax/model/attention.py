"""Rotary positions, visibility and grouped-query attention: what a token sees and how it sums it up.

Pure functions between the projections of a decoder block; parameters and caches are the caller's. Visibility is decided
here and nowhere else: by segment and suffix (packed sequences see nothing of each other but a prefix that they share),
by position (causal, wherever padding lies) and by an optional window.
"""

import functools
import math
import typing

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from optimrl_jax.model.kv_cache import KeyValue
from optimrl_jax.settings import ModelSettings

Window = int | Int[Array, ""]
# A window that hides nothing: more positions than any sequence has, and still an int32.
NO_WINDOW = 1 << 30
# Added to hidden scores. Finite, so that a token that sees nothing (padding) gets numbers instead of NaN.
HIDDEN = -1e30


class Rotation(typing.NamedTuple):
    """The rotary angles of tokens.

    Attributes:
      cos: `[s, t, 1, d / 2]` cosines, one for each token and pair of features, the same for all heads.
      sin: `[s, t, 1, d / 2]` sines.
    """

    cos: Float[Array, "s t 1 half"]
    sin: Float[Array, "s t 1 half"]


def rotary_angles(positions: Int[Array, "s t"], settings: ModelSettings) -> Rotation:
    """Compute the rotary angles of tokens, with frequencies stretched as the checkpoint was trained for long contexts.

    Args:
      positions: `[s, t]` positions of the tokens, from 0.
      settings: `rope_theta` and `rope_scaling` with its fields.

    Returns:
      Cosines and sines, `[s, t, 1, d / 2]`, float32; scaled by YaRN's factor where that is in use.
    """
    rotation = angles_of_positions(positions, rotary_frequencies(settings))
    scale = _rotary_magnitude(settings)
    return rotation if scale == 1 else Rotation(rotation.cos * scale, rotation.sin * scale)


def angles_of_positions(positions: Int[Array, "s t"], frequencies: Float[np.ndarray, " half"]) -> Rotation:
    """Multiply positions and frequencies (radians a position), exact to 1e-6 at any position up to 2^20.

    A product in float32 would be off by 0.008 at position 131,071. Whole turns do not matter, so that the product is
    taken in units of 2^-32 turns, whose overflow drops whole turns; what a frequency has beside whole units is small.

    Args:
      positions: `[s, t]`, from 0.
      frequencies: `[half]` float64 constants.

    Returns:
      Cosines and sines, `[s, t, 1, half]`, float32.
    """
    units = np.asarray(frequencies, np.float64) / (2 * math.pi) * 2.0**32
    whole = np.round(units)
    at = positions[..., None, None]
    turns = (at.astype(jnp.uint32) * (whole % 2.0**32).astype(np.uint32)).astype(jnp.int32)
    rest = at.astype(jnp.float32) * (units - whole).astype(np.float32)
    angles = (turns.astype(jnp.float32) + rest) * np.float32(2 * math.pi / 2.0**32)
    return Rotation(_computed_once(jnp.cos(angles)), _computed_once(jnp.sin(angles)))


def _computed_once(x: Float[Array, "*rest half"]) -> Float[Array, "*rest half"]:
    # The same values as the result of a product: compilers fuse a cosine into its users and so compute it again for
    # every layer and head, but never a product.
    return jnp.matmul(x, jnp.eye(x.shape[-1]), precision=jax.lax.Precision.HIGHEST)


def rotate(x: Float[Array, "s t n d"], rotation: Rotation) -> Float[Array, "s t n d"]:
    """Rotate the pairs (x_i, x_{i + d/2}) of each head, the convention of the Qwen2 and Llama checkpoints.

    GGUF files pair neighbours instead; their rows are put back in order when they are loaded.

    Args:
      x: `[s, t, n, d]` queries or keys.
      rotation: the angles of the same tokens.

    Returns:
      `[s, t, n, d]` in the type of `x`; the rotation itself is computed in float32.
    """
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    rotated = (first * rotation.cos - second * rotation.sin, second * rotation.cos + first * rotation.sin)
    return jnp.concatenate(rotated, axis=-1).astype(x.dtype)


def rotary_frequencies(settings: ModelSettings) -> Float[np.ndarray, " half"]:
    """Return the radians a position of each pair of features, fastest first, stretched by `rope_scaling`.

    A frequency makes `turns = rope_original_tokens * frequency / (2 pi)` turns over the context of the first training.
    Frequencies that turn often tell neighbours apart and stay; those that turn less than once are divided by
    `rope_factor`, so that the longer context still makes no more turns than training saw.
    """
    return STRETCHES[settings.rope_scaling](unscaled_frequencies(settings.head_width, settings.rope_theta), settings)


def unscaled_frequencies(head_width: int, theta: float) -> Float[np.ndarray, " half"]:
    """Return theta^(-2i/d) for i in 0..d/2-1, float64, the frequencies of rotary embeddings before any stretching."""
    return theta ** (-np.arange(0, head_width, 2, dtype=np.float64) / head_width)


def _rotary_magnitude(settings: ModelSettings) -> float:
    """Return the factor of cosines and sines: 0.1 ln(factor) + 1 under YaRN (it sharpens attention), else 1."""
    if settings.rope_scaling != "yarn" or settings.rope_factor <= 1:
        return 1.0
    return 0.1 * math.log(settings.rope_factor) + 1


Frequencies = Float[np.ndarray, " half"]


def _none(plain: Frequencies, _: ModelSettings) -> Frequencies:
    return plain


def _linear(plain: Frequencies, settings: ModelSettings) -> Frequencies:
    return plain / settings.rope_factor


def _llama3(plain: Frequencies, settings: ModelSettings) -> Frequencies:
    """Stretch below `rope_slow_turns`, keep above `rope_fast_turns`, blend by the number of turns in between."""
    turns = settings.rope_original_tokens * plain / (2 * math.pi)
    slow, fast = settings.rope_slow_turns, settings.rope_fast_turns
    return _blend(plain, np.clip((turns - slow) / (fast - slow), 0, 1), settings)


def _yarn(plain: Frequencies, settings: ModelSettings) -> Frequencies:
    """Blend as `_llama3` does, but by the index of the pair between the two, rounded outwards to whole indices."""
    width = settings.head_width

    def index(turns: float) -> float:
        reach = math.log(settings.rope_original_tokens / (turns * 2 * math.pi))
        return width * reach / (2 * math.log(settings.rope_theta))

    first = max(math.floor(index(settings.rope_fast_turns)), 0)
    last = min(math.ceil(index(settings.rope_slow_turns)), width - 1)
    # The published rule widens an empty span by a thousandth.
    span = (last - first) or 0.001
    return _blend(plain, 1 - np.clip((np.arange(width // 2) - first) / span, 0, 1), settings)


def _blend(plain: Frequencies, kept: Frequencies, settings: ModelSettings) -> Frequencies:
    return plain * kept + plain / settings.rope_factor * (1 - kept)


STRETCHES = {"none": _none, "linear": _linear, "llama3": _llama3, "yarn": _yarn}


class TokenLayout(typing.NamedTuple):
    """Where the tokens of packed rows stand.

    The tokens of a segment are neighbours, those of its shared prefix before its suffixes. Segment 0 is padding.

    Attributes:
      positions: `[s, t]` counted from 0 in a segment; each suffix goes on from the end of the prefix.
      segments: `[s, t]` numbers of the packed prefix groups (or single sequences) of a row, from 1; 0 is padding.
      suffixes: `[s, t]` 0 for the tokens of a prefix, which its whole segment sees, else the number of the suffix.
    """

    positions: Int[Array, "s t"]
    segments: Int[Array, "s t"]
    suffixes: Int[Array, "s t"]


def causal_mask(
    query_positions: Int[Array, "s t"],
    key_positions: Int[Array, "s u"],
    *,
    window: Window = NO_WINDOW,
) -> Bool[Array, "s t u"]:
    """Say which keys of its sequence a query may see: not later ones, and only the last `window` positions.

    Args:
      query_positions: `[s, t]`.
      key_positions: `[s, u]`; a negative one marks an empty column of a cache, which no query sees.
      window: positions that a query sees, its own included.

    Returns:
      `[s, t, u]` True where the query sees the key.
    """
    q, k = query_positions[:, :, None], key_positions[:, None, :]
    return (k >= 0) & (k <= q) & (q - k < window)


def packed_mask(query: TokenLayout, key: TokenLayout, *, window: Window = NO_WINDOW) -> Bool[Array, "s t u"]:
    """Say which keys a query of a packed row sees: in its own segment, the prefix and its own suffix.

    Args:
      query: layout of the queries, `[s, t]`.
      key: layout of the keys, `[s, u]`.
      window: positions that a query sees, its own included.

    Returns:
      `[s, t, u]` True where the query sees the key; padding sees padding.
    """
    is_same = query.segments[:, :, None] == key.segments[:, None, :]
    key_suffixes = key.suffixes[:, None, :]
    is_same &= (key_suffixes == 0) | (key_suffixes == query.suffixes[:, :, None])
    return is_same & causal_mask(query.positions, key.positions, window=window)


class Mask(typing.NamedTuple):
    """What queries may see where no window narrows it, and the positions by which a window would.

    Attributes:
      visible: `[s, t, u]` True where a query sees a key.
      query_positions: `[s, t]`.
      key_positions: `[s, u]`.
    """

    visible: Bool[Array, "s t u"]
    query_positions: Int[Array, "s t"]
    key_positions: Int[Array, "s u"]

    def within(self, window: Window | None) -> Bool[Array, "s t u"]:
        """Return visibility narrowed to the last `window` positions, the query's own included; None narrows nothing."""
        if window is None:
            return self.visible
        distance = self.query_positions[:, :, None] - self.key_positions[:, None, :]
        return self.visible & (distance < window)


class KVBlock(typing.NamedTuple):
    """Keys and values in b rows, each of which belongs to s / b neighbouring rows of queries.

    Attributes:
      past: keys and values, `[b, ...]`.
      visible: `[s, t, u]`, which of their columns each query sees.
    """

    past: KeyValue
    visible: Bool[Array, "s t u"]


class FilledColumns(typing.NamedTuple):
    """What rows that decode see of their own caches: neighbouring columns that are filled.

    Attributes:
      start: `[s]`, the first one.
      end: `[s]`, the one behind the last; greater than `start`.
    """

    start: Int[Array, " s"]
    end: Int[Array, " s"]

    def mask(self, columns: int) -> Bool[Array, "s 1 u"]:
        """Return visibility column by column."""
        column = jnp.arange(columns)
        return ((column >= self.start[:, None]) & (column < self.end[:, None]))[:, None]


class PrefixedColumns(typing.NamedTuple):
    """What rows that decode see: of their own caches, and of a prefix that neighbouring rows share.

    Attributes:
      own: columns of each row's own cache.
      prefix: the cache of the shared prefix and what is visible of it.
    """

    own: FilledColumns
    prefix: KVBlock


# What stands for visibility between the decoder and the attention of a block: a mask as an array, or what a mask would
# be made of: the layout of packed rows, or columns, with or without a shared prefix.
Visibility = Mask | TokenLayout | FilledColumns | PrefixedColumns


def attend(query: Float[Array, "s t n d"], *blocks: KVBlock) -> Float[Array, "s t n d"]:
    """Attend with n query heads that share m key heads, over keys and values that may lie apart.

    Softmax and sums are float32. What neighbouring rows share is read once for all of them. Keys and values come in
    the layout of caches (`kv_cache.KeyValue`): both products are then plain batched matrix products without a
    transposed copy.

    Args:
      query: `[s, t, n, d]`, not yet divided by sqrt(d).
      *blocks: what is attended to; the softmax runs over all of them together.

    Returns:
      `[s, t, n, d]` in the type of the values. A query that sees nothing gets finite values that mean nothing.
    """
    return finish_softmax(*(softmax_over(query, block) for block in blocks)).astype(blocks[0].past.value.dtype)


class PartialSoftmax(typing.NamedTuple):
    """What a softmax over some of the keys comes to, before it is divided by its sum; all float32.

    Attributes:
      greatest: `[s, t, n, 1]`, the greatest score.
      total: `[s, t, n, 1]`, the sum of weights, relative to that of the greatest score.
      summed: `[s, t, n, d]`, the sum of values by those weights.
    """

    greatest: Float[Array, "s t n 1"]
    total: Float[Array, "s t n 1"]
    summed: Float[Array, "s t n d"]


def finish_softmax(*parts: PartialSoftmax) -> Float[Array, "s t n d"]:
    """Put together what queries found in parts of their keys: `[s, t, n, d]`, float32."""
    greatest = functools.reduce(jnp.maximum, (part.greatest for part in parts))
    shares = [jnp.exp(part.greatest - greatest) for part in parts]
    total = sum(share * part.total for share, part in zip(shares, parts, strict=True))
    # Dividing the short sums instead of the weights saves two passes over [t, u].
    return jnp.asarray(sum(share * part.summed for share, part in zip(shares, parts, strict=True)) / total)


def softmax_over(query: Float[Array, "s t n d"], block: KVBlock) -> PartialSoftmax:
    """Attend to one block of keys: one of the parts that `finish_softmax` puts together.

    Args:
      query: `[s, t, n, d]`, not yet divided by sqrt(d).
      block: what is attended to.
    """
    s, t, n, d = query.shape
    b, m, u, _ = block.past.value.shape
    k, g = s // b, n // m
    # All queries that read one row of keys stand side by side: [b, m, (k, g, t), d] against [b, m, d, u].
    grouped = (query / math.sqrt(d)).reshape(b, k, t, m, g, d).transpose(0, 3, 1, 4, 2, 5).reshape(b, m, k * g * t, d)
    scores = jnp.einsum("bmqd,bmdu->bmqu", grouped, block.past.key, preferred_element_type=jnp.float32)
    hidden = jnp.where(block.visible, 0.0, HIDDEN).reshape(b, 1, k, 1, t, u)
    scores = scores.reshape(b, m, k, g, t, u) + hidden
    greatest = jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True))
    weights = jnp.exp(scores - greatest)
    total = weights.sum(axis=-1, keepdims=True)
    weights = weights.reshape(b, m, k * g * t, u).astype(block.past.value.dtype)
    summed = jnp.einsum("bmqu,bmud->bmqd", weights, block.past.value, preferred_element_type=jnp.float32)

    def by_row(x: Array) -> Array:
        return x.reshape(b, m, k, g, t, -1).transpose(0, 2, 4, 1, 3, 5).reshape(s, t, n, -1)

    return PartialSoftmax(by_row(greatest), by_row(total), by_row(summed))
