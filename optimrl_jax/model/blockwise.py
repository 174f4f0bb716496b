"""Attention over long packed rows: softmax block by block, in memory linear in the row, forwards and backwards.

Pure; takes the place of `attention.attend` between the projections of a decoder block where rows are long. Scores exist
for one block of queries and one of keys at a time, and the backward pass computes them again. A block of queries visits
the blocks of keys that hold its own suffixes or their prefixes (within the window), and no others: packing many short
sequences into a long row costs little more than the sequences alone.
"""

import functools
import math
import typing

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
      block: queries, and keys, of a block; need not divide the row.
      window: positions that a query sees, its own included.

    Returns:
      `[s, t, n, d]` in the type of the values. Padding gets finite values that mean nothing.
    """
    s, t, n, d = query.shape
    m = value.shape[1]
    padding = -t % block
    heads_first = (query / math.sqrt(d)).reshape(s, t, m, n // m, d).transpose(0, 2, 3, 1, 4)

    def padded(x: Array, axis: int) -> Array:
        return jnp.pad(x, [(0, padding if at == axis else 0) for at in range(x.ndim)])

    padded_layout = TokenLayout(*(padded(x, 1) for x in layout))
    inputs = padded(heads_first, 3), padded(key, 3), padded(value, 2)
    summed = _attend(*inputs, padded_layout, jnp.asarray(window, jnp.int32), block)[..., :t, :]
    return summed.transpose(0, 3, 1, 2, 4).reshape(s, t, n, d)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _attend(
    query: Float[Array, "s m g t d"],
    key: Float[Array, "s m d t"],
    value: Float[Array, "s m t d"],
    layout: TokenLayout,
    window: Int[Array, ""],
    block: int,
) -> Float[Array, "s m g t d"]:
    return _forward(query, key, value, layout, window, block)[0]


class _Visits(typing.NamedTuple):
    """The blocks of keys that a block of queries visits: some with prefixes, then all from `first` to its own."""

    prefix_first: Int[Array, " *blocks"]
    prefixes: Int[Array, " *blocks"]
    first: Int[Array, " *blocks"]

    def number_of(self, index: Int[Array, ""]) -> Int[Array, ""]:
        return self.prefixes + index + 1 - self.first

    def block(self, number: Int[Array, ""]) -> Int[Array, ""]:
        """Return the block that is visited as the `number`-th."""
        return number + jnp.where(number < self.prefixes, self.prefix_first, self.first - self.prefixes)


class _Running(typing.NamedTuple):
    """Softmax so far: the greatest score, the sum of weights relative to it, and the weighted sum of values."""

    greatest: Float[Array, "s m g q"]
    total: Float[Array, "s m g q"]
    summed: Float[Array, "s m g q d"]


def _forward(
    query: Array, key: Array, value: Array, layout: TokenLayout, window: Array, block: int
) -> tuple[Array, tuple]:
    def of_block(_: None, part: tuple[Array, _Visits]) -> tuple[None, tuple[Array, Array]]:
        index, visits = part
        queries = _at(query, index, block, axis=3)

        def visit(number: Int[Array, ""], running: _Running) -> _Running:
            other = visits.block(number)
            scores = _scores(queries, key, layout, window, index, other, block)
            greatest = jnp.maximum(running.greatest, scores.max(axis=-1))
            weights = jnp.exp(scores - greatest[..., None])
            shrink = jnp.exp(running.greatest - greatest)
            summed = _product("smgqk,smkd->smgqd", weights.astype(value.dtype), _at(value, other, block, axis=2))
            return _Running(
                greatest, running.total * shrink + weights.sum(axis=-1), running.summed * shrink[..., None] + summed
            )

        start = jnp.full(queries.shape[:-1], attention.HIDDEN, jnp.float32)
        zeros = _Running(start, jnp.zeros_like(start), jnp.zeros(queries.shape, jnp.float32))
        done = jax.lax.fori_loop(0, visits.number_of(index), visit, zeros)
        summed = (done.summed / done.total[..., None]).astype(value.dtype)
        return None, (summed, done.greatest + jnp.log(done.total))

    _, (summed, log_total) = jax.lax.scan(of_block, None, _numbered(find_visits(layout, window, block)))
    summed, log_total = (checkpoint_name(_concatenate_blocks(x), ATTENDED) for x in (summed, log_total))
    return summed, (query, key, value, layout, window, summed, log_total)


class _Grads(typing.NamedTuple):
    query: Float[Array, "s m g q d"]
    key: Float[Array, "s m d t"]
    value: Float[Array, "s m t d"]


def _backward(block: int, kept: tuple, grad: Float[Array, "s m g t d"]) -> tuple:
    """Visit the keys of each block of queries again; the gradients of keys and values are summed in float32."""
    query, key, value, layout, window, summed, log_total = kept
    along = inner_product(grad.astype(jnp.float32), summed.astype(jnp.float32))

    def of_block(carry: tuple[Array, Array], part: tuple[Array, _Visits]) -> tuple[tuple, Array]:
        index, visits = part
        cut = functools.partial(_at, index=index, block=block, axis=3)
        queries, block_grad, block_total, block_along = map(cut, (query, grad, log_total, along))

        def visit(number: Int[Array, ""], grads: _Grads) -> _Grads:
            other = visits.block(number)
            weights = jnp.exp(_scores(queries, key, layout, window, index, other, block) - block_total[..., None])
            value_grad = _product("smgqk,smgqd->smkd", weights.astype(value.dtype), block_grad)
            pulled = _product("smgqd,smkd->smgqk", block_grad, _at(value, other, block, axis=2))
            scores_grad = (weights * (pulled - block_along[..., None])).astype(query.dtype)
            query_grad = _product("smgqk,smdk->smgqd", scores_grad, _at(key, other, block, axis=3))
            key_grad = _product("smgqk,smgqd->smdk", scores_grad, queries)
            return _Grads(
                grads.query + query_grad,
                _add_at(grads.key, key_grad, other, block, axis=3),
                _add_at(grads.value, value_grad, other, block, axis=2),
            )

        zeros = _Grads(jnp.zeros(queries.shape, jnp.float32), *carry)
        done = jax.lax.fori_loop(0, visits.number_of(index), visit, zeros)
        return (done.key, done.value), done.query.astype(query.dtype)

    zeros = jnp.zeros(key.shape, jnp.float32), jnp.zeros(value.shape, jnp.float32)
    (key_grad, value_grad), query_grad = jax.lax.scan(of_block, zeros, _numbered(find_visits(layout, window, block)))
    no_grad = jax.tree.map(lambda x: np.zeros(x.shape, jax.dtypes.float0), (layout, window))
    return _concatenate_blocks(query_grad), key_grad.astype(key.dtype), value_grad.astype(value.dtype), *no_grad


_attend.defvjp(_forward, _backward)


def find_visits(layout: TokenLayout, window: Array, block: int) -> _Visits:
    """Find what each block of queries visits, [blocks] each.

    One answer for all rows keeps devices that hold different rows in step.
    """
    index = jnp.arange(layout.positions.shape[1])
    segment = _start(layout.segments)
    first_seen = _start(layout.segments, layout.suffixes)
    prefix_tokens = layout.positions - (index - first_seen)
    hidden_tokens = jnp.maximum(layout.positions - window + 1, 0)
    sees_prefix = (layout.segments > 0) & (layout.suffixes > 0) & (hidden_tokens < prefix_tokens)
    first_seen = jnp.where(layout.segments > 0, jnp.maximum(first_seen, index - window + 1), index)

    def least(tokens: Int[Array, "s t"]) -> Int[Array, " blocks"]:
        return tokens.min(axis=0).reshape(-1, block).min(axis=1)

    first = least(first_seen) // block
    prefix_first = least(jnp.where(sees_prefix, segment + hidden_tokens, first_seen)) // block
    prefix_end = -(least(jnp.where(sees_prefix, -segment - prefix_tokens, 0)) // block)
    return _Visits(prefix_first, jnp.clip(prefix_end, prefix_first, first) - prefix_first, first)


def _start(*ids: Int[Array, "s t"]) -> Int[Array, "s t"]:
    """Return the index of the first token of the run of equal `ids` that each token stands in."""
    differs = functools.reduce(jnp.logical_or, (x[:, 1:] != x[:, :-1] for x in ids))
    here = jnp.arange(1, ids[0].shape[1])
    return jnp.pad(jax.lax.cummax(jnp.where(differs, here, 0), axis=1), ((0, 0), (1, 0)))


def _numbered(visits: _Visits) -> tuple[Int[Array, " blocks"], _Visits]:
    return jnp.arange(len(visits.first)), visits


def _scores(
    queries: Float[Array, "s m g q d"],
    key: Float[Array, "s m d t"],
    layout: TokenLayout,
    window: Array,
    index: Array,
    other: Array,
    block: int,
) -> Float[Array, "s m g q k"]:
    """Score one block of queries and one of keys in float32, hidden ones at -1e30."""
    query_layout, key_layout = (TokenLayout(*(_at(x, at, block, axis=1) for x in layout)) for at in (index, other))
    visible = attention.packed_mask(query_layout, key_layout, window=window)
    scores = _product("smgqd,smdk->smgqk", queries, _at(key, other, block, axis=3))
    return scores + jnp.where(visible, 0.0, attention.HIDDEN)[:, None, None]


def _product(subscripts: str, left: Array, right: Array) -> Array:
    return jnp.einsum(subscripts, left, right, preferred_element_type=jnp.float32)


def _at(x: Array, index: Array, block: int, *, axis: int) -> Array:
    return jax.lax.dynamic_slice_in_dim(x, index * block, block, axis=axis)


def _add_at(whole: Array, part: Array, index: Array, block: int, *, axis: int) -> Array:
    changed = _at(whole, index, block, axis=axis) + part
    return jax.lax.dynamic_update_slice_in_dim(whole, changed, index * block, axis=axis)


def _concatenate_blocks(blocks: Float[Array, "blocks s m g q *rest"]) -> Float[Array, "s m g t *rest"]:
    """Put blocks along the leading axis back into the token axis."""
    return jnp.moveaxis(blocks, 0, 3).reshape(*blocks.shape[1:4], -1, *blocks.shape[5:])
