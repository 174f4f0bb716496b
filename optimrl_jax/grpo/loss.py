"""The two objectives over the tokens of a packed microbatch: supervised (SFT) and the clipped surrogate (GRPO).

Pure. Sums, not means: the update divides by what the recipe asks for (completion tokens, or the fixed horizon N).
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from optimrl_jax.data.packing import Packed
from optimrl_jax.model import cross_entropy, decoder
from optimrl_jax.model.cross_entropy import Objective, PerToken, Scores, Sums
from optimrl_jax.settings import Network

# Bound of the log-probability ratio between the policy and the one that sampled: far outside of every clip range.
MAX_LOG_RATIO = 20.0


def supervised(params: decoder.Params, rows: Packed, *, settings: Network) -> tuple[Float[Array, ""], Sums]:
    """Sum the negative log-likelihood of the completion tokens.

    Args:
      params: of the decoder.
      rows: packed rows `[s, t]`; `per_token["weight"]` is 1 on tokens of completions and 0 elsewhere.
      settings: of the decoder.

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

    -sum over sampled tokens of min(ratio A, clip(ratio, 1 - epsilon_low, 1 + epsilon_high) A), where
    ratio = exp(log_prob - log_prob of the policy that sampled) says how far the policy has moved since.

    Args:
      params: of the decoder.
      rows: packed rows `[s, t]`; `per_token` holds "weight" (1 on sampled tokens), "advantage" and "log_prob", the
        log-probability under the sampling policy.
      settings: of the decoder.
      temperature: at which the rollouts were sampled.
      epsilon_low: lower clip of the ratio.
      epsilon_high: upper clip of the ratio.
      importance_cap: where the rollouts come from an engine whose log-probabilities are not quite the learner's: the
        ratio is taken to the policy as it is before the step, and each token is weighted by the probability there over
        the one that the engine states, at most this. 0: the engine is the learner's own.

    Returns:
      The scalar loss, and the sums "loss", "entropy", "clipped", "kl", "tokens", and of the mismatch between
      learner and sampler "mismatch" (absolute difference of log-probabilities) and "truncated" (tokens at the cap).
    """
    objective = functools.partial(
        _surrogate, epsilon_low=epsilon_low, epsilon_high=epsilon_high, importance_cap=importance_cap
    )
    sums = _summed(params, rows, objective, settings=settings, temperature=temperature)
    return sums["loss"], sums


def _summed(
    params: decoder.Params, rows: Packed, objective: Objective, *, settings: Network, temperature: float = 1.0
) -> Sums:
    """Sum an objective over all tokens given what stands before them; the first of a row adds nothing.

    At the first token of a later segment or suffix the scores belong to the one before: its weight has to be 0 (prompts
    are never trained, and a suffix begins with the last token of its prompt).
    `compute.logits_chunk` says how many tokens of a row have scores over the vocabulary in memory at once; 0 is all.
    """
    hidden, _ = decoder.hidden_states(
        params,
        settings,
        tokens=rows.tokens,
        positions=rows.positions,
        segments=rows.segments,
        suffixes=rows.suffixes,
    )
    summed = cross_entropy.dense_objective
    if settings.compute.logits_chunk:
        summed = functools.partial(cross_entropy.chunked_objective, chunk=settings.compute.logits_chunk)
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
    # A single token that the new policy finds e^20 times as likely would else put infinity into every gradient.
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
        "truncated": jnp.sum((importance == importance_cap) * weight) if importance_cap else jnp.zeros(()),
        "tokens": jnp.sum(weight),
    }
