"""What gradients are taken of: sums over the tokens of packed rows, supervised (SFT) or the clipped surrogate (GRPO).

Pure. Sums, not means: the update divides by what the recipe asks for (completion tokens, or the fixed horizon N). An
objective sees the log-probability of each target, with or without scores for every token at once: `dense_objective`
keeps the scores [s, t, vocabulary] for the backward pass; `chunked_objective` never holds more than those of a few
tokens of each row, and computes them once: an objective is a sum over tokens, so that the gradient of a token is known
as soon as its own scores are.
"""

import functools
import typing
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from optimrl_jax.data.packing import Packed
from optimrl_jax.distributed import sharding
from optimrl_jax.model import decoder
from optimrl_jax.model.inner_products import inner_product
from optimrl_jax.settings import Network

Sums = dict[str, Float[Array, ""]]
PerToken = Mapping[str, Float[Array | np.ndarray, "s t"]]


class Scores(typing.NamedTuple):
    """What the policy says of each target.

    Attributes:
      log_prob: `[s, t]` log-probability of the target.
      entropy: `[s, t]` entropy of the whole distribution, in nats; no gradient flows through it, it is only reported.
    """

    log_prob: Float[Array, "s t"]
    entropy: Float[Array, "s t"]


# Sums over tokens of scores and of what else is known of each token; "loss" is what gradients are taken of. A token all
# of whose known values are 0 adds nothing.
Objective = Callable[[Scores, PerToken], Sums]

# Where the chunks of hidden states, the table and what is known of tokens lie while they are scanned.
_PLACES = "chunks", "everywhere", "chunks"


def dense_objective(
    params: decoder.Params,
    hidden: Float[Array, "s t w"],
    targets: Int[Array | np.ndarray, "s t"],
    known: PerToken,
    objective: Objective,
    *,
    temperature: float,
) -> Sums:
    """Sum an objective from the scores of all tokens at once; fastest where `[s, t, vocabulary]` is small.

    Args:
      params: the weights.
      hidden: `[s, t, w]` final hidden states.
      targets: `[s, t]` the token that follows each.
      known: `[s, t]` values by name: what else the objective needs of each token.
      objective: sums over tokens; gradients are taken of its "loss".
      temperature: divides the scores.

    Returns:
      What `objective` returns, float32.
    """
    logits = sharding.constrain(decoder.logits(params, hidden), "scores")
    return objective(_scored(logits / temperature, targets).scores, known)


def chunked_objective(
    params: decoder.Params,
    hidden: Float[Array, "s t w"],
    targets: Int[Array | np.ndarray, "s t"],
    known: PerToken,
    objective: Objective,
    *,
    temperature: float,
    chunk: int,
) -> Sums:
    """Compute the same as `dense_objective` with the scores of `chunk` tokens of each row in memory at a time.

    Rows are cut along the token axis, so that a row axis spread over devices stays where it is. Products accumulate in
    float32, as does the gradient of the table over the chunks. On a mesh the table is gathered once and its gradient is
    summed once, not in each chunk, and devices that share a row divide its chunks among themselves.

    Args:
      params: see `dense_objective`, like all that follow but `chunk`.
      hidden: `[s, t, w]`.
      targets: `[s, t]`.
      known: `[s, t]` values by name.
      objective: must give 0 where all known values are 0, as they are in what fills up the last chunk.
      temperature: divides the scores.
      chunk: tokens of a row at a time; it need not divide the row.

    Returns:
      What `objective` returns; only "loss" has a gradient.
    """
    is_tied = "unembedding" not in params
    table = params["embedding"] if is_tied else params["unembedding"]
    padding = -hidden.shape[1] % (chunk * sharding.axis_size("tensor") * sharding.axis_size("sequence"))

    def cut(x: Array) -> Array:
        padded = jnp.pad(x, ((0, 0), (0, padding), *[(0, 0)] * (x.ndim - 2)))
        return padded.reshape(x.shape[0], -1, chunk, *x.shape[2:]).swapaxes(0, 1)

    parts = jax.tree.map(cut, (targets, known))
    return _chunked(cut(hidden), table, parts, objective, temperature, "vw" if is_tied else "wv")


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def _chunked(
    hidden: Float[Array, "c s t w"],
    table: Float[Array, "v w"],
    parts: tuple[Int[Array, "c s t"], PerToken],
    objective: Objective,
    temperature: float,
    axes: str,
) -> Sums:
    """Sum the objective over chunks; differentiable by `_forward` and `_backward`.

    `axes` names those of the table, "vw" (the embedding) or "wv" (an output layer of its own).
    """
    scan = functools.partial(_scan_sums, objective=objective, temperature=temperature, axes=axes)
    on_devices = sharding.map_devices(scan, inputs=_PLACES, outputs=sharding.Summed("everywhere"))
    return on_devices(hidden, table.astype(hidden.dtype), parts)


