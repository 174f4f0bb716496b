"""The two objectives, as sums over the tokens of a packed microbatch: supervised and clipped surrogate.

Pure. Sums, not means: the update divides by what the recipe asks for (completion tokens, or the fixed horizon N).
"""

import typing

import jax
import jax.numpy as jnp

from optimrl_jax.data.packing import Packed
from optimrl_jax.model import decoder
from optimrl_jax.settings import ModelSettings

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Float

Sums = dict[str, "Float[Array, '']"]


class Scores(typing.NamedTuple):
    """What the policy says of each next token: its log-probability, and the entropy of the whole distribution."""

    log_prob: "Float[Array, 's t']"
    entropy: "Float[Array, 's t']"


def scores(params: decoder.Params, settings: ModelSettings, rows: Packed, *, temperature: float = 1.0) -> Scores:
    """Log-probability and entropy of each token given what stands before it; 0 at the start of a row.

    At the first token of a later segment the value belongs to the segment before: mask it (prompts are never trained).
    """
    hidden, _ = decoder.hidden_states(
        params, settings, tokens=rows.tokens, positions=rows.positions, segments=rows.segments
    )
    scaled = decoder.logits(params, hidden[:, :-1]) / temperature
    # A comparison instead of a gather: its gradient is one fused pass, a gather's is a scatter.
    is_target = jnp.arange(scaled.shape[-1]) == rows.tokens[:, 1:, None]
    total = jax.nn.logsumexp(scaled, axis=-1)
    log_prob = jnp.sum(jnp.where(is_target, scaled, 0), axis=-1) - total
    fixed, fixed_total = jax.lax.stop_gradient((scaled, total))
    entropy = fixed_total - jnp.sum(jnp.exp(fixed - fixed_total[..., None]) * fixed, axis=-1)
    return Scores(*(jnp.pad(values, ((0, 0), (1, 0))) for values in (log_prob, entropy)))


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
