"""Attention over long packed rows: softmax block by block, in memory linear in the row, forwards and backwards.

Pure; takes the place of `attention.attend` between the projections of a decoder block where rows are long. Scores exist
for one block of queries and one of keys at a time, and the backward pass computes them again. A block of queries begins
with a sequence or suffix or goes on with it, so that all its queries see keys of one sequence: it visits these by their
positions, those of the prefix and its own in one count, and no others. A prefix and the suffix behind it are one
sequence. Packing many short sequences into a long row costs little more than the sequences alone.
"""

import functools
import math
import typing
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

from optimrl_jax.model import attention
from optimrl_jax.model.attention import TokenLayout
from optimrl_jax.model.inner_products import inner_product

# The name under which a policy of rematerialization may keep what the forward pass found.
ATTENDED = "attended"
_T = typing.TypeVar("_T", bound=tuple)


def attend_blockwise(
    query: Float[Array, "s t n d"],
    key: Float[Array, "s m d t"],
    value: Float[Array, "s m t d"],
    layout: TokenLayout,
    *,
    block: int,
    window: attention.Window = attention.NO_WINDOW,
) -> Float[Array, "s t n d"]:
    """Compute what `attention.attend` gives under `attention.packed_mask`, for every token outside padding.

    Scores and sums are float32, products take the type of their arrays.

    Args:
      query: `[s, t, n, d]`, not yet divided by sqrt(d).
      key: `[s, m, d, t]`, m key heads for n query heads.
      value: `[s, m, t, d]`.
      layout: where the tokens of the rows stand.
      block: queries, and keys, of a block; need not divide the row. Fastest where sequences are not much shorter.
      window: positions that a query sees, its own included.

    Returns:
      `[s, t, n, d]` in the type of the values. Padding gets finite values that mean nothing.
    """
    s, t, n, d = query.shape
    grouped = (query / math.sqrt(d)).reshape(s, t, value.shape[1], -1, d)
    # Tokens before heads, as projections leave them: what turns the whole of the keys over here undoes what did so.
    inputs = grouped, key.transpose(0, 3, 1, 2), value.swapaxes(1, 2)
    # A block may begin with the last token of a row.
    padded = (jnp.pad(x, [(0, block if axis == 1 else 0) for axis in range(x.ndim)]) for x in inputs)
    summed = _attend(*padded, jax.tree.map(jnp.asarray, layout), jnp.asarray(window, jnp.int32), block)
    return summed[:, :t].reshape(s, t, n, d)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _attend(
    query: Float[Array, "s u m g d"],
    key: Float[Array, "s u m d"],
    value: Float[Array, "s u m d"],
    layout: TokenLayout,
    window: Int[Array, ""],
    block: int,
) -> Float[Array, "s u m g d"]:
    return _forward(query, key, value, layout, window, block)[0]


class Blocks(typing.NamedTuple):
    """Blocks of queries in the order of their tokens, and where the keys of their sequences stand.

    Attributes:
      row: the row of each.
      start: the index of its first query.
      queries: how many it has; what follows them in the row belongs to the next blocks, or is padding.
      position: that of its first query in its sequence.
      prefix_start: the index of the first token of the prefix.
      prefix: tokens of the prefix that stand elsewhere; later positions stand where the block itself does.
    """

    row: Int[Array, " *blocks"]
    start: Int[Array, " *blocks"]
    queries: Int[Array, " *blocks"]
    position: Int[Array, " *blocks"]
    prefix_start: Int[Array, " *blocks"]
    prefix: Int[Array, " *blocks"]

    def visited(self, window: Array, block: int) -> tuple[Int[Array, " *blocks"], Int[Array, " *blocks"]]:
        """Return the first block of positions with a key that a query sees, and the one behind the last."""
        first = jnp.maximum(self.position - window + 1, 0) // block
        return first, (self.position + self.queries - 1) // block + 1


def find_blocks(layout: TokenLayout, block: int) -> tuple[Blocks, Int[Array, ""]]:
    """Cut sequences and suffixes, but no padding, into blocks of queries.

    Returns:
      The blocks, as many as there are tokens, and how many of them, from the first, there really are.
    """
    index = jnp.arange(layout.positions.shape[1])
    segment_start, _ = _runs(layout.segments)
    # The first suffix goes on where the prefix ends. A short prefix would else cost as much as a whole block.
    start, end = _runs(layout.segments, jnp.maximum(layout.suffixes, 1))
    begins = ((index - start) % block == 0) & (layout.segments > 0)
    at = row, first = jnp.nonzero(begins, size=begins.size, fill_value=0)
    position = layout.positions[at]
    prefix = position - (first - start[at])
    return Blocks(row, first, jnp.minimum(end[at] - first, block), position, segment_start[at], prefix), begins.sum()


