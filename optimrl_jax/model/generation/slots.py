"""Slots: the fixed set of rows that decoding works on; a row that has ended makes room for the next rollout.

Pure, jitted steps between which `continuous` decides on the host: `prefill` runs a prompt once, `fill` copies its cache
into the slots of its samples, `advance` decodes a block of tokens in all slots. Shapes depend on the numbers of slots
and tokens alone. Each slot draws from the random stream of the rollout that it holds and writes its own columns.
"""

import functools
import typing

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from optimrl_jax.model import decoder, kv_cache
from optimrl_jax.model.generation import sampling, token_step
from optimrl_jax.settings import Network


class Slots(typing.NamedTuple):
    """The rows that decode; those that are not live are free.

    Attributes:
      keys: `[s]` random keys of the rollouts.
      prompt_length: `[s]` tokens of their prompts.
      logits: `[s, v]`, which decide each slot's next token.
      past: the cache of each layer.
      done: what each slot has sampled.
    """

    keys: Array
    prompt_length: Int[Array, " s"]
    logits: Float[Array, "s v"]
    past: tuple[kv_cache.KeyValue, ...]
    done: sampling.Completions


class Prefilled(typing.NamedTuple):
    """A prompt that was run once.

    Attributes:
      length: its tokens, without padding.
      logits: `[v]` scores of its next token.
      kept: keys and values of the prompt, with a leading layer axis.
    """

    length: Int[Array, ""]
    logits: Float[Array, " v"]
    kept: kv_cache.KeyValue


class Progress(typing.NamedTuple):
    """What the host reads from the slots after each block.

    Attributes:
      length: `[s]` tokens that each slot has sampled.
      has_ended: `[s]` the completion ended by itself.
      is_live: `[s]` the slot is still decoding.
    """

    length: Int[Array, " s"]
    has_ended: Bool[Array, " s"]
    is_live: Bool[Array, " s"]


@functools.partial(jax.jit, static_argnames=("settings", "slots", "prompt_tokens", "steps"))
def empty_slots(settings: Network, *, keys: Array, slots: int, prompt_tokens: int, steps: int) -> Slots:
    """Return slots that are all free.

    Args:
      settings: shape of the decoder.
      keys: any key array; only its type matters.
      slots: rollouts that decode side by side.
      prompt_tokens: tokens of the longest prompt.
      steps: tokens of a completion, at most.
    """
    past = tuple(
        kv_cache.empty_cache(settings, rows=slots, columns=kv_cache.cache_columns(prompt_tokens + steps, window))
        for window in decoder.layer_windows(settings)
    )
    return Slots(
        keys=jnp.broadcast_to(keys[0], (slots,)),
        prompt_length=jnp.ones(slots, jnp.int32),
        logits=jnp.zeros((slots, settings.vocabulary), jnp.float32),
        past=past,
        done=sampling.empty_completions(slots, steps)._replace(has_ended=jnp.ones(slots, bool)),
    )


@functools.partial(jax.jit, static_argnames="settings")
def prefill_prompt(
    params: decoder.Params, settings: Network, *, prompt: Int[Array, " p"], length: Int[Array, ""]
) -> Prefilled:
    """Run a prompt once for all its samples.

    Args:
      params: parameters with stacked layers.
      settings: shape of the decoder.
      prompt: `[p]` token ids, padded on the right.
      length: its tokens without padding, at least 1.
    """
    positions = jnp.arange(len(prompt))[None]
    is_real = positions < length
    hidden, kept = decoder.hidden_states(
        params,
        settings,
        tokens=prompt[None],
        positions=jnp.where(is_real, positions, 0),
        segments=is_real.astype(jnp.int32),
    )
    return Prefilled(length, decoder.logits(params, hidden[0, length - 1]), kept)


