"""Continuous batching: rollouts wait for slots, run in blocks of tokens inside one jit, and are handed out as they end.

The host's part of generation. It decides which rollout goes into which slot and nothing about what is sampled: a
rollout's tokens follow from the weights, its prompt and its key. Prompts are run once for all their samples, padded to
one of a few widths.
"""

import dataclasses
import typing
from collections.abc import Callable, Iterable, Iterator

import jax
import numpy as np

from optimrl_jax.distributed import sampling_sharding
from optimrl_jax.model import decoder
from optimrl_jax.model.generation import sampling, token_step
from optimrl_jax.model.generation import slots as slots_lib
from optimrl_jax.settings import Network

# Prompt widths are the longest one and its halves: each costs a compilation.
WIDTHS = 4


class SampleRequest(typing.NamedTuple):
    """A prompt to sample from.

    Attributes:
      prompt: int32`[p]` token ids, at least one.
      keys: key array `[r]`, the random key of each of its rollouts.
    """

    prompt: np.ndarray
    keys: jax.Array


class FinishedRollout(typing.NamedTuple):
    """One finished completion, without padding.

    Attributes:
      request: number of the request, from 0.
      sample: number of the rollout within it, from 0.
      tokens: int32`[t]` token ids, the end token included.
      log_prob: float32`[t]` log-probability of each at the sampling temperature.
      has_ended: False where the completion filled its room without ending.
    """

    request: int
    sample: int
    tokens: np.ndarray
    log_prob: np.ndarray
    has_ended: bool


@dataclasses.dataclass(frozen=True)
class SlotPlan:
    """The static shapes of decoding.

    Attributes:
      slots: rollouts that decode side by side.
      prompt_tokens: tokens of the longest prompt.
      steps: tokens of a completion, at most.
      block: tokens sampled in each slot, at most, between two looks at the slots.
    """

    slots: int
    prompt_tokens: int
    steps: int
    block: int = 32


@dataclasses.dataclass
class _SlotOwner:
    """What a slot holds, and how many of its tokens were looked through for stop strings."""

    request: int
    sample: int
    checked: int = 0


def stream_rollouts(
    params: decoder.Params,
    settings: Network,
    requests: Iterable[SampleRequest],
    *,
    plan: SlotPlan,
    temperature: float,
    end_token: int,
    stop: sampling.StopRule | None = None,
    place: Callable[[slots_lib.Slots], slots_lib.Slots] = lambda slots: slots,
) -> Iterator[FinishedRollout]:
    """Yield all rollouts of all requests, in the order in which they end.

    Args:
      params: the weights.
      settings: shape of the decoder.
      requests: taken as slots become free, so that the iterable may be endless.
      plan: static shapes.
      temperature: of sampling.
      end_token: the id that ends a completion.
      stop: `stop(tokens, checked)` names the length, greater than `checked`, at which a completion ends for another
        reason than its end token, or None; the completion is cut there.
      place: puts the empty slots, rows first, where they are to stay: on one device, or split over several.

    Raises:
      ValueError: for a prompt that is empty or longer than `plan.prompt_tokens`.
    """
    waiting = _Waiting(params, settings, requests, plan=plan)
    decoding = jax.jit(token_step.unstack_layers, static_argnums=1)(params, settings)
    held: list[_SlotOwner | None] = [None] * plan.slots
    finished: list[tuple[int, FinishedRollout]] = []
    slots = None
    while waiting.has_more() or any(held):
        if slots is None:
            empty = slots_lib.empty_slots(
                settings, keys=waiting.keys, slots=plan.slots, prompt_tokens=plan.prompt_tokens, steps=plan.steps
            )
            slots = place(empty)
        slots = waiting.fill(slots, held)
        with sampling_sharding.on_accelerators(params, rows=plan.slots):
            slots, progress = slots_lib.advance_slots(
                slots,
                decoding,
                settings,
                temperature=temperature,
                waits=waiting.has_more(),
                end_token=end_token,
                block=plan.block,
            )
        # Handed out while the block runs: what the caller does with them costs the device no time.
        yield from (rollout for _, rollout in finished)
        finished = list(_ended(slots.done, progress, held, stop=stop))
        is_over = np.zeros(plan.slots, bool)
        for slot, _ in finished:
            held[slot], is_over[slot] = None, True
        if stop is not None:
            slots = slots_lib.release_slots(slots, is_over)
    yield from (rollout for _, rollout in finished)