def _runs(*ids: Int[Array, "s t"]) -> tuple[Int[Array, "s t"], Int[Array, "s t"]]:
    """Return where the run of equal `ids` that each token stands in begins and ends, the latter exclusive."""
    tokens = ids[0].shape[1]
    differs = functools.reduce(jnp.logical_or, (x[:, 1:] != x[:, :-1] for x in ids))
    here = jnp.arange(1, tokens)
    start = jax.lax.cummax(jnp.where(differs, here, 0), axis=1)
    end = jax.lax.cummin(jnp.where(differs, here, tokens), axis=1, reverse=True)
    return jnp.pad(start, ((0, 0), (1, 0))), jnp.pad(end, ((0, 0), (0, 1)), constant_values=tokens)


class _Running(typing.NamedTuple):
    """Softmax so far: the greatest score, the sum of weights relative to it, and the weighted sum of values."""

    greatest: Float[Array, "m q g"]
    total: Float[Array, "m q g"]
    summed: Float[Array, "m q g d"]


def _forward(
    query: Array, key: Array, value: Array, layout: TokenLayout, window: Array, block: int
) -> tuple[Array, tuple]:
    def attend(found: tuple[Array, Array], one: Blocks) -> tuple[Array, Array]:
        queries = _at(query, one.row, one.start, block)

        def visit(other: Int[Array, ""], running: _Running) -> _Running:
            scores = _scores(queries, _keys_at(key, one, other, block), one, other, window)
            greatest = jnp.maximum(running.greatest, scores.max(axis=-1))
            weights = jnp.exp(scores - greatest[..., None])
            shrink = jnp.exp(running.greatest - greatest)
            summed = _product("mqgk,mkd->mqgd", weights.astype(value.dtype), _keys_at(value, one, other, block))
            return _Running(
                greatest, running.total * shrink + weights.sum(axis=-1), running.summed * shrink[..., None] + summed
            )

        shape = queries.swapaxes(0, 1).shape
        zeros = jnp.zeros(shape, jnp.float32)
        begin = _Running(jnp.full(shape[:-1], attention.HIDDEN, jnp.float32), zeros[..., 0], zeros)
        done = jax.lax.fori_loop(*one.visited(window, block), visit, begin)
        summed = (done.summed / done.total[..., None]).astype(value.dtype)
        log_total = done.greatest + jnp.log(done.total)
        put = functools.partial(_put, row=one.row, start=one.start)
        return put(found[0], summed.swapaxes(0, 1)), put(found[1], log_total.swapaxes(0, 1))

    zeros = jnp.zeros(query.shape, value.dtype), jnp.zeros(query.shape[:-1], jnp.float32)
    summed, log_total = (checkpoint_name(x, ATTENDED) for x in _for_each_block(layout, block, attend, zeros))
    return summed, (query, key, value, layout, window, summed, log_total)


class _Grads(typing.NamedTuple):
    query: Float[Array, "..."]
    key: Float[Array, "s u m d"]
    value: Float[Array, "s u m d"]