@functools.partial(jax.jit, donate_argnums=0)
def fill_slots(
    slots: Slots,
    prompt: Prefilled,
    *,
    keys: Array,
    targets: Int[Array, " s"],
    samples: Int[Array, " s"],
    count: Int[Array, ""],
) -> Slots:
    """Start rollouts of one prompt: the one with key `keys[samples[i]]` in slot `targets[i]`, for i < count.

    Args:
      slots: donated.
      prompt: what was prefilled.
      keys: key array of all rollouts of the prompt.
      targets: `[s]` free slots, padded with any numbers.
      samples: `[s]` numbers of rollouts, likewise.
      count: rollouts that are started.
    """
    rows = jnp.where(jnp.arange(len(targets)) < count, targets, len(targets))

    def start(old: Array, new: Array) -> Array:
        return old.at[rows].set(new, mode="drop")

    rings = [
        kv_cache.ring_of_prompt(jax.tree.map(lambda part, n=n: part[n], prompt.kept), prompt.length, old.columns)
        for n, old in enumerate(slots.past)
    ]

    def copy(i: Int[Array, ""], past: tuple[kv_cache.KeyValue, ...]) -> tuple[kv_cache.KeyValue, ...]:
        return tuple(kv_cache.copy_row(old, row, targets[i]) for old, row in zip(past, rings, strict=True))

    return Slots(
        keys=start(slots.keys, keys[samples]),
        prompt_length=start(slots.prompt_length, prompt.length),
        logits=start(slots.logits, prompt.logits),
        past=jax.lax.fori_loop(0, count, copy, slots.past),
        done=sampling.Completions(*(start(part, jnp.zeros((), part.dtype)) for part in slots.done)),
    )


@functools.partial(jax.jit, donate_argnums=0)
def release_slots(slots: Slots, is_released: Bool[Array, " s"]) -> Slots:
    """End the rollouts in some slots where they are.

    Args:
      slots: donated.
      is_released: `[s]` marks the slots to free.
    """
    return slots._replace(done=slots.done._replace(has_ended=slots.done.has_ended | is_released))


@functools.partial(jax.jit, donate_argnums=0, static_argnames=("settings", "end_token", "block"))
def advance_slots(
    slots: Slots,
    params: decoder.Params,
    settings: Network,
    *,
    temperature: float | Float[Array, ""],
    waits: bool | Bool[Array, ""],
    end_token: int,
    block: int,
) -> tuple[Slots, Progress]:
    """Decode up to `block` tokens in every live slot; stop early once none is live, or one is free while one waits.

    Args:
      slots: donated.
      params: the weights, from `token_step.unstack_layers`.
      settings: shape of the decoder.
      temperature: of sampling.
      waits: whether a rollout waits for a free slot.
      end_token: the id that ends a completion.
      block: tokens of each slot, at most.

    Returns:
      The slots, and what the host asks of them.
    """

    def goes_on(state: tuple) -> Bool[Array, ""]:
        n, slots = state
        live = sampling.is_live(slots.done)
        return (n < block) & live.any() & (live.all() | ~jnp.asarray(waits))

    def step(state: tuple) -> tuple:
        n, slots = state
        number = sampling.uniform_numbers(slots.keys, slots.done.length)
        token, log_prob = sampling.sample_tokens(number, slots.logits / temperature)
        logits, past = token_step.decode_token(
            params, settings, tokens=token, positions=slots.prompt_length + slots.done.length, past=slots.past
        )
        done = sampling.append_tokens(slots.done, token, log_prob, end_token=end_token)
        return n + 1, slots._replace(logits=logits, past=past, done=done)

    _, slots = jax.lax.while_loop(goes_on, step, (jnp.int32(0), slots))
    return slots, Progress(slots.done.length, slots.done.has_ended, sampling.is_live(slots.done))


@jax.jit
def completion_in_slot(done: sampling.Completions, slot: Int[Array, ""]) -> tuple[Int[Array, " t"], Float[Array, " t"]]:
    """Return what one slot has sampled.

    Args:
      done: the completions of all slots.
      slot: number of the slot.

    Returns:
      Tokens `[t]` and log-probabilities `[t]`, with their padding.
    """
    return done.tokens[slot], done.log_prob[slot]
