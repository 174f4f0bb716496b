"""Edge: answers questions from many threads in batches of one compiled shape, in the order in which they came."""

import dataclasses
import queue
import threading
from concurrent.futures import Future

import numpy as np
from jax import numpy as jnp

from optimrl_jax import arrays
from optimrl_jax.data import prompts
from optimrl_jax.model.generation import sampling
from optimrl_jax.rollout import actor
from optimrl_jax.settings import DataSettings
from optimrl_jax.training.checkpoints import Policy


@dataclasses.dataclass(frozen=True)
class Question:
    """One completion to sample: prompt token ids, temperature > 0, at most `max_tokens` tokens, a seed."""

    prompt: np.ndarray
    temperature: float
    max_tokens: int
    seed: int


@dataclasses.dataclass(frozen=True)
class Answer:
    """The text of a completion, its length in tokens, and whether it ended by itself or was cut."""

    text: str
    tokens: int
    has_ended: bool


class Batcher:
    """Owns the policy: one thread samples, callers wait for their future.

    What a question is answered depends on its seed alone, never on the questions beside it.
    """

    def __init__(self, policy: Policy, data: DataSettings, *, rows: int) -> None:
        self._policy = policy
        self._data = data
        self._rows = rows
        self._waiting: queue.Queue[tuple[Question, Future[Answer]] | None] = queue.Queue()
        self._put_back: list[tuple[Question, Future[Answer]]] = []
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    def encode(self, text: str) -> np.ndarray:
        """Token ids of a prompt; raises ValueError where it is longer than `data.prompt_tokens`."""
        ids = prompts.encode_prompt(self._policy.tokenizer, text)
        if len(ids) > self._data.prompt_tokens:
            raise ValueError(f"prompt of {len(ids)} tokens: expected at most {self._data.prompt_tokens}")
        return ids

    def ask(self, question: Question) -> "Future[Answer]":
        """The answer, some time later."""
        answer: Future[Answer] = Future()
        self._waiting.put((question, answer))
        return answer

    def close(self) -> None:
        """Answers what was asked, then ends the thread."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next():
            try:
                answers = self._sample([question for question, _ in batch])
            except Exception as error:  # noqa: BLE001 - whatever it was, those who wait must hear of it
                for _, future in batch:
                    future.set_exception(error)
                continue
            for (_, future), answer in zip(batch, answers, strict=True):
                future.set_result(answer)

    def _next(self) -> list[tuple[Question, "Future[Answer]"]]:
        """Questions of one temperature, oldest first, as many as are there and fit; empty at the end."""
        batch = [self._put_back.pop(0)] if self._put_back else [self._waiting.get()]
        if batch[0] is None:
            return []
        others = [*self._put_back, *self._drained()]
        self._put_back = []
        for one in others:
            fits = one and len(batch) < self._rows and one[0].temperature == batch[0][0].temperature
            (batch if fits else self._put_back).append(one)
        return batch

    def _drained(self) -> list:
        found = []
        while not self._waiting.empty():
            found.append(self._waiting.get())
        return found

    def _sample(self, questions: list[Question]) -> list[Answer]:
        sampler = actor.Sampler(self._policy, self._data, questions[0].temperature)
        filled = questions + [questions[-1]] * (self._rows - len(questions))
        keys = jnp.stack([arrays.stream_key(question.seed, "serve") for question in filled])
        found = sampler.complete([question.prompt for question in filled], 1, keys=keys)
        return [self._answer(found, row, question) for row, question in enumerate(questions)]

    def _answer(self, found: sampling.Completions, row: int, question: Question) -> Answer:
        length = min(int(found.length[row]), question.max_tokens)
        text = self._policy.tokenizer.decode(found.tokens[row, :length])
        return Answer(text, length, bool(found.has_ended[row]) and length == int(found.length[row]))
