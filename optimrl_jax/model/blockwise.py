"""Attention over long packed rows: softmax block by block, in memory linear in the row, forwards and backwards.

Pure; takes the place of `attention.attend` between the projections of a decoder block where rows are long. Scores exist
for one block of queries and one of keys at a time, and the backward pass computes them again. Blocks of keys that lie
before the segments (or the window) of a block of queries are never visited, so that packing many short sequences into a
long row costs little more than the sequences alone.
"""

import functools
import math
import typing

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from optimrl_jax.model import attention

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

# The name under which a policy of rematerialization may keep what the forward pass found.
ATTENDED = "attended"


class Layout(typing.NamedTuple):
    """Where the tokens of packed rows stand: int32[s, t] each.

    The tokens of a segment are neighbours and count their positions from 0 upwards; segment 0 is padding.
    """

    positions: "Int[Array, 's t']"
    segments: "Int[Array, 's t']"


def attend(
    query: "Float[Array, 's t n d']",
    key: "Float[Array, 's m t d']",
    value: "Float[Array, 's m t d']",
    layout: Layout,
    *,
    block: int,
    window: "int | Int[Array, '']" = attention.NO_WINDOW,
) -> "Float[Array, 's t n d']":
    """What `attention.attend` gives under `attention.visible`, for every token outside padding.

    `block` need not divide the row. Scores and sums are float32, products take the dtype of their arrays. Padding gets
    finite values that mean nothing.
    """
    s, t, n, d = query.shape
    m = key.shape[1]
    padding = -t % block
    heads_first = (query / math.sqrt(d)).reshape(s, t, m, n // m, d).transpose(0, 2, 3, 1, 4)

    def padded(x: "Array", axis: int) -> "Array":
        return jnp.pad(x, [(0, padding if at == axis else 0) for at in range(x.ndim)])

    padded_layout = Layout(*(padded(x, 1) for x in layout))
    inputs = padded(heads_first, 3), padded(key, 2), padded(value, 2)
    summed = _attend(*inputs, padded_layout, jnp.asarray(window, jnp.int32), block)[..., :t, :]
    return summed.transpose(0, 3, 1, 2, 4).reshape(s, t, n, d)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _attend(
    query: "Float[Array, 's m g t d']",
    key: "Float[Array, 's m t d']",
    value: "Float[Array, 's m t d']",
    layout: Layout,
    window: "Int[Array, '']",
    block: int,
) -> "Float[Array, 's m g t d']":
    return _forward(query, key, value, layout, window, block)[0]


class _Running(typing.NamedTuple):
    """Softmax so far: the greatest score, the sum of weights relative to it, and the weighted sum of values."""

    greatest: "Float[Array, 's m g q']"
    total: "Float[Array, 's m g q']"
    summed: "Float[Array, 's m g q d']"


def _forward(
    query: "Array", key: "Array", value: "Array", layout: Layout, window: "Array", block: int
) -> tuple["Array", tuple]:
    def of_block(_: None, part: tuple["Array", "Array"]) -> tuple[None, tuple["Array", "Array"]]:
        index, first = part
        own = _at(query, index, block, axis=3)

        def visit(other: "Int[Array, '']", running: _Running) -> _Running:
            scores = _scores(own, key, layout, window, index, other, block)
            greatest = jnp.maximum(running.greatest, scores.max(axis=-1))
            weights = jnp.exp(scores - greatest[..., None])
            shrink = jnp.exp(running.greatest - greatest)
            more = _product("smgqk,smkd->smgqd", weights.astype(value.dtype), _at(value, other, block, axis=2))
            return _Running(
                greatest, running.total * shrink + weights.sum(axis=-1), running.summed * shrink[..., None] + more
            )

        start = jnp.full(own.shape[:-1], attention.HIDDEN, jnp.float32)
        zeros = _Running(start, jnp.zeros_like(start), jnp.zeros(own.shape, jnp.float32))
        done = jax.lax.fori_loop(first, index + 1, visit, zeros)
        summed = (done.summed / done.total[..., None]).astype(value.dtype)
        return None, (summed, done.greatest + jnp.log(done.total))

    _, (summed, log_total) = jax.lax.scan(of_block, None, _blocks(layout, window, block))
    summed, log_total = (checkpoint_name(_joined(x), ATTENDED) for x in (summed, log_total))
    return summed, (query, key, value, layout, window, summed, log_total)


class _Grads(typing.NamedTuple):
    query: "Float[Array, 's m g q d']"
    key: "Float[Array, 's m t d']"
    value: "Float[Array, 's m t d']"


def _backward(block: int, kept: tuple, grad: "Float[Array, 's m g t d']") -> tuple:
    """Each block of queries visits its keys once more; keys and values gather their gradients in float32."""
    query, key, value, layout, window, summed, log_total = kept
    along = jnp.sum(grad.astype(jnp.float32) * summed.astype(jnp.float32), axis=-1)

    def of_block(carry: tuple["Array", "Array"], part: tuple["Array", "Array"]) -> tuple[tuple, "Array"]:
        index, first = part
        own, own_grad, own_total, own_along = (_at(x, index, block, axis=3) for x in (query, grad, log_total, along))

        def visit(other: "Int[Array, '']", found: _Grads) -> _Grads:
            weights = jnp.exp(_scores(own, key, layout, window, index, other, block) - own_total[..., None])
            value_grad = _product("smgqk,smgqd->smkd", weights.astype(value.dtype), own_grad)
            pulled = _product("smgqd,smkd->smgqk", own_grad, _at(value, other, block, axis=2))
            scores_grad = (weights * (pulled - own_along[..., None])).astype(query.dtype)
            query_grad = _product("smgqk,smkd->smgqd", scores_grad, _at(key, other, block, axis=2))
            key_grad = _product("smgqk,smgqd->smkd", scores_grad, own)
            return _Grads(
                found.query + query_grad,
                _added(found.key, key_grad, other, block),
                _added(found.value, value_grad, other, block),
            )

        done = jax.lax.fori_loop(first, index + 1, visit, _Grads(jnp.zeros(own.shape, jnp.float32), *carry))
        return (done.key, done.value), done.query.astype(query.dtype)

    zeros = jnp.zeros(key.shape, jnp.float32), jnp.zeros(value.shape, jnp.float32)
    (key_grad, value_grad), query_grad = jax.lax.scan(of_block, zeros, _blocks(layout, window, block))
    no_grad = jax.tree.map(lambda x: np.zeros(x.shape, jax.dtypes.float0), (layout, window))
    return _joined(query_grad), key_grad.astype(key.dtype), value_grad.astype(value.dtype), *no_grad


_attend.defvjp(_forward, _backward)


def _blocks(layout: Layout, window: "Array", block: int) -> tuple["Int[Array, 'blocks']", "Int[Array, 'blocks']"]:
    """The number of each block of queries, and of the first block of keys that any of its tokens sees.

    A segment's tokens are neighbours, so a token sees none but the `position` tokens before it. One bound for all rows
    keeps devices that hold different rows in step.
    """
    reach = jnp.where(layout.segments > 0, jnp.minimum(layout.positions, window - 1), 0)
    first = jnp.arange(reach.shape[1]) - reach
    numbers = jnp.arange(reach.shape[1] // block)
    return numbers, first.min(axis=0).reshape(-1, block).min(axis=1) // block


def _scores(
    own: "Float[Array, 's m g q d']",
    key: "Float[Array, 's m t d']",
    layout: Layout,
    window: "Array",
    index: "Array",
    other: "Array",
    block: int,
) -> "Float[Array, 's m g q k']":
    """Scores of one block of queries and one of keys in float32, hidden ones at -1e30."""
    here, there = (Layout(*(_at(x, at, block, axis=1) for x in layout)) for at in (index, other))
    seen = attention.visible(
        here.positions, there.positions, query_segments=here.segments, key_segments=there.segments, window=window
    )
    scores = _product("smgqd,smkd->smgqk", own, _at(key, other, block, axis=2))
    return scores + jnp.where(seen, 0.0, attention.HIDDEN)[:, None, None]


def _product(subscripts: str, left: "Array", right: "Array") -> "Array":
    return jnp.einsum(subscripts, left, right, preferred_element_type=jnp.float32)


def _at(x: "Array", index: "Array", block: int, *, axis: int) -> "Array":
    return jax.lax.dynamic_slice_in_dim(x, index * block, block, axis=axis)


def _added(whole: "Array", part: "Array", index: "Array", block: int) -> "Array":
    changed = _at(whole, index, block, axis=2) + part
    return jax.lax.dynamic_update_slice_in_dim(whole, changed, index * block, axis=2)


def _joined(blocks: "Float[Array, 'blocks s m g q *rest']") -> "Float[Array, 's m g t *rest']":
    """Blocks along the leading axis back into the token axis."""
    return jnp.moveaxis(blocks, 0, 3).reshape(*blocks.shape[1:4], -1, *blocks.shape[5:])
