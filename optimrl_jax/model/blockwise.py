"""Attention over long packed rows: softmax block by block, in memory linear in the row, forwards and backwards.

Pure; takes the place of `attention.attend` between the projections of a decoder block where rows are long. Scores exist
for one block of queries and one of keys at a time, and the backward pass computes them again. A block of queries visits
the blocks of keys that hold its own branches or their trunks (within the window), and no others: packing many short
sequences into a long row costs little more than the sequences alone.
"""

import functools
import math
import typing

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from optimrl_jax.model import attention
from optimrl_jax.model.attention import Layout

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

# The name under which a policy of rematerialization may keep what the forward pass found.
ATTENDED = "attended"


def attend(
    query: "Float[Array, 's t n d']",
    key: "Float[Array, 's m d t']",
    value: "Float[Array, 's m t d']",
    layout: Layout,
    *,
    block: int,
    window: "int | Int[Array, '']" = attention.NO_WINDOW,
) -> "Float[Array, 's t n d']":
    """What `attention.attend` gives under `attention.visible_in_rows`, for every token outside padding.

    `block` need not divide the row. Scores and sums are float32, products take the dtype of their arrays. Padding gets
    finite values that mean nothing.
    """
    s, t, n, d = query.shape
    m = value.shape[1]
    padding = -t % block
    heads_first = (query / math.sqrt(d)).reshape(s, t, m, n // m, d).transpose(0, 2, 3, 1, 4)

    def padded(x: "Array", axis: int) -> "Array":
        return jnp.pad(x, [(0, padding if at == axis else 0) for at in range(x.ndim)])

    padded_layout = Layout(*(padded(x, 1) for x in layout))
    inputs = padded(heads_first, 3), padded(key, 3), padded(value, 2)
    summed = _attend(*inputs, padded_layout, jnp.asarray(window, jnp.int32), block)[..., :t, :]
    return summed.transpose(0, 3, 1, 2, 4).reshape(s, t, n, d)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _attend(
    query: "Float[Array, 's m g t d']",
    key: "Float[Array, 's m d t']",
    value: "Float[Array, 's m t d']",
    layout: Layout,
    window: "Int[Array, '']",
    block: int,
) -> "Float[Array, 's m g t d']":
    return _forward(query, key, value, layout, window, block)[0]


class _Visits(typing.NamedTuple):
    """The blocks of keys that a block of queries visits: some with trunks, then all from `first` to its own."""

    trunk_first: "Int[Array, '*blocks']"
    trunks: "Int[Array, '*blocks']"
    first: "Int[Array, '*blocks']"

    def count(self, index: "Int[Array, '']") -> "Int[Array, '']":
        return self.trunks + index + 1 - self.first

    def block(self, number: "Int[Array, '']") -> "Int[Array, '']":
        """The block that is visited as the `number`-th."""
        return number + jnp.where(number < self.trunks, self.trunk_first, self.first - self.trunks)


class _Running(typing.NamedTuple):
    """Softmax so far: the greatest score, the sum of weights relative to it, and the weighted sum of values."""

    greatest: "Float[Array, 's m g q']"
    total: "Float[Array, 's m g q']"
    summed: "Float[Array, 's m g q d']"


def _forward(
    query: "Array", key: "Array", value: "Array", layout: Layout, window: "Array", block: int
) -> tuple["Array", tuple]:
    def of_block(_: None, part: tuple["Array", _Visits]) -> tuple[None, tuple["Array", "Array"]]:
        index, visits = part
        own = _at(query, index, block, axis=3)

        def visit(number: "Int[Array, '']", running: _Running) -> _Running:
            other = visits.block(number)
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
        done = jax.lax.fori_loop(0, visits.count(index), visit, zeros)
        summed = (done.summed / done.total[..., None]).astype(value.dtype)
        return None, (summed, done.greatest + jnp.log(done.total))

    _, (summed, log_total) = jax.lax.scan(of_block, None, _numbered(_visits(layout, window, block)))
    summed, log_total = (checkpoint_name(_joined(x), ATTENDED) for x in (summed, log_total))
    return summed, (query, key, value, layout, window, summed, log_total)


class _Grads(typing.NamedTuple):
    query: "Float[Array, 's m g q d']"
    key: "Float[Array, 's m d t']"
    value: "Float[Array, 's m t d']"


def _backward(block: int, kept: tuple, grad: "Float[Array, 's m g t d']") -> tuple:
    """Each block of queries visits its keys once more; keys and values gather their gradients in float32."""
    query, key, value, layout, window, summed, log_total = kept
    along = jnp.sum(grad.astype(jnp.float32) * summed.astype(jnp.float32), axis=-1)

    def of_block(carry: tuple["Array", "Array"], part: tuple["Array", _Visits]) -> tuple[tuple, "Array"]:
        index, visits = part
        own, own_grad, own_total, own_along = (_at(x, index, block, axis=3) for x in (query, grad, log_total, along))

        def visit(number: "Int[Array, '']", found: _Grads) -> _Grads:
            other = visits.block(number)
            weights = jnp.exp(_scores(own, key, layout, window, index, other, block) - own_total[..., None])
            value_grad = _product("smgqk,smgqd->smkd", weights.astype(value.dtype), own_grad)
            pulled = _product("smgqd,smkd->smgqk", own_grad, _at(value, other, block, axis=2))
            scores_grad = (weights * (pulled - own_along[..., None])).astype(query.dtype)
            query_grad = _product("smgqk,smdk->smgqd", scores_grad, _at(key, other, block, axis=3))
            key_grad = _product("smgqk,smgqd->smdk", scores_grad, own)
            return _Grads(
                found.query + query_grad,
                _added(found.key, key_grad, other, block, axis=3),
                _added(found.value, value_grad, other, block, axis=2),
            )

        zeros = _Grads(jnp.zeros(own.shape, jnp.float32), *carry)
        done = jax.lax.fori_loop(0, visits.count(index), visit, zeros)
        return (done.key, done.value), done.query.astype(query.dtype)

    zeros = jnp.zeros(key.shape, jnp.float32), jnp.zeros(value.shape, jnp.float32)
    (key_grad, value_grad), query_grad = jax.lax.scan(of_block, zeros, _numbered(_visits(layout, window, block)))
    no_grad = jax.tree.map(lambda x: np.zeros(x.shape, jax.dtypes.float0), (layout, window))
    return _joined(query_grad), key_grad.astype(key.dtype), value_grad.astype(value.dtype), *no_grad


_attend.defvjp(_forward, _backward)


def _visits(layout: Layout, window: "Array", block: int) -> _Visits:
    """What each block of queries visits, [blocks] each.

    One answer for all rows keeps devices that hold different rows in step.
    """
    here = jnp.arange(layout.positions.shape[1])
    segment = _start(layout.segments)
    own = _start(layout.segments, layout.branches)
    trunk_tokens = layout.positions - (here - own)
    hidden_tokens = jnp.maximum(layout.positions - window + 1, 0)
    sees_trunk = (layout.segments > 0) & (layout.branches > 0) & (hidden_tokens < trunk_tokens)
    own = jnp.where(layout.segments > 0, jnp.maximum(own, here - window + 1), here)

    def least(tokens: "Int[Array, 's t']") -> "Int[Array, 'blocks']":
        return tokens.min(axis=0).reshape(-1, block).min(axis=1)

    first = least(own) // block
    trunk_first = least(jnp.where(sees_trunk, segment + hidden_tokens, own)) // block
    trunk_end = -(least(jnp.where(sees_trunk, -segment - trunk_tokens, 0)) // block)
    return _Visits(trunk_first, jnp.clip(trunk_end, trunk_first, first) - trunk_first, first)


def _start(*ids: "Int[Array, 's t']") -> "Int[Array, 's t']":
    """Index of the first token of the run of equal `ids` that each token stands in."""
    differs = functools.reduce(jnp.logical_or, (x[:, 1:] != x[:, :-1] for x in ids))
    here = jnp.arange(1, ids[0].shape[1])
    return jnp.pad(jax.lax.cummax(jnp.where(differs, here, 0), axis=1), ((0, 0), (1, 0)))


def _numbered(visits: _Visits) -> tuple["Int[Array, 'blocks']", _Visits]:
    return jnp.arange(len(visits.first)), visits


def _scores(
    own: "Float[Array, 's m g q d']",
    key: "Float[Array, 's m d t']",
    layout: Layout,
    window: "Array",
    index: "Array",
    other: "Array",
    block: int,
) -> "Float[Array, 's m g q k']":
    """Scores of one block of queries and one of keys in float32, hidden ones at -1e30."""
    here, there = (Layout(*(_at(x, at, block, axis=1) for x in layout)) for at in (index, other))
    seen = attention.visible_in_rows(here, there, window=window)
    scores = _product("smgqd,smdk->smgqk", own, _at(key, other, block, axis=3))
    return scores + jnp.where(seen, 0.0, attention.HIDDEN)[:, None, None]


def _product(subscripts: str, left: "Array", right: "Array") -> "Array":
    return jnp.einsum(subscripts, left, right, preferred_element_type=jnp.float32)


def _at(x: "Array", index: "Array", block: int, *, axis: int) -> "Array":
    return jax.lax.dynamic_slice_in_dim(x, index * block, block, axis=axis)


def _added(whole: "Array", part: "Array", index: "Array", block: int, *, axis: int) -> "Array":
    changed = _at(whole, index, block, axis=axis) + part
    return jax.lax.dynamic_update_slice_in_dim(whole, changed, index * block, axis=axis)


def _joined(blocks: "Float[Array, 'blocks s m g q *rest']") -> "Float[Array, 's m g t *rest']":
    """Blocks along the leading axis back into the token axis."""
    return jnp.moveaxis(blocks, 0, 3).reshape(*blocks.shape[1:4], -1, *blocks.shape[5:])