def gather_completions(
    finished: Iterable[FinishedRollout], *, samples: int, rows: int, steps: int
) -> sampling.Completions:
    """Put finished rollouts in the order of rows, as `sampling.generate` returns them.

    Args:
      finished: rollouts in any order.
      samples: rollouts of each request.
      rows: rollouts in all.
      steps: tokens of a completion, at most.

    Returns:
      NumPy arrays of `rows` rows; a row without its rollout stays empty.
    """
    done = jax.tree.map(np.array, sampling.empty_completions(rows, steps))
    for rollout in finished:
        row, length = rollout.request * samples + rollout.sample, len(rollout.tokens)
        done.tokens[row, :length], done.log_prob[row, :length] = rollout.tokens, rollout.log_prob
        done.length[row], done.has_ended[row] = length, rollout.has_ended
    return done


def prompt_widths(prompt_tokens: int) -> list[int]:
    """Return the widths that prompts are padded to, rising: the longest prompt and its halves."""
    return sorted({-(-prompt_tokens // 2**n) for n in range(WIDTHS)})


def _ended(
    done: sampling.Completions,
    progress: slots_lib.Progress,
    held: list[_SlotOwner | None],
    *,
    stop: sampling.StopRule | None,
) -> Iterator[tuple[int, FinishedRollout]]:
    """Yield the slots whose rollouts are over, by themselves or by `stop`, with those rollouts."""
    lengths, has_ended, live = (np.array(part) for part in progress)
    for slot, owner in enumerate(held):
        if owner is None or (live[slot] and stop is None):
            continue
        length, ended = int(lengths[slot]), bool(has_ended[slot])
        tokens, log_prob = (np.array(part) for part in slots_lib.completion_in_slot(done, slot))
        end = stop(tokens[:length], owner.checked) if stop is not None else None
        owner.checked = length
        if end is not None:
            length, ended = end, True
        if end is not None or not live[slot]:
            yield slot, FinishedRollout(owner.request, owner.sample, tokens[:length], log_prob[:length], ended)


class _Waiting:
    """The rollouts that have no slot yet: the rest of the current request, and the requests after it."""

    def __init__(
        self, params: decoder.Params, settings: Network, requests: Iterable[SampleRequest], *, plan: SlotPlan
    ) -> None:
        self._params = params
        self._settings = settings
        self._plan = plan
        self._widths = prompt_widths(plan.prompt_tokens)
        self._requests = enumerate(requests)
        self._left: list[int] = []
        self._next()

    @property
    def keys(self) -> jax.Array:
        return self._request.keys

    def has_more(self) -> bool:
        return bool(self._left)

    def fill(self, slots: slots_lib.Slots, held: list[_SlotOwner | None]) -> slots_lib.Slots:
        """Put waiting rollouts into the free slots, first come, first served."""
        free = [slot for slot, owner in enumerate(held) if owner is None]
        while free and self._left:
            if self._prefilled is None:
                self._prefilled = self._prefill()
            count = min(len(free), len(self._left))
            targets, samples = free[:count], self._left[:count]
            free, self._left = free[count:], self._left[count:]
            padding = [0] * (self._plan.slots - count)
            slots = slots_lib.fill_slots(
                slots,
                self._prefilled,
                keys=self._request.keys,
                targets=np.array(targets + padding, np.int32),
                samples=np.array(samples + padding, np.int32),
                count=np.int32(count),
            )
            for slot, sample in zip(targets, samples, strict=True):
                held[slot] = _SlotOwner(self._index, sample)
            if not self._left:
                self._next()
        return slots

    def _next(self) -> None:
        """Take up the next request that has rollouts, where there is one."""
        self._prefilled = None
        for index, request in self._requests:
            if len(request.keys):
                self._index, self._request, self._left = index, request, list(range(len(request.keys)))
                return

    def _prefill(self) -> slots_lib.Prefilled:
        prompt = self._request.prompt
        if not 1 <= len(prompt) <= self._plan.prompt_tokens:
            raise ValueError(
                f"prompt of request {self._index}: {len(prompt)} tokens, expected 1 to {self._plan.prompt_tokens}"
            )
        width = next(width for width in self._widths if width >= len(prompt))
        padded = np.pad(prompt.astype(np.int32), (0, width - len(prompt)))
        with sampling_sharding.on_accelerators(self._params, rows=1):
            return slots_lib.prefill_prompt(self._params, self._settings, prompt=padded, length=np.int32(len(prompt)))
