"""The two objectives, as sums over the tokens of a packed microbatch: supervised and clipped surrogate.

Pure. Sums, not means: the update divides by what the recipe asks for (completion tokens, or the fixed horizon N).
"""

import functools
import typing

import jax.numpy as jnp

from optimrl_jax.data.packing import Packed
from optimrl_jax.learner import cross_entropy
from optimrl_jax.learner.cross_entropy import Scores
from optimrl_jax.model import decoder
from optimrl_jax.settings import ModelSettings

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Float

Sums = dict[str, "Float[Array, '']"]


def scores(params: decoder.Params, settings: ModelSettings, rows: Packed, *, temperature: float = 1.0) -> Scores:
    """Log-probability and entropy of each token given what stands before it; 0 at the start of a row.

    At the first token of a later segment or branch the value belongs to the one before: mask it (prompts are never
    trained, and a branch begins with the last token of its prompt).
    `settings.logits_chunk` says how many tokens of a row have scores over the vocabulary in memory at once; 0 is all.
    """
    hidden, _ = decoder.hidden_states(
        params,
        settings,
        tokens=rows.tokens,
        positions=rows.positions,
        segments=rows.segments,
        branches=rows.branches,
    )
    score = cross_entropy.dense
    if settings.logits_chunk:
        score = functools.partial(cross_entropy.chunked, chunk=settings.logits_chunk)
    found = score(params, hidden[:, :-1], rows.tokens[:, 1:], temperature=temperature)
    return Scores(*(jnp.pad(values, ((0, 0), (1, 0))) for values in found))


def supervised(params: decoder.Params, rows: Packed, *, settings: ModelSettings) -> tuple["Float[Array, '']", Sums]:
    """Negative log-likelihood of the completion tokens, `per_token["weight"]` 1 there and 0 elsewhere."""
    found = scores(params, settings, rows)
    weight = rows.per_token["weight"]
    loss = -jnp.sum(found.log_prob * weight)
    return loss, {"loss": loss, "entropy": jnp.sum(found.entropy * weight), "tokens": jnp.sum(weight)}


def clipped_surrogate(
    params: decoder.Params,
    rows: Packed,
    *,
    settings: ModelSettings,
    temperature: float,
    epsilon_low: float,
    epsilon_high: float,
) -> tuple["Float[Array, '']", Sums]:
    """Minus the sum over sampled tokens of min(ratio A, clip(ratio, 1 - low, 1 + high) A), equation of L3803.

    `per_token` holds "weight" (1 on sampled tokens), "advantage" and "log_prob", the log-probability that the SAMPLING
    policy gave the token: the ratio says how far the policy has moved since.
    """
    found = scores(params, settings, rows, temperature=temperature)
    weight, advantage = rows.per_token["weight"], rows.per_token["advantage"]
    difference = jnp.where(weight > 0, found.log_prob - rows.per_token["log_prob"], 0)
    ratio = jnp.exp(difference)
    clipped = jnp.clip(ratio, 1 - epsilon_low, 1 + epsilon_high)
    loss = -jnp.sum(weight * jnp.minimum(ratio * advantage, clipped * advantage))
    is_clipped = clipped * advantage < ratio * advantage
    return loss, {
        "loss": loss,
        "entropy": jnp.sum(found.entropy * weight),
        "clipped": jnp.sum(is_clipped * weight),
        "kl": jnp.sum((ratio - 1 - difference) * weight),
        "tokens": jnp.sum(weight),
    }
