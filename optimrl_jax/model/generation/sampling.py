"""Sampling: each prompt runs once and keeps one cache for its samples, then one token a step until all end.

Shapes are fixed by the caller (prompts padded to one length, a fixed number of samples and steps), so that one compiled
program serves a whole run; the loop stops early when all rows have ended. Each row draws from its own random stream:
what it samples does not depend on its neighbours in the batch.
"""

import functools
import typing

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from optimrl_jax.model import attention, decoder, kv_cache
from optimrl_jax.model.generation import token_step
from optimrl_jax.model.kv_cache import KeyValue
from optimrl_jax.settings import Network

# Tokens between two looks at whether all rows have ended: each look waits for all devices.
STRETCH = 8
# Neighbouring tokens of the vocabulary whose probabilities are summed before one of them is drawn.
RUN = 64

# Of tokens and a length up to which they were looked at: the greater length at which they end by their text, or None.
StopRule = typing.Callable[[np.ndarray, int], int | None]


class Completions(typing.NamedTuple):
    """Sampled tokens, padded on the right.

    Attributes:
      tokens: `[r, t]` token ids, 0 in the padding.
      log_prob: `[r, t]` log-probability of each token at the sampling temperature, 0 in the padding.
      length: `[r]` tokens, the end token included.
      has_ended: `[r]` False where a completion filled its room without ending.
    """

    tokens: Int[Array, "r t"]
    log_prob: Float[Array, "r t"]
    length: Int[Array, " r"]
    has_ended: Bool[Array, " r"]


class _State(typing.NamedTuple):
    step: Int[Array, ""]
    logits: Float[Array, "r v"]
    past: tuple[KeyValue, ...]
    done: Completions


@functools.partial(jax.jit, static_argnames=("settings", "samples", "steps", "end_token"))
def generate(
    params: decoder.Params,
    settings: Network,
    *,
    prompts: Int[Array | np.ndarray, "b p"],
    prompt_mask: Bool[Array | np.ndarray, "b p"],
    keys: Array,
    temperature: float | Float[Array, ""],
    samples: int,
    steps: int,
    end_token: int,
) -> Completions:
    """Sample completions of each prompt.

    Args:
      params: the weights.
      settings: shape of the decoder.
      prompts: `[b, p]` token ids, padded on either side.
      prompt_mask: `[b, p]`, which tokens are real, at least one in each row.
      keys: `[b * samples]`, one random key for each completion.
      temperature: scores are divided by it before they become probabilities.
      samples: completions of each prompt.
      steps: tokens of a completion, at most.
      end_token: the id that ends a completion.

    Returns:
      Completions of `b * samples` rows; those of one prompt are neighbours.
    """
    logits, prefix = _prefill(params, settings, prompts, prompt_mask)
    lengths = jnp.repeat(prompt_mask.sum(axis=1), samples)
    columns = kv_cache.cache_columns(steps, attention.NO_WINDOW)
    unstacked = token_step.unstack_layers(params, settings)
    decode = functools.partial(token_step.decode_token, unstacked, settings, prefix=prefix)
    begin = _State(
        jnp.int32(0),
        jnp.repeat(logits, samples, axis=0),
        tuple(kv_cache.empty_cache(settings, rows=len(keys), columns=columns) for _ in prefix.past),
        empty_completions(len(keys), steps),
    )

    def goes_on(state: _State) -> Bool[Array, ""]:
        return (state.step < steps) & ~state.done.has_ended.all()

    def advance(state: _State, number: Float[Array, " r"]) -> _State:
        n = state.step
        token, log_prob = sample_tokens(number, state.logits / temperature)
        done = append_tokens(state.done, token, log_prob, end_token=end_token, column=n)
        logits, past = decode(tokens=token, positions=lengths + n, past=state.past, slot=n)
        return _State(n + 1, logits, past, done)

    def advance_stretch(state: _State) -> _State:
        at = jnp.broadcast_to(state.step + jnp.arange(STRETCH)[:, None], (STRETCH, len(keys)))
        numbers = jax.vmap(uniform_numbers, (None, 0))(keys, at)
        left = jnp.minimum(STRETCH, steps - state.step)
        return jax.lax.fori_loop(0, left, lambda n, state: advance(state, numbers[n]), state)

    return jax.lax.while_loop(goes_on, advance_stretch, begin).done


def row_keys(key: Array, rows: Int[Array | np.ndarray, " r"]) -> Array:
    """Derive one random stream for each row number, independent of what else is in the batch.

    Args:
      key: of the batch.
      rows: `[r]` numbers of the rows.

    Returns:
      A key array `[r]`.
    """
    return jax.vmap(lambda row: jax.random.fold_in(key, row))(rows)


def cut_at_stop(done: Completions, stop: StopRule | None) -> Completions:
    """Cut completions where `stop` says, and leave the others as they are.

    Args:
      done: NumPy arrays.
      stop: names the length at which a completion ends, or None; without a rule nothing is cut.

    Returns:
      Completions whose cut rows count as ended.
    """
    if stop is None:
        return done
    lengths = [stop(tokens[:length], 0) for tokens, length in zip(done.tokens, done.length, strict=True)]
    is_cut = np.array([length is not None for length in lengths])
    length = np.where(is_cut, [length or 0 for length in lengths], done.length).astype(done.length.dtype)
    kept = np.arange(done.tokens.shape[1]) < length[:, None]
    parts = (np.where(kept, done.tokens, 0), np.where(kept, done.log_prob, 0), length, done.has_ended | is_cut)
    return Completions(*typing.cast("tuple[Array, Array, Array, Array]", parts))


