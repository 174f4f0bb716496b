"""Samples completions: shared prefill of the prompts, then one token a step until every row has ended.

Shapes are fixed by the caller (prompts padded to one length, a fixed number of samples and steps), so that one compiled
program serves a whole run; the loop stops early when all rows have ended. Each row draws from its own random stream:
what it samples does not depend on its neighbours in the batch.
"""

import functools
import typing

import jax
import jax.numpy as jnp
import numpy as np

from optimrl_jax.model import decoder
from optimrl_jax.model.cache import KeyValue
from optimrl_jax.settings import ModelSettings

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int

# Neighbouring tokens of the vocabulary whose probabilities are summed before one of them is drawn.
RUN = 64

# Of tokens and a length up to which they were looked at: the greater length at which they end by their text, or None.
Stop = typing.Callable[[np.ndarray, int], int | None]


class Completions(typing.NamedTuple):
    """Sampled tokens, right-padded; `length` counts the end token where `has_ended`.

    `log_prob` is the log-probability of each sampled token at the sampling temperature, 0 in the padding.
    """

    tokens: "Int[Array, 'r t']"
    log_prob: "Float[Array, 'r t']"
    length: "Int[Array, 'r']"
    has_ended: "Bool[Array, 'r']"


class _State(typing.NamedTuple):
    step: "Int[Array, '']"
    logits: "Float[Array, 'r v']"
    past: tuple[KeyValue, ...]
    key_positions: "Int[Array, 'r u']"
    done: Completions


@functools.partial(jax.jit, static_argnames=("settings", "samples", "steps", "end_token"))
def generate(
    params: decoder.Params,
    settings: ModelSettings,
    *,
    prompts: "Int[Array, 'b p']",
    prompt_mask: "Bool[Array, 'b p']",
    keys: "Array",
    temperature: "float | Float[Array, '']",
    samples: int,
    steps: int,
    end_token: int,
) -> Completions:
    """`samples` completions of each prompt, at most `steps` tokens each; rows of one prompt are neighbours.

    `prompts` may be padded on either side: `prompt_mask` says which tokens are real, at least one in each row. `keys`
    holds one random key for each of the b * samples rows.
    """
    state = _prefill(params, settings, prompts, prompt_mask, samples=samples, steps=steps)
    lengths = jnp.repeat(prompt_mask.sum(axis=1), samples)
    width = prompts.shape[1]
    own = decoder.unstacked(params, settings)

    def goes_on(state: _State) -> "Bool[Array, '']":
        return (state.step < steps) & ~state.done.has_ended.all()

    def advance(state: _State) -> _State:
        n = state.step
        token, log_prob = draw(keys, jnp.broadcast_to(n, keys.shape), state.logits / temperature)
        done = record(state.done, token, log_prob, end_token=end_token)
        positions = lengths + n
        key_positions = jax.lax.dynamic_update_slice_in_dim(state.key_positions, positions[:, None], width + n, axis=1)
        logits, past = decoder.decode(
            own,
            settings,
            tokens=token,
            positions=positions,
            past=state.past,
            key_positions=key_positions,
            slot=width + n,
        )
        return _State(n + 1, logits, past, key_positions, done)

    return jax.lax.while_loop(goes_on, advance, state).done


def row_keys(key: "Array", rows: "Int[Array, 'r']") -> "Array":
    """One random stream for each row number, whatever else is in the batch."""
    return jax.vmap(lambda row: jax.random.fold_in(key, row))(rows)


def cut(done: Completions, stop: Stop | None) -> Completions:
    """Completions (NumPy) that end where `stop` says; as they are where it says nothing."""
    if stop is None:
        return done
    found = [stop(tokens[:length], 0) for tokens, length in zip(done.tokens, done.length, strict=True)]
    is_cut = np.array([length is not None for length in found])
    length = np.where(is_cut, [length or 0 for length in found], done.length).astype(done.length.dtype)
    kept = np.arange(done.tokens.shape[1]) < length[:, None]
    return Completions(
        np.where(kept, done.tokens, 0), np.where(kept, done.log_prob, 0), length, done.has_ended | is_cut
    )


def begun(rows: int, steps: int) -> Completions:
    """Completions of no token yet, with room for `steps`."""
    return Completions(
        tokens=jnp.zeros((rows, steps), jnp.int32),
        log_prob=jnp.zeros((rows, steps), jnp.float32),
        length=jnp.zeros(rows, jnp.int32),
        has_ended=jnp.zeros(rows, bool),
    )


