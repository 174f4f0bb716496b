"""Hidden states -> log-probability of each target and entropy, with or without scores for every token at once.

Pure. `dense` keeps the scores [s, t, vocabulary] for the backward pass. `chunked` never holds more than those of a few
tokens of each row: it computes them again when gradients are asked for, which costs one more matrix product.
"""

import functools
import typing

import jax
import jax.numpy as jnp

from optimrl_jax.model import decoder

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int


class Scores(typing.NamedTuple):
    """What the policy says of each target: its log-probability, and the entropy of the whole distribution.

    No gradient flows through the entropy: it is a figure.
    """

    log_prob: "Float[Array, 's t']"
    entropy: "Float[Array, 's t']"


def dense(
    params: decoder.Params, hidden: "Float[Array, 's t w']", targets: "Int[Array, 's t']", *, temperature: float
) -> Scores:
    """Scores of all tokens at once, in float32; fastest where [s, t, vocabulary] is small."""
    scaled = decoder.logits(params, hidden) / temperature
    total = jax.nn.logsumexp(scaled, axis=-1)
    log_prob = _of_target(scaled, targets) - total
    fixed, fixed_total = jax.lax.stop_gradient((scaled, total))
    return Scores(log_prob, _entropy(fixed, fixed_total))


def chunked(
    params: decoder.Params,
    hidden: "Float[Array, 's t w']",
    targets: "Int[Array, 's t']",
    *,
    temperature: float,
    chunk: int,
) -> Scores:
    """The same as `dense` with the scores of `chunk` tokens of each row in memory at a time.

    Rows are cut along the token axis, so that a row axis spread over devices stays where it is. `chunk` need not divide
    the row. Products accumulate in float32, as does the gradient of the table over the chunks.
    """
    is_tied = "unembedding" not in params
    table = params["embedding"] if is_tied else params["unembedding"]
    t = hidden.shape[1]
    padding = -t % chunk

    def cut(x: "Array") -> "Array":
        padded = jnp.pad(x, ((0, 0), (0, padding), *[(0, 0)] * (x.ndim - 2)))
        return padded.reshape(x.shape[0], -1, chunk, *x.shape[2:]).swapaxes(0, 1)

    found = _chunked(cut(hidden), table, cut(targets), temperature, "vw" if is_tied else "wv")
    return Scores(*(x.swapaxes(0, 1).reshape(len(hidden), -1)[:, :t] for x in found))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _chunked(
    hidden: "Float[Array, 'c s t w']",
    table: "Float[Array, 'v w']",
    targets: "Int[Array, 'c s t']",
    temperature: float,
    axes: str,
) -> Scores:
    return _forward(hidden, table, targets, temperature, axes)[0]


def _forward(
    hidden: "Array", table: "Array", targets: "Array", temperature: float, axes: str
) -> tuple[Scores, tuple["Array", ...]]:
    """`axes` names those of the table, "vw" (the embedding) or "wv" (an output layer of its own)."""
    narrow = table.astype(hidden.dtype)

    def advance(_: None, part: tuple["Array", "Array"]) -> tuple[None, tuple["Array", "Array", "Array"]]:
        scaled = _logits(part[0], narrow, axes) / temperature
        total = jax.nn.logsumexp(scaled, axis=-1)
        return None, (_of_target(scaled, part[1]) - total, _entropy(scaled, total), total)

    _, (log_prob, entropy, total) = jax.lax.scan(advance, None, (hidden, targets))
    return Scores(log_prob, entropy), (hidden, table, targets, total)


def _backward(temperature: float, axes: str, kept: tuple["Array", ...], grads: Scores) -> tuple:
    """d log p(target) / d scores = (1 at the target - p) / temperature, through both factors of the product."""
    hidden, table, targets, total = kept
    narrow = table.astype(hidden.dtype)

    def advance(table_grad: "Array", part: tuple["Array", ...]) -> tuple["Array", "Array"]:
        own_hidden, own_targets, own_total, grad = part
        share = jnp.exp(_logits(own_hidden, narrow, axes) / temperature - own_total[..., None])
        is_target = _is_target(own_targets, share.shape[-1])
        scores_grad = ((is_target - share) * (grad / temperature)[..., None]).astype(hidden.dtype)
        product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
        hidden_grad = product(f"stv,{axes}->stw", scores_grad, narrow)
        # This order transposes the hidden states and not the scores, which are many times larger.
        return table_grad + product("stw,stv->wv", own_hidden, scores_grad), hidden_grad.astype(hidden.dtype)

    zeros = jnp.zeros((hidden.shape[-1], table.shape[axes.index("v")]), jnp.float32)
    table_grad, hidden_grad = jax.lax.scan(advance, zeros, (hidden, targets, total, grads.log_prob))
    return hidden_grad, jnp.einsum(f"wv->{axes}", table_grad).astype(table.dtype), None


_chunked.defvjp(_forward, _backward)


def _logits(hidden: "Float[Array, 's t w']", table: "Array", axes: str) -> "Float[Array, 's t v']":
    return jnp.einsum(f"stw,{axes}->stv", hidden, table, preferred_element_type=jnp.float32)


def _is_target(targets: "Int[Array, 's t']", vocabulary: int) -> "Bool[Array, 's t v']":
    return jnp.arange(vocabulary) == targets[..., None]


def _of_target(scaled: "Float[Array, 's t v']", targets: "Int[Array, 's t']") -> "Float[Array, 's t']":
    # A comparison instead of a gather: its gradient is one fused pass, a gather's is a scatter.
    return jnp.sum(jnp.where(_is_target(targets, scaled.shape[-1]), scaled, 0), axis=-1)


def _entropy(scaled: "Float[Array, 's t v']", total: "Float[Array, 's t']") -> "Float[Array, 's t']":
    # Not total - sum(p * score): that loses digits where scores are large.
    log_prob = scaled - total[..., None]
    return -jnp.sum(jnp.exp(log_prob) * log_prob, axis=-1)