def _backward(block: int, kept: tuple, grad: Float[Array, "s u m g d"]) -> tuple:
    """Visit the keys of each block of queries again; the gradients of keys and values are summed in float32."""
    query, key, value, layout, window, summed, log_total = kept
    along = inner_product(grad.astype(jnp.float32), summed.astype(jnp.float32))

    def attend(grads: _Grads, one: Blocks) -> _Grads:
        queries, block_grad = (_at(x, one.row, one.start, block) for x in (query, grad))
        block_total, block_along = (
            _at(x, one.row, one.start, block).swapaxes(0, 1)[..., None] for x in (log_total, along)
        )
        is_own = jnp.arange(block)[:, None, None] < one.queries

        def visit(other: Int[Array, ""], grads: _Grads) -> _Grads:
            keys = _keys_at(key, one, other, block)
            weights = jnp.exp(_scores(queries, keys, one, other, window) - block_total)
            weights = jnp.where(is_own, weights, 0)
            value_grad = _product("mqgk,qmgd->kmd", weights.astype(value.dtype), block_grad)
            pulled = _product("qmgd,mkd->mqgk", block_grad, _keys_at(value, one, other, block))
            scores_grad = (weights * (pulled - block_along)).astype(query.dtype)
            key_grad = _product("mqgk,qmgd->kmd", scores_grad, queries)
            return _Grads(
                grads.query + _product("mqgk,mkd->mqgd", scores_grad, keys),
                _add_keys(grads.key, key_grad, one, other),
                _add_keys(grads.value, value_grad, one, other),
            )

        begin = grads._replace(query=jnp.zeros(queries.swapaxes(0, 1).shape, jnp.float32))
        done = jax.lax.fori_loop(*one.visited(window, block), visit, begin)
        query_grad = done.query.swapaxes(0, 1).astype(query.dtype)
        return done._replace(query=_put(grads.query, query_grad, one.row, one.start))

    zeros = _Grads(jnp.zeros_like(query), jnp.zeros(key.shape, jnp.float32), jnp.zeros(value.shape, jnp.float32))
    grads = _for_each_block(layout, block, attend, zeros)
    no_grad = jax.tree.map(lambda x: np.zeros(x.shape, jax.dtypes.float0), (layout, window))
    return grads.query, grads.key.astype(key.dtype), grads.value.astype(value.dtype), *no_grad


_attend.defvjp(_forward, _backward)


def _for_each_block(layout: TokenLayout, block: int, attend: Callable[[_T, Blocks], _T], begin: _T) -> _T:
    """Let each block of queries change a carry, in the order of their tokens: later ones overwrite what follows one."""
    blocks, count = find_blocks(layout, block)
    return jax.lax.fori_loop(0, count, lambda n, carry: attend(carry, jax.tree.map(lambda x: x[n], blocks)), begin)


def _scores(
    queries: Float[Array, "q m g d"], keys: Float[Array, "m k d"], one: Blocks, other: Int[Array, ""], window: Array
) -> Float[Array, "m q g k"]:
    """Score one block of queries and one of keys in float32, hidden ones at -1e30."""
    block = jnp.arange(keys.shape[1])[None]
    visible = attention.causal_mask(one.position + block, other * block.size + block, window=window)[0]
    return _product("qmgd,mkd->mqgk", queries, keys) + jnp.where(visible, 0.0, attention.HIDDEN)[:, None]


def _product(subscripts: str, left: Array, right: Array) -> Array:
    return jnp.einsum(subscripts, left, right, preferred_element_type=jnp.float32)


def _keys_at(x: Float[Array, "s u m d"], one: Blocks, other: Int[Array, ""], block: int) -> Float[Array, "m k d"]:
    """Cut out the keys, or values, of a block of positions of a sequence: some of its prefix, some behind it."""
    (prefix_start, is_prefix), (start, _) = _key_places(one, other, block)
    prefix, own = (_at(x, one.row, at, block).swapaxes(0, 1) for at in (prefix_start, start))
    # Turned over once: left alone, compilers for CPU turn them over, the other way round, for each product.
    return jax.lax.optimization_barrier(jnp.where(is_prefix.swapaxes(0, 1), prefix, own))


def _add_keys(
    whole: Float[Array, "s u m d"], part: Float[Array, "k m d"], one: Blocks, other: Int[Array, ""]
) -> Float[Array, "s u m d"]:
    """Add to what `_keys_at` cuts out."""
    for start, is_there in _key_places(one, other, len(part)):
        changed = _at(whole, one.row, start, len(part)) + jnp.where(is_there, part, 0)
        whole = _put(whole, changed, one.row, start)
    return whole


def _key_places(one: Blocks, other: Int[Array, ""], block: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Say where in the row a block of positions would begin as a part of the prefix, and which of them are one.

    Then the same for what is behind the prefix.
    """
    position = other * block
    is_prefix = (position + jnp.arange(block) < one.prefix)[:, None, None]
    return (one.prefix_start + position, is_prefix), (one.start - one.position + position, ~is_prefix)


def _at(x: Array, row: Array, start: Array, length: int) -> Array:
    """Cut a span of one row out of an array of rows."""
    corner = row, start, *[0] * (x.ndim - 2)
    return jax.lax.dynamic_slice(x, corner, (1, length, *x.shape[2:]))[0]


def _put(whole: Array, part: Array, row: Array, start: Array) -> Array:
    return jax.lax.dynamic_update_slice(whole, part[None], (row, start, *[0] * (whole.ndim - 2)))