def draw(
    keys: "Array", steps: "Int[Array, 'r']", scores: "Float[Array, 'r v']"
) -> tuple["Int[Array, 'r']", "Float[Array, 'r']"]:
    """One token a row and its log-probability, by the `steps`-th uniform number of each row's own stream.

    The number picks a run of tokens by its share of the whole, and what is left of it a token of the run: one random
    number a row and two short sums, where noise for every token of the vocabulary costs six times as much.
    """
    number = jax.vmap(jax.random.uniform)(jax.vmap(jax.random.fold_in)(keys, steps))
    relative = scores - scores.max(axis=-1, keepdims=True)
    runs = jnp.pad(jnp.exp(relative), ((0, 0), (0, -scores.shape[-1] % RUN))).reshape(len(scores), -1, RUN)
    shares = runs.sum(axis=-1)
    total = shares.sum(axis=-1)
    run, left = _picked(shares, number * total)
    within, _ = _picked(jnp.take_along_axis(runs, run[:, None, None], axis=1)[:, 0], left)
    token = run * RUN + within
    chosen = jnp.take_along_axis(relative, token[:, None], axis=-1)[:, 0]
    return token.astype(jnp.int32), chosen - jnp.log(total)


def _picked(
    weights: "Float[Array, 'r n']", number: "Float[Array, 'r']"
) -> tuple["Int[Array, 'r']", "Float[Array, 'r']"]:
    """The first column up to which weights sum to more than `number`, and how much of `number` that column has.

    Never a column without weight: where rounding asks for more than there is, the last one that has any.
    """
    until = jnp.cumsum(weights, axis=-1)
    last = jnp.max(jnp.where(weights > 0, jnp.arange(weights.shape[-1]), 0), axis=-1)
    column = jnp.minimum((until <= number[:, None]).sum(axis=-1), last)
    return column, number - jnp.take_along_axis(until - weights, column[:, None], axis=-1)[:, 0]


def is_live(done: Completions) -> "Bool[Array, 'r']":
    """True where a completion has neither ended nor filled its room."""
    return ~done.has_ended & (done.length < done.tokens.shape[1])


def record(done: Completions, token: "Array", log_prob: "Array", *, end_token: int) -> Completions:
    """The completions with one more token in each live row."""
    live = is_live(done)
    # Rows that are not live write past the last column, where updates are dropped.
    at = jnp.arange(len(live)), jnp.where(live, done.length, done.tokens.shape[1])
    return Completions(
        tokens=done.tokens.at[at].set(token, mode="drop"),
        log_prob=done.log_prob.at[at].set(log_prob, mode="drop"),
        length=done.length + live,
        has_ended=done.has_ended | (live & (token == end_token)),
    )


def _prefill(
    params: decoder.Params,
    settings: ModelSettings,
    prompts: "Int[Array, 'b p']",
    mask: "Bool[Array, 'b p']",
    *,
    samples: int,
    steps: int,
) -> _State:
    """Runs each prompt once and repeats its cache for its samples."""
    b, width = prompts.shape
    positions = jnp.where(mask, jnp.cumsum(mask, axis=1) - 1, -1)
    hidden, kept = decoder.hidden_states(
        params, settings, tokens=prompts, positions=jnp.maximum(positions, 0), segments=mask.astype(jnp.int32)
    )
    last = width - 1 - jnp.argmax(mask[:, ::-1], axis=1)
    logits = decoder.logits(params, hidden[jnp.arange(b), last])

    def spread(x: "Float[Array, 'b m p d']") -> "Float[Array, 'r m u d']":
        return jnp.pad(jnp.repeat(x, samples, axis=0), ((0, 0), (0, 0), (0, steps), (0, 0)))

    past = tuple(KeyValue(spread(kept.key[layer]), spread(kept.value[layer])) for layer in range(settings.layers))
    rows = b * samples
    empty = jnp.full((rows, steps), -1, positions.dtype)
    key_positions = jnp.concatenate([jnp.repeat(positions, samples, axis=0), empty], axis=1)
    return _State(jnp.int32(0), jnp.repeat(logits, samples, axis=0), past, key_positions, begun(rows, steps))