def _forward(
    hidden: Array,
    table: Array,
    parts: tuple[Array, PerToken],
    objective: Objective,
    temperature: float,
    axes: str,
) -> tuple[Sums, tuple[Array, Array]]:
    scan = functools.partial(_scan_gradients, objective=objective, temperature=temperature, axes=axes)
    places = sharding.Summed("everywhere"), "chunks", sharding.Summed("head_gradient")
    on_devices = sharding.map_devices(scan, inputs=_PLACES, outputs=places)
    sums, hidden_grad, table_grad = on_devices(hidden, table.astype(hidden.dtype), parts)
    return sums, (hidden_grad, jnp.einsum(f"wv->{axes}", table_grad).astype(table.dtype))


def _scan_sums(
    hidden: Array, table: Array, parts: tuple[Array, PerToken], *, objective: Objective, temperature: float, axes: str
) -> Sums:
    def advance(_: None, part: tuple[Array, tuple[Array, PerToken]]) -> tuple[None, Sums]:
        part_hidden, (targets, known) = part
        return None, objective(_scored(_logits(part_hidden, table, axes) / temperature, targets).scores, known)

    return jax.tree.map(jnp.sum, jax.lax.scan(advance, None, (hidden, parts))[1])


def _scan_gradients(
    hidden: Array, table: Array, parts: tuple[Array, PerToken], *, objective: Objective, temperature: float, axes: str
) -> tuple[Sums, Array, Array]:
    """Compute sums and their gradients: d log p(target) / d scores = (1 at the target - p) / temperature."""
    product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)

    def advance(table_grad: Array, part: tuple[Array, tuple[Array, PerToken]]) -> tuple[Array, tuple]:
        part_hidden, (targets, known) = part
        scored = _scored(_logits(part_hidden, table, axes) / temperature, targets)

        def loss(log_prob: Array) -> tuple[Array, Sums]:
            sums = objective(scored.scores._replace(log_prob=log_prob), known)
            return sums["loss"], sums

        grad, sums = jax.grad(loss, has_aux=True)(scored.scores.log_prob)
        share = scored.weights / scored.total[..., None]
        is_target = _is_target(targets, share.shape[-1])
        scores_grad = ((is_target - share) * (grad / temperature)[..., None]).astype(hidden.dtype)
        hidden_grad = product(f"stv,{axes}->stw", scores_grad, table)
        # This order transposes the hidden states and not the scores, which are many times larger.
        table_grad += product("stw,stv->wv", part_hidden, scores_grad)
        return table_grad, (sums, hidden_grad.astype(hidden.dtype))

    zeros = jnp.zeros((hidden.shape[-1], table.shape[axes.index("v")]), jnp.float32)
    table_grad, (sums, hidden_grad) = jax.lax.scan(advance, zeros, (hidden, parts))
    return jax.tree.map(jnp.sum, sums), hidden_grad, table_grad


def _backward(_: Objective, __: float, ___: str, kept: tuple[Array, Array], grads: Sums) -> tuple:
    return *(part * grads["loss"].astype(part.dtype) for part in kept), None


_chunked.defvjp(_forward, _backward)


class _Scored(typing.NamedTuple):
    """Scores, and what their probabilities are made of.

    `weights` are relative to that of the largest score; `total` is their sum over the vocabulary.
    """

    scores: Scores
    weights: Float[Array, "s t v"]
    total: Float[Array, "s t"]


def _scored(scaled: Float[Array, "s t v"], targets: Int[Array | np.ndarray, "s t"]) -> _Scored:
    # Relative to the largest score: sums of large scores would lose the digits of a small entropy.
    relative = scaled - jax.lax.stop_gradient(scaled.max(axis=-1, keepdims=True))
    weights = jnp.exp(relative)
    total = weights.sum(axis=-1)
    log_total = jnp.log(total)
    entropy = log_total - inner_product(weights, relative) / total
    scores = Scores(_of_target(relative, targets) - log_total, jax.lax.stop_gradient(entropy))
    return _Scored(scores, weights, total)


def _logits(hidden: Float[Array, "s t w"], table: Array, axes: str) -> Float[Array, "s t v"]:
    return jnp.einsum(f"stw,{axes}->stv", hidden, table, preferred_element_type=jnp.float32)


def _is_target(targets: Int[Array | np.ndarray, "s t"], vocabulary: int) -> Bool[Array, "s t v"]:
    return jnp.arange(vocabulary) == targets[..., None]


def _of_target(scaled: Float[Array, "s t v"], targets: Int[Array | np.ndarray, "s t"]) -> Float[Array, "s t"]:
    # A comparison instead of a gather: its gradient is one fused pass, a gather's is a scatter.
    return jnp.sum(jnp.where(_is_target(targets, scaled.shape[-1]), scaled, 0), axis=-1)


# Bound on the log-probability ratio between the policy and the one that sampled, far outside any clip range.
MAX_LOG_RATIO = 20.0


