"""Kernels of attention over packed rows for NVIDIA GPUs, in Pallas with Triton.

Each program holds one tile of queries (or of keys, for their gradients), visits the tiles of the other that it has to
and keeps scores in registers. Exponents are powers of two, which the hardware computes. Every sum is float32 and has
one order: results do not vary between runs.
"""

import functools
import math
import typing

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from optimrl_jax.model import attention
from optimrl_jax.model.fused.spans import Spans, Visits, find_key_visits, find_query_visits, sees

LOG2_E = math.log2(math.e)


class Tiles(typing.NamedTuple):
    """Sizes of the kernels' tiles: powers of two that divide a row.

    Attributes:
      held: tokens whose sums a program keeps.
      visited: tokens of a tile that it visits.
    """

    held: int
    visited: int


def tiles_of(tokens: int, feature_bytes: int) -> Tiles:
    """Return the tiles that fit the shared memory of a processor.

    Args:
      tokens: of a row.
      feature_bytes: of one token and head.
    """
    held = max(16, min(128, 2**15 // feature_bytes, pl.next_power_of_2(tokens)))
    return Tiles(held, max(16, held // 2))


def padded_width(width: int) -> int:
    """Return the head width that the kernels take: the next power of two, as blocks of Triton are."""
    return max(16, pl.next_power_of_2(width))


def forward(
    query: Float[Array, "s n t d"],
    key: Float[Array, "s m t d"],
    value: Float[Array, "s m t d"],
    spans: Spans,
    *,
    scale: float,
    tiles: Tiles,
    interpret: bool,
) -> tuple[Float[Array, "s n t d"], Float[Array, "s n t"]]:
    """Attend with n query heads that share m key heads.

    Args:
      query: `[s, n, t, d]`; the head width is a power of two of at least 16, as for the next two.
      key: `[s, m, t, d]`.
      value: `[s, m, t, d]`.
      spans: what each token sees.
      scale: factor of scores.
      tiles: sizes of the kernel's tiles.
      interpret: whether the kernel is only imitated, on any platform.

    Returns:
      `[s, n, t, d]` in the type of the values, and the base-2 logarithm of each query's sum of weights `[s, n, t]`.
    """
    places = _Places(query.shape, key.shape[1], tiles.held)
    visits = find_key_visits(spans, held=tiles.held, visited=tiles.visited)
    return pl.pallas_call(
        functools.partial(_forward_kernel, scale=scale * LOG2_E, tiles=tiles),
        name="packed_attention_forward",
        grid=places.query_grid,
        in_specs=[places.query_tile, places.keys, places.keys, *places.span_tiles, places.visits],
        out_specs=[places.query_tile, places.query_numbers],
        out_shape=[
            jax.ShapeDtypeStruct(query.shape, value.dtype),
            jax.ShapeDtypeStruct(query.shape[:-1], jnp.float32),
        ],
        compiler_params=triton.CompilerParams(num_warps=8, num_stages=2),
        interpret=interpret,
    )(query, key, value, *spans[:3], _stack(visits))


def backward(
    query: Float[Array, "s n t d"],
    key: Float[Array, "s m t d"],
    value: Float[Array, "s m t d"],
    spans: Spans,
    log_total: Float[Array, "s n t"],
    grad: Float[Array, "s n t d"],
    along: Float[Array, "s n t"],
    *,
    scale: float,
    tiles: Tiles,
    interpret: bool,
) -> tuple[Float[Array, "s n t d"], Float[Array, "s m t d"], Float[Array, "s m t d"]]:
    """Return the gradients of queries, keys and values.

    Args:
      query: as for `forward`, and so the next three.
      key: `[s, m, t, d]`.
      value: `[s, m, t, d]`.
      spans: what each token sees.
      log_total: as `forward` returned it.
      grad: gradient of what `forward` returned.
      along: product of `grad` with what `forward` returned, summed over features.
      scale: factor of scores.
      tiles: sizes of the kernel's tiles.
      interpret: whether the kernel is only imitated.
    """
    shared = {"compiler_params": triton.CompilerParams(num_warps=8, num_stages=2), "interpret": interpret}
    places = _Places(query.shape, key.shape[1], tiles.held)
    per_query = grad, log_total, along
    query_grad = pl.pallas_call(
        functools.partial(_query_grad_kernel, scale=scale, tiles=tiles),
        name="packed_attention_query_gradient",
        grid=places.query_grid,
        in_specs=[
            *(places.query_tile, places.keys, places.keys, *places.span_tiles, places.visits),
            *(places.query_tile, places.query_numbers, places.query_numbers),
        ],
        out_specs=places.query_tile,
        out_shape=jax.ShapeDtypeStruct(query.shape, query.dtype),
        **shared,
    )(query, key, value, *spans[:3], _stack(find_key_visits(spans, **tiles._asdict())), *per_query)
    key_grad, value_grad = pl.pallas_call(
        functools.partial(_key_grad_kernel, scale=scale, tiles=tiles),
        name="packed_attention_key_gradient",
        grid=places.key_grid,
        in_specs=[
            *(places.group, places.key_tile, places.key_tile, *places.span_rows, places.visits),
            *(places.group, places.group_numbers, places.group_numbers),
        ],
        out_specs=[places.key_tile, places.key_tile],
        out_shape=[jax.ShapeDtypeStruct(key.shape, key.dtype), jax.ShapeDtypeStruct(value.shape, value.dtype)],
        **shared,
    )(query, key, value, *spans[:3], _stack(find_query_visits(spans, **tiles._asdict())), *per_query)
    return query_grad, key_grad, value_grad


class _Places:
    """Which part of each array a program of a grid (tile, head, row) sees.

    Tiles that are late in a row see the most: they start first.
    """

    def __init__(self, query_shape: tuple[int, ...], kv_heads: int, held: int) -> None:
        s, n, t, d = query_shape
        g, tiles = n // kv_heads, t // held
        self.query_grid, self.key_grid = (tiles, n, s), (tiles, kv_heads, s)
        self.query_tile = pl.BlockSpec((None, None, held, d), lambda i, h, r: (r, h, tiles - 1 - i, 0))
        self.query_numbers = pl.BlockSpec((None, None, held), lambda i, h, r: (r, h, tiles - 1 - i))
        self.keys = pl.BlockSpec((None, None, t, d), lambda i, h, r: (r, h // g, 0, 0))
        self.span_tiles = [pl.BlockSpec((None, held), lambda i, h, r: (r, tiles - 1 - i))] * 3
        # The first keys of a row are seen by the most queries: their tiles come in order.
        self.key_tile = pl.BlockSpec((None, None, held, d), lambda j, h, r: (r, h, j, 0))
        self.group = pl.BlockSpec((None, g, t, d), lambda j, h, r: (r, h, 0, 0))
        self.group_numbers = pl.BlockSpec((None, g, t), lambda j, h, r: (r, h, 0))
        self.span_rows = [pl.BlockSpec((None, t), lambda j, h, r: (r, 0))] * 3
        self.visits = pl.BlockSpec((None, tiles, 4), lambda i, h, r: (r, 0, 0))


def _stack(visits: Visits) -> Array:
    return jnp.stack(visits, axis=-1).astype(jnp.int32)


def _visited_tile(visits_ref: Array, tile: Array, number: Array) -> Array:
    """Return the tile that is visited as the `number`-th."""
    earlier_first, earlier, first = visits_ref[tile, 0], visits_ref[tile, 1], visits_ref[tile, 2]
    return number + jnp.where(number < earlier, earlier_first, first - earlier)


def _tokens(tile: Array, size: int) -> Array:
    return tile * size + jnp.arange(size, dtype=jnp.int32)


def _seen(spans: tuple[Array, Array, Array], query: Array, key: Array) -> Array:
    columns = Spans(*(part[:, None] for part in spans), last=key[None, :])
    return sees(columns, query[:, None], key[None, :])


def _forward_kernel(query_ref, key_ref, value_ref, *refs, scale: float, tiles: Tiles) -> None:
    *span_refs, visits_ref, out_ref, total_ref = refs
    tile = pl.num_programs(0) - 1 - pl.program_id(0)
    query, spans = query_ref[...], tuple(ref[...] for ref in span_refs)
    queries = _tokens(tile, tiles.held)

    def visit(number: Array, running: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        greatest, total, summed = running
        other = _visited_tile(visits_ref, tile, number)
        at = pl.ds(other * tiles.visited, tiles.visited)
        scores = pl.dot(query, key_ref[at, :], trans_b=True) * scale
        scores = jnp.where(_seen(spans, queries, _tokens(other, tiles.visited)), scores, attention.HIDDEN)
        new = jnp.maximum(greatest, scores.max(axis=1))
        weights, shrink = jnp.exp2(scores - new[:, None]), jnp.exp2(greatest - new)
        value = value_ref[at, :]
        summed = summed * shrink[:, None] + pl.dot(weights.astype(value.dtype), value)
        return new, total * shrink + weights.sum(axis=1), summed

    start = jnp.full((tiles.held,), attention.HIDDEN, jnp.float32)
    zeros = start, jnp.zeros_like(start), jnp.zeros(query.shape, jnp.float32)
    greatest, total, summed = jax.lax.fori_loop(0, visits_ref[tile, 1] + visits_ref[tile, 3], visit, zeros)
    out_ref[...] = (summed / total[:, None]).astype(out_ref.dtype)
    total_ref[...] = greatest + jnp.log2(total)


def _query_grad_kernel(query_ref, key_ref, value_ref, *refs, scale: float, tiles: Tiles) -> None:
    *span_refs, visits_ref, grad_ref, total_ref, along_ref, query_grad_ref = refs
    tile = pl.num_programs(0) - 1 - pl.program_id(0)
    query, grad, spans = query_ref[...], grad_ref[...], tuple(ref[...] for ref in span_refs)
    total, along, queries = total_ref[...], along_ref[...], _tokens(tile, tiles.held)

    def visit(number: Array, query_grad: Array) -> Array:
        other = _visited_tile(visits_ref, tile, number)
        at = pl.ds(other * tiles.visited, tiles.visited)
        key = key_ref[at, :]
        scores = pl.dot(query, key, trans_b=True) * (scale * LOG2_E)
        seen = _seen(spans, queries, _tokens(other, tiles.visited))
        weights = jnp.where(seen, jnp.exp2(scores - total[:, None]), 0.0)
        pulled = pl.dot(grad, value_ref[at, :], trans_b=True)
        scores_grad = weights * (pulled - along[:, None])
        return query_grad + pl.dot(scores_grad.astype(key.dtype), key)

    zeros = jnp.zeros(query.shape, jnp.float32)
    query_grad = jax.lax.fori_loop(0, visits_ref[tile, 1] + visits_ref[tile, 3], visit, zeros)
    query_grad_ref[...] = (query_grad * scale).astype(query_grad_ref.dtype)


def _key_grad_kernel(query_ref, key_ref, value_ref, *refs, scale: float, tiles: Tiles) -> None:
    """Scores are transposed here, keys first: their gradients are then plain products."""
    *span_refs, visits_ref, grad_ref, total_ref, along_ref, key_grad_ref, value_grad_ref = refs
    tile = pl.program_id(0)
    key, value, keys = key_ref[...], value_ref[...], _tokens(tile, tiles.held)
    first, count = visits_ref[tile, 2], visits_ref[tile, 3]

    def visit(number: Array, grads: tuple[Array, Array]) -> tuple[Array, Array]:
        key_grad, value_grad = grads
        head, other = number // count, first + number % count
        at = pl.ds(other * tiles.visited, tiles.visited)
        query, grad = query_ref[head, at, :], grad_ref[head, at, :]
        scores = pl.dot(key, query, trans_b=True) * (scale * LOG2_E)
        spans = Spans(*(ref[at][None, :] for ref in span_refs), last=keys[:, None])
        seen = sees(spans, _tokens(other, tiles.visited)[None, :], keys[:, None])
        weights = jnp.where(seen, jnp.exp2(scores - total_ref[head, at][None, :]), 0.0)
        value_grad += pl.dot(weights.astype(grad.dtype), grad)
        pulled = pl.dot(value, grad, trans_b=True)
        scores_grad = weights * (pulled - along_ref[head, at][None, :])
        return key_grad + pl.dot(scores_grad.astype(query.dtype), query), value_grad

    zeros = jnp.zeros(key.shape, jnp.float32), jnp.zeros(value.shape, jnp.float32)
    key_grad, value_grad = jax.lax.fori_loop(0, count * query_ref.shape[0], visit, zeros)
    key_grad_ref[...] = (key_grad * scale).astype(key_grad_ref.dtype)
    value_grad_ref[...] = value_grad.astype(value_grad_ref.dtype)