def empty_completions(rows: int, steps: int) -> Completions:
    """Return completions without any token yet.

    Args:
      rows: number of completions.
      steps: tokens that each has room for.
    """
    return Completions(
        tokens=jnp.zeros((rows, steps), jnp.int32),
        log_prob=jnp.zeros((rows, steps), jnp.float32),
        length=jnp.zeros(rows, jnp.int32),
        has_ended=jnp.zeros(rows, bool),
    )


def uniform_numbers(keys: Array, steps: Int[Array, " r"]) -> Float[Array, " r"]:
    """Draw the `steps`-th number, uniform in [0, 1), of each row's own stream.

    Args:
      keys: `[r]` random keys of the rows.
      steps: `[r]` how many tokens each row has sampled before.
    """
    return jax.vmap(jax.random.uniform)(jax.vmap(jax.random.fold_in)(keys, steps))


def sample_tokens(
    number: Float[Array, " r"], scores: Float[Array, "r v"]
) -> tuple[Int[Array, " r"], Float[Array, " r"]]:
    """Draw one token a row by a uniform number.

    The number picks a run of tokens by its share of the whole, and what is left of it picks a token of the run: one
    random number a row and two short sums, where noise for every token of the vocabulary costs six times as much.

    Args:
      number: `[r]`, from `uniform_numbers`.
      scores: `[r, v]` logits, divided by the temperature already.

    Returns:
      The tokens `[r]` and their log-probabilities `[r]`.
    """
    relative = scores - scores.max(axis=-1, keepdims=True)
    runs = jnp.pad(jnp.exp(relative), ((0, 0), (0, -scores.shape[-1] % RUN))).reshape(len(scores), -1, RUN)
    shares = runs.sum(axis=-1)
    total = shares.sum(axis=-1)
    run, left = _picked(shares, number * total)
    within, _ = _picked(jnp.take_along_axis(runs, run[:, None, None], axis=1)[:, 0], left)
    token = run * RUN + within
    log_weight = jnp.take_along_axis(relative, token[:, None], axis=-1)[:, 0]
    return token.astype(jnp.int32), log_weight - jnp.log(total)


def _picked(weights: Float[Array, "r n"], number: Float[Array, " r"]) -> tuple[Int[Array, " r"], Float[Array, " r"]]:
    """Find the first column up to which weights sum to more than `number`, and how much of `number` that column has.

    Never a column without weight: where rounding asks for more than there is, the last one that has any.
    """
    until = jnp.cumsum(weights, axis=-1)
    last = jnp.max(jnp.where(weights > 0, jnp.arange(weights.shape[-1]), 0), axis=-1)
    column = jnp.minimum((until <= number[:, None]).sum(axis=-1), last)
    return column, number - jnp.take_along_axis(until - weights, column[:, None], axis=-1)[:, 0]


def is_live(done: Completions) -> Bool[Array, " r"]:
    """Say which completions have neither ended nor filled their room."""
    return ~done.has_ended & (done.length < done.tokens.shape[1])


def append_tokens(
    done: Completions, token: Array, log_prob: Array, *, end_token: int, column: Int[Array, ""] | None = None
) -> Completions:
    """Append one token to each live row; the others stay as they are.

    Args:
      done: the completions so far.
      token: `[r]` token ids.
      log_prob: `[r]` their log-probabilities.
      end_token: the id that ends a completion.
      column: the length of the live rows where all have the same; None where they differ.
    """
    live = is_live(done)
    if column is None:
        # Rows that are not live write past the last column, where updates are dropped.
        at = jnp.arange(len(live)), jnp.where(live, done.length, done.tokens.shape[1])
        tokens = done.tokens.at[at].set(token, mode="drop")
        log_probs = done.log_prob.at[at].set(log_prob, mode="drop")
    else:
        # No scatter: over rows on several devices it would gather from all of them at every step.
        tokens, log_probs = (
            jax.lax.dynamic_update_slice_in_dim(old, jnp.where(live, new, 0)[:, None], column, axis=1)
            for old, new in ((done.tokens, token), (done.log_prob, log_prob))
        )
    has_ended = done.has_ended | (live & (token == end_token))
    return Completions(tokens, log_probs, done.length + live, has_ended)


def _prefill(
    params: decoder.Params,
    settings: Network,
    prompts: Int[Array | np.ndarray, "b p"],
    mask: Bool[Array | np.ndarray, "b p"],
) -> tuple[Float[Array, "b v"], token_step.SharedPrefix]:
    """Run each prompt once: return the scores of its next token, and the cache that its samples share."""
    b, width = prompts.shape
    positions = jnp.where(mask, jnp.cumsum(mask, axis=1) - 1, -1)
    hidden, kept = decoder.hidden_states(
        params, settings, tokens=prompts, positions=jnp.maximum(positions, 0), segments=mask.astype(jnp.int32)
    )
    last = width - 1 - jnp.argmax(mask[:, ::-1], axis=1)
    logits = decoder.logits(params, hidden[jnp.arange(b), last])
    past = tuple(KeyValue(kept.key[layer], kept.value[layer]) for layer in range(settings.layers))
    return logits, token_step.SharedPrefix(past, positions)