def supervised(params: decoder.Params, rows: Packed, *, settings: Network) -> tuple[Float[Array, ""], Sums]:
    """Sum the negative log-likelihood of the completion tokens.

    Args:
      params: weights of the decoder.
      rows: packed rows `[s, t]`; `per_token["weight"]` is 1 on tokens of completions and 0 elsewhere.
      settings: network of the decoder.

    Returns:
      The scalar loss, and the sums "loss", "entropy" and "tokens".
    """
    sums = _summed(params, rows, _likelihood, settings=settings)
    return sums["loss"], sums


def clipped_surrogate(
    params: decoder.Params,
    rows: Packed,
    *,
    settings: Network,
    temperature: float,
    epsilon_low: float,
    epsilon_high: float,
    importance_cap: float = 0.0,
) -> tuple[Float[Array, ""], Sums]:
    """Sum the clipped surrogate of GRPO (App. F, Eq. 38), without its division by the horizon N.

    -sum over sampled tokens of min(ratio A, clip(ratio, 1 - epsilon_low, 1 + epsilon_high) A), where ratio =
    exp(log_prob - log_prob of the policy that sampled) says how far the policy has moved since.

    Args:
      params: weights of the decoder.
      rows: packed rows `[s, t]`; `per_token` holds "weight" (1 on sampled tokens), "advantage" and "log_prob", the
        log-probability under the sampling policy.
      settings: network of the decoder.
      temperature: at which the rollouts were sampled.
      epsilon_low: lower clip of the ratio.
      epsilon_high: upper clip of the ratio.
      importance_cap: for rollouts of an engine whose log-probabilities are not quite the learner's. The ratio is then
        taken to the policy as it is before the step, and each token is weighted by its probability there over the one
        that the engine states, at most by this cap. 0 where the learner's own policy sampled.

    Returns:
      The scalar loss, and the sums "loss", "entropy", "clipped", "kl", "tokens", and of the mismatch between learner
      and sampler "mismatch" (absolute difference of log-probabilities), "ratio" (probability in the learner over that
      in the sampler, not truncated) and "truncated" (tokens at the cap).
    """
    objective = functools.partial(
        _surrogate, epsilon_low=epsilon_low, epsilon_high=epsilon_high, importance_cap=importance_cap
    )
    sums = _summed(params, rows, objective, settings=settings, temperature=temperature)
    return sums["loss"], sums


def _summed(
    params: decoder.Params, rows: Packed, objective: Objective, *, settings: Network, temperature: float = 1.0
) -> Sums:
    """Sum an objective over all tokens but the first of each row, which nothing predicts.

    At the first token of a later segment or suffix the scores belong to the one before: its weight has to be 0 (prompts
    are never trained, and a suffix begins with the last token of its prompt). `compute.logits_chunk` says how many
    tokens of a row have scores over the vocabulary in memory at once; 0 is all.
    """
    hidden, _ = decoder.hidden_states(
        params,
        settings,
        tokens=rows.tokens,
        positions=rows.positions,
        segments=rows.segments,
        suffixes=rows.suffixes,
    )
    summed = dense_objective
    if settings.compute.logits_chunk:
        summed = functools.partial(chunked_objective, chunk=settings.compute.logits_chunk)
    known = {name: values[:, 1:] for name, values in rows.per_token.items()}
    return summed(params, hidden[:, :-1], rows.tokens[:, 1:], known, objective, temperature=temperature)


def _likelihood(scores: Scores, known: PerToken) -> Sums:
    weight = known["weight"]
    return {
        "loss": -jnp.sum(scores.log_prob * weight),
        "entropy": jnp.sum(scores.entropy * weight),
        "tokens": jnp.sum(weight),
    }


def _surrogate(
    scores: Scores, known: PerToken, *, epsilon_low: float, epsilon_high: float, importance_cap: float
) -> Sums:
    weight, advantage = known["weight"], known["advantage"]
    difference = jnp.where(weight > 0, scores.log_prob - known["log_prob"], 0)
    # Otherwise a single token whose ratio overflows would put infinity into every gradient.
    difference = jnp.clip(difference, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    importance = jnp.ones_like(difference)
    if importance_cap:
        importance = jnp.minimum(jnp.exp(jax.lax.stop_gradient(difference)), importance_cap)
        # What is left of the ratio is 1, with the gradient of the log-probability: each batch is learned from once.
        ratio = jnp.exp(difference - jax.lax.stop_gradient(difference))
    else:
        ratio = jnp.exp(difference)
    clipped = jnp.clip(ratio, 1 - epsilon_low, 1 + epsilon_high)
    is_clipped = clipped * advantage < ratio * advantage
    return {
        "loss": -jnp.sum(weight * importance * jnp.minimum(ratio * advantage, clipped * advantage)),
        "entropy": jnp.sum(scores.entropy * weight),
        "clipped": jnp.sum(is_clipped * weight),
        "kl": jnp.sum((jnp.exp(difference) - 1 - difference) * weight),
        "mismatch": jnp.sum(jnp.abs(difference) * weight),
        "ratio": jnp.sum(jnp.exp(difference) * weight),
        "truncated": jnp.sum((importance == importance_cap) * weight) if importance_cap else jnp.zeros(()),
        "tokens": jnp.sum(weight),
    }
