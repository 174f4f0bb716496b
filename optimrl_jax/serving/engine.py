"""Edge: a policy that many threads ask for completions: slots that are filled as they become free, a block at a time.

One thread owns the weights and the slots; callers get an iterator over the tokens of their own request. A request's
answer follows from the weights, its prompt and its seed, never from the requests beside it. New weights take the place
of the old ones between two blocks: completions that are under way go on under them.
"""

import dataclasses
import logging
import queue
import threading
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from optimrl_jax import arrays
from optimrl_jax.data import chat, prompts
from optimrl_jax.data.tokenizer import Tokenizer
from optimrl_jax.distributed import sampling_sharding
from optimrl_jax.model import decoder
from optimrl_jax.model.generation import continuous, token_step
from optimrl_jax.model.generation import slots as slots_lib
from optimrl_jax.serving import prompt_scores
from optimrl_jax.serving.row_sampling import RowSampling, SampledBlock, sample_block
from optimrl_jax.settings import DataSettings, Network
from optimrl_jax.training.checkpoints import Policy

_LOG = logging.getLogger(__name__)
BLOCK = 4


@dataclasses.dataclass(frozen=True)
class CompletionRequest:
    """One completion to sample.

    Attributes:
      prompt: int32`[p]` token ids.
      seed: of its random stream.
      max_tokens: tokens, at most.
      temperature: 0 takes the likeliest token each time.
      top_p: the mass of the likeliest tokens that are drawn from.
      scores_prompt: score the tokens of the prompt as well.
    """

    prompt: np.ndarray
    seed: int
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    scores_prompt: bool = False


@dataclasses.dataclass(frozen=True)
class SampledToken:
    """One token of a completion, or of a prompt that is scored, with the likeliest alternatives.

    Attributes:
      token: its id.
      log_prob: at the temperature of the request; None for the first token of a prompt, before which there is nothing.
      alternatives: (id, log-probability) of the likeliest tokens, best first.
      is_end: it is the end token.
      version: of the weights under which the completion began.
    """

    token: int
    log_prob: float | None
    alternatives: Sequence[tuple[int, float]]
    is_end: bool
    version: int


class Completion:
    """The tokens of one request: iterate over them as they come.

    A failure of the engine is raised from the iterator.

    Args:
      request: what was asked for.

    Attributes:
      scored_prompt: the tokens of the prompt, known once the first token comes; empty where they are not asked for.
    """

    def __init__(self, request: CompletionRequest) -> None:
        self.request = request
        self.scored_prompt: Sequence[SampledToken] = ()
        self.is_cancelled = False
        self.version = 0
        self.sampled = 0
        self._tokens: queue.SimpleQueue[SampledToken | Exception | None] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[SampledToken]:
        while (token := self._tokens.get()) is not None:
            if isinstance(token, Exception):
                raise token
            yield token

    def put(self, token: SampledToken | Exception | None) -> None:
        """Deliver a token, a failure, or None for the end; called by the engine alone."""
        self._tokens.put(token)

    def cancel(self) -> None:
        """Ask for the slot back at the next block; the remaining tokens are not sampled."""
        self.is_cancelled = True


