"""A block of tokens in slots that each have a temperature and a nucleus of their own, with what came close.

Pure, jitted; the part of a server's engine that runs on the accelerator. Every slot draws from the random stream of its
own request: what it is answered does not depend on the requests beside it.
"""

import functools
import typing

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from optimrl_jax.model import attention, decoder
from optimrl_jax.model.generation import sampling, token_step
from optimrl_jax.model.generation.slots import Slots
from optimrl_jax.settings import Network

# Alternatives that are returned for each token, at most: what the protocol allows to ask for.
MAX_ALTERNATIVES = 20


class RowSampling(typing.NamedTuple):
    """How each slot samples.

    Attributes:
      temperature: `[s]`; 0 takes the likeliest token.
      top_p: `[s]`, the mass of the likeliest tokens that are drawn from; 1 draws from all.
    """

    temperature: Float[Array, " s"]
    top_p: Float[Array, " s"]


class SampledBlock(typing.NamedTuple):
    """The tokens of one block.

    Attributes:
      token: `[n, s]` token ids.
      log_prob: `[n, s]` at the temperature of the slot (1 where it is 0), before the nucleus is cut out.
      alternatives: `[n, s, a]` the likeliest token ids, best first.
      alternative_log_prob: `[n, s, a]` theirs.
      is_sampled: `[n, s]`, False where a slot was free or had ended.
    """

    token: Int[Array, "n s"]
    log_prob: Float[Array, "n s"]
    alternatives: Int[Array, "n s a"]
    alternative_log_prob: Float[Array, "n s a"]
    is_sampled: Bool[Array, "n s"]


@functools.partial(jax.jit, donate_argnums=0, static_argnames=("settings", "end_token", "block"))
def sample_block(
    slots: Slots, params: decoder.Params, settings: Network, rows: RowSampling, *, end_token: int, block: int
) -> tuple[Slots, SampledBlock]:
    """Sample up to `block` tokens in every live slot.

    Args:
      slots: donated.
      params: the weights, from `token_step.unstack_layers`.
      settings: shape of the decoder.
      rows: how each slot samples.
      end_token: the id that ends a completion.
      block: tokens of each slot, at most.

    Returns:
      The slots after the block, and what was sampled in it.
    """

    def step(slots: Slots, _: None) -> tuple[Slots, SampledBlock]:
        is_live = sampling.is_live(slots.done)
        token, scores = choose_tokens(slots.keys, slots.done.length, slots.logits, rows)
        log_prob = jnp.take_along_axis(scores, token[:, None], axis=-1)[:, 0]
        near, near_ids = jax.lax.top_k(scores, min(MAX_ALTERNATIVES, scores.shape[-1]))
        logits, past = token_step.decode_token(
            params, settings, tokens=token, positions=slots.prompt_length + slots.done.length, past=slots.past
        )
        done = sampling.append_tokens(slots.done, token, log_prob, end_token=end_token)
        return slots._replace(logits=logits, past=past, done=done), SampledBlock(
            token, log_prob, near_ids, near, is_live
        )

    return jax.lax.scan(step, slots, None, length=block)


def choose_tokens(
    keys: Array, steps: Int[Array, " s"], logits: Float[Array, "s v"], rows: RowSampling
) -> tuple[Int[Array, " s"], Float[Array, "s v"]]:
    """Choose one token in each row.

    Args:
      keys: `[s]` random keys of the rows.
      steps: `[s]` tokens that each row has sampled before.
      logits: `[s, v]` scores of the next token.
      rows: temperature and nucleus of each.

    Returns:
      The tokens `[s]`, and the log-probabilities `[s, v]` of all tokens at the row's temperature, before the nucleus is
      cut out.
    """
    is_greedy = rows.temperature == 0
    scores = jax.nn.log_softmax(logits / jnp.where(is_greedy, 1.0, rows.temperature)[:, None])
    nucleus = jax.lax.cond((rows.top_p < 1).any(), lambda: _cut_to_nucleus(scores, rows.top_p), lambda: scores)
    sampled, _ = sampling.sample_tokens(sampling.uniform_numbers(keys, steps), nucleus)
    return jnp.where(is_greedy, scores.argmax(axis=-1), sampled).astype(jnp.int32), scores


def _cut_to_nucleus(scores: Float[Array, "s v"], top_p: Float[Array, " s"]) -> Float[Array, "s v"]:
    """Hide all but the fewest likeliest tokens whose probabilities sum to at least `top_p`."""
    falling = jnp.sort(scores, axis=-1, descending=True)
    before = jnp.cumsum(jnp.exp(falling), axis=-1) - jnp.exp(falling)
    # The likeliest token always stays: nothing stands before it.
    least = jnp.where((before < top_p[:, None]) | (jnp.arange(scores.shape[-1]) == 0), falling, jnp.inf).min(axis=-1)
    return jnp.where(scores >= least[:, None], scores, attention.HIDDEN)
