"""What the tokens of packed rows see, as intervals of the row, and the tiles of keys and queries that hold it.

Pure; made from a `TokenLayout` before a kernel runs. A token sees its own sequence up to itself and a part of the
prefix that its segment shares: two intervals, which say with three numbers a query what `attention.packed_mask` says
with six a pair. Windows narrow the intervals, so that kernels know of none.
"""

import functools
import typing

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from optimrl_jax.model.attention import TokenLayout, Window


class Spans(typing.NamedTuple):
    """The keys of its row that each token sees: those in [first, its own index] and in [prefix_first, prefix_end).

    Padding sees itself alone.

    Attributes:
      first: `[s, t]`.
      prefix_first: `[s, t]`; equal to `prefix_end` where nothing is seen of a prefix.
      prefix_end: `[s, t]`.
      last: `[s, t]`, the token after which none sees this one.
    """

    first: Int[Array, "s t"]
    prefix_first: Int[Array, "s t"]
    prefix_end: Int[Array, "s t"]
    last: Int[Array, "s t"]


def find_spans(layout: TokenLayout, window: Window) -> Spans:
    """Find what each token of packed rows sees.

    Args:
      layout: where the tokens of the rows stand.
      window: positions that a query sees, its own included.
    """
    index = jnp.arange(layout.positions.shape[1])
    is_real, is_suffix = layout.segments > 0, layout.suffixes > 0
    segment, segment_end = find_runs(layout.segments)
    own, own_end = find_runs(layout.segments, layout.suffixes)
    prefix_tokens = layout.positions - (index - own)
    hidden_tokens = jnp.clip(layout.positions - window + 1, 0, prefix_tokens)
    sees_prefix = is_real & is_suffix & (hidden_tokens < prefix_tokens)
    # A token of a prefix is seen by all suffixes or by none: their first tokens stand at the same position.
    is_seen_by_suffixes = ~is_suffix & (own_end - own - layout.positions < window)
    last = jnp.where(is_seen_by_suffixes, segment_end, own_end) - 1
    return Spans(
        first=jnp.where(is_real, jnp.maximum(own, index - window + 1), index),
        prefix_first=jnp.where(sees_prefix, segment + hidden_tokens, 0),
        prefix_end=jnp.where(sees_prefix, segment + prefix_tokens, 0),
        last=jnp.where(is_real, jnp.where(is_seen_by_suffixes, last, jnp.minimum(last, index + window - 1)), index),
    )


def find_runs(*ids: Int[Array, "s t"]) -> tuple[Int[Array, "s t"], Int[Array, "s t"]]:
    """Return where the run of equal `ids` that each token stands in begins, and the index after its last token."""
    tokens = ids[0].shape[1]
    differs = functools.reduce(jnp.logical_or, (x[:, 1:] != x[:, :-1] for x in ids))
    here = jnp.arange(1, tokens)
    begins = jnp.pad(jax.lax.cummax(jnp.where(differs, here, 0), axis=1), ((0, 0), (1, 0)))
    ends = jax.lax.cummin(jnp.where(differs, here, tokens), axis=1, reverse=True)
    return begins, jnp.pad(ends, ((0, 0), (0, 1)), constant_values=tokens)


def sees(spans: Spans, query: Int[Array, "*#pair"], key: Int[Array, "*#pair"]) -> Bool[Array, "*pair"]:
    """Say which keys queries see.

    Args:
      spans: of the queries.
      query: indices of the queries in their row.
      key: indices of the keys.
    """
    is_in_prefix = (key >= spans.prefix_first) & (key < spans.prefix_end)
    return (key <= query) & ((key >= spans.first) | is_in_prefix)


class Visits(typing.NamedTuple):
    """The tiles that each held tile visits: `earlier` neighbours from `earlier_first` on, then `count` from `first` on.

    Attributes:
      earlier_first: `[s, tiles]`.
      earlier: `[s, tiles]`, a number of tiles.
      first: `[s, tiles]`.
      count: `[s, tiles]`, a number of tiles, at least one.
    """

    earlier_first: Int[Array, "s tiles"]
    earlier: Int[Array, "s tiles"]
    first: Int[Array, "s tiles"]
    count: Int[Array, "s tiles"]


def find_key_visits(spans: Spans, *, held: int, visited: int) -> Visits:
    """Find the tiles of keys that each tile of queries has to visit.

    Args:
      spans: of rows whose tokens both tiles divide.
      held: queries of a tile.
      visited: keys of a tile.
    """
    index = jnp.arange(spans.first.shape[1])
    first = _least(spans.first, held) // visited
    end = (jnp.arange(first.shape[1]) + 1) * held
    has_prefix = spans.prefix_end > spans.prefix_first
    earlier_first = jnp.minimum(_least(jnp.where(has_prefix, spans.prefix_first, index), held) // visited, first)
    earlier_end = jnp.clip(-(_least(-spans.prefix_end, held) // visited), earlier_first, first)
    return Visits(earlier_first, earlier_end - earlier_first, first, -(-end // visited) - first)


def find_query_visits(spans: Spans, *, held: int, visited: int) -> Visits:
    """Find the tiles of queries that each tile of keys has to visit; nothing stands apart from them."""
    last = -_least(-spans.last, held) // visited
    first = jnp.broadcast_to(jnp.arange(last.shape[1]) * held // visited, last.shape)
    nothing = jnp.zeros_like(first)
    return Visits(nothing, nothing, first, last + 1 - first)


def _least(tokens: Int[Array, "s t"], tile: int) -> Int[Array, "s tiles"]:
    return tokens.reshape(len(tokens), -1, tile).min(axis=2)