class Engine:
    """Owns the policy: one thread samples, callers iterate over their completions.

    Args:
      policy: weights, shape and tokenizer.
      data: longest prompt and completion, texts that end a completion.
      rows: completions that are sampled side by side, at least; every device takes equally many.
    """

    def __init__(self, policy: Policy, data: DataSettings, *, rows: int) -> None:
        self.tokenizer: Tokenizer = policy.tokenizer
        self.data = data
        self._network = policy.settings
        self._params = policy.params
        self._unstacked: decoder.Params | None = None
        self._rows = sampling_sharding.even_rows(policy.params, rows)
        self._version = 0
        self._owners: list[Completion | None] = [None] * self._rows
        self._inbox: queue.SimpleQueue[Completion | tuple[decoder.Params, int] | None] = queue.SimpleQueue()
        self._waiting: list[Completion] = []
        self._slots: slots_lib.Slots | None = None
        self._widths = continuous.prompt_widths(data.prompt_tokens)
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def network(self) -> Network:
        """Shape of the policy, which new weights have to fit."""
        return self._network

    @property
    def version(self) -> int:
        """Version of the weights that the next completion begins under."""
        return self._version

    def encode_messages(self, messages: Sequence[chat.Message]) -> np.ndarray:
        """Encode a conversation as a prompt: in the model's own template, or else its texts and the program marker.

        Args:
          messages: with `role` and `content`, in order.

        Returns:
          int32`[p]` token ids.

        Raises:
          ValueError: where it is longer than `data.prompt_tokens`, or the template refuses it.
        """
        if self.tokenizer.template:
            return self.require_room(self.tokenizer.encode(self.tokenizer.template.render(messages, asks=True)))
        texts = "\n\n".join(message["content"] for message in messages)
        return self.require_room(prompts.encode_prompt(self.tokenizer, texts))

    def require_room(self, prompt: np.ndarray) -> np.ndarray:
        """Return the prompt unchanged where it can be answered.

        Args:
          prompt: int32`[p]` token ids.

        Raises:
          ValueError: where it is empty, too long, or holds an id that is no token.
        """
        if not 1 <= len(prompt) <= self.data.prompt_tokens:
            raise ValueError(f"prompt of {len(prompt)} tokens: expected 1 to {self.data.prompt_tokens}")
        if not 0 <= prompt.min() <= prompt.max() < self._network.vocabulary:
            raise ValueError(f"prompt: expected token ids from 0 to {self._network.vocabulary - 1}")
        return prompt

    def submit(self, request: CompletionRequest) -> Completion:
        """Queue a request and return its completion at once; safe to call from any thread.

        Args:
          request: with a prompt that `require_room` accepts.
        """
        completion = Completion(request)
        self._inbox.put(completion)
        return completion

    def update_weights(self, params: decoder.Params, version: int) -> None:
        """Replace the weights before the next block; safe to call from any thread.

        Args:
          params: of the same shape.
          version: what completions that begin from then on report.
        """
        self._inbox.put((params, version))

    def close(self) -> None:
        """Finish the requests that were submitted, then end the thread."""
        self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        is_open = True
        while is_open or self._waiting or any(self._owners):
            is_open &= self._read_inbox(waits=is_open and not self._waiting and not any(self._owners))
            try:
                self._fill_slots()
                if any(self._owners):
                    self._sample()
            except Exception as error:  # noqa: BLE001 - whatever it was, those who wait must hear of it
                _LOG.warning("a block of tokens failed: %s", error)
                self._fail(error)

    def _read_inbox(self, *, waits: bool) -> bool:
        """Take what callers sent; return False once the engine is closed."""
        while waits or not self._inbox.empty():
            waits = False
            match self._inbox.get():
                case None:
                    return False
                case Completion() as completion:
                    self._waiting.append(completion)
                case (params, version):
                    self._params, self._unstacked, self._version = params, None, version
        return True

    def _fail(self, error: Exception) -> None:
        for completion in [*self._owners, *self._waiting]:
            if completion:
                completion.put(error)
        self._owners[:], self._waiting, self._slots = [None] * self._rows, [], None

    def _fill_slots(self) -> None:
        """Start waiting completions in free slots, first come, first served."""
        while self._waiting and None in self._owners:
            completion = self._waiting.pop(0)
            if completion.is_cancelled:
                completion.put(None)
                continue
            slot = self._owners.index(None)
            self._owners[slot] = completion
            completion.version = self._version
            if completion.request.scores_prompt:
                completion.scored_prompt = self._score_prompt(completion)
            self._start(completion.request, slot)

    def _start(self, request: CompletionRequest, slot: int) -> None:
        keys = arrays.stream_key(request.seed, "serve")[None]
        if self._slots is None:
            empty = slots_lib.empty_slots(
                self._network, keys=keys, slots=self._rows,
                prompt_tokens=self.data.prompt_tokens, steps=self.data.completion_tokens,
            )  # fmt: skip
            self._slots = sampling_sharding.shard_rows(self._params, empty)
        with sampling_sharding.on_accelerators(self._params, rows=1):
            prompt = slots_lib.prefill_prompt(
                self._params, self._network, prompt=self._padded(request.prompt), length=np.int32(len(request.prompt))
            )
        targets = np.full(self._rows, slot, np.int32)
        first = np.zeros(self._rows, np.int32)
        self._slots = slots_lib.fill_slots(
            self._slots, prompt, keys=keys, targets=targets, samples=first, count=np.int32(1)
        )

    def _score_prompt(self, completion: Completion) -> Sequence[SampledToken]:
        prompt, version = completion.request.prompt, completion.version
        scored = [SampledToken(int(prompt[0]), None, (), False, version)]
        if len(prompt) == 1:
            return scored
        temperature = np.float32(completion.request.temperature)
        with sampling_sharding.on_accelerators(self._params, rows=1):
            found = prompt_scores.score_prompt(
                self._params, self._network, prompt=self._padded(prompt), temperature=temperature
            )
        # The scores of padding come last, and no token asks for them.
        for token, log_prob, ids, log_probs in zip(prompt[1:], *map(np.asarray, found), strict=False):
            near = tuple(zip(ids.tolist(), log_probs.tolist(), strict=True))
            scored.append(SampledToken(int(token), float(log_prob), near, False, version))
        return scored

    def _padded(self, prompt: np.ndarray) -> np.ndarray:
        """Pad a prompt on the right to one of a few widths, each of which is compiled once."""
        width = next(width for width in self._widths if width >= len(prompt))
        return np.pad(prompt.astype(np.int32), (0, width - len(prompt)))

    def _sample(self) -> None:
        if self._unstacked is None:
            self._unstacked = jax.jit(token_step.unstack_layers, static_argnums=1)(self._params, self._network)
        requests = [owner.request if owner else None for owner in self._owners]
        rows = RowSampling(
            jnp.array([request.temperature if request else 1.0 for request in requests], jnp.float32),
            jnp.array([request.top_p if request else 1.0 for request in requests], jnp.float32),
        )
        with sampling_sharding.on_accelerators(self._params, rows=self._rows):
            self._slots, block = sample_block(
                self._slots, self._unstacked, self._network, rows, end_token=self.tokenizer.end, block=BLOCK
            )
        self._hand_out(jax.tree.map(np.asarray, block))

    def _hand_out(self, block: SampledBlock) -> None:
        """Give each completion its tokens; free the slots of those that are over."""
        is_over = np.zeros(self._rows, bool)
        for slot, completion in enumerate(self._owners):
            if completion is None:
                continue
            is_over[slot] = self._hand_out_row(block, slot, completion)
            if is_over[slot]:
                completion.put(None)
                self._owners[slot] = None
        if is_over.any():
            self._slots = slots_lib.release_slots(self._slots, is_over)

    def _hand_out_row(self, block: SampledBlock, slot: int, completion: Completion) -> bool:
        """Give a completion its tokens of a block; return whether it is over."""
        for n in np.flatnonzero(block.is_sampled[:, slot]):
            token = int(block.token[n, slot])
            near = zip(block.alternatives[n, slot].tolist(), block.alternative_log_prob[n, slot].tolist(), strict=True)
            is_end = token == self.tokenizer.end
            completion.sampled += 1
            completion.put(SampledToken(token, float(block.log_prob[n, slot]), tuple(near), is_end, completion.version))
            if is_end or completion.sampled >= completion.request.max_tokens:
                return True
        return completion.is_cancelled or completion.sampled >= self.data.completion_tokens
