"""Edge: asks an OpenAI-compatible server for completions, patiently, and keeps every answer.

Used where a policy to evaluate, or the model that compares two programs, lives behind a server. An answer is stored as
soon as it comes, under the hash of its question and of whom it was put to, so that a job that was killed asks only for
what is missing. Weights that change behind one name cannot be seen from here: the log says how much was stored before.
"""

import concurrent.futures
import dataclasses
import hashlib
import json
import logging
import pathlib
import threading
import time
import typing
from collections.abc import Callable, Sequence

import httpx

from optimrl_jax.jobs.errors import UserError

_LOG = logging.getLogger(__name__)
RETRIED = {408, 409, 425, 429, 500, 502, 503, 504}
LONGEST_PAUSE_S = 60.0
Found = typing.TypeVar("Found")


class RefusedError(UserError):
    """A server refuses a request, and would again."""


@dataclasses.dataclass(frozen=True)
class Question:
    """One completion to ask for.

    Attributes:
      text: what the user says.
      number: tells questions of equal text apart.
      temperature: of sampling.
      tokens: length of the answer, at most.
      seed: of the job; another one asks for other answers.
      system: what the model is told before; empty: nothing.
    """

    text: str
    number: int = 0
    temperature: float = 1.0
    tokens: int = 4096
    seed: int = 0
    system: str = ""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the server said.

    Attributes:
      text: the completion.
      tokens: its length; -1 where the server does not tell.
      is_cut: it was cut at the limit of the question.
    """

    text: str
    tokens: int = -1
    is_cut: bool = False


class AnswerStore:
    """The answers by question, in a JSON Lines file that only grows; a line cut by a kill is dropped.

    Args:
      path: of the file, made with the first answer.
      asked: who answers; the answers of another one are none.

    Attributes:
      path: of the file.
    """

    def __init__(self, path: pathlib.Path, *, asked: str) -> None:
        self.path, self._asked, self._lock = path, asked, threading.Lock()
        self._answers: dict[str, Answer] = {}
        whole = []
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                row = json.loads(line)
                self._answers[row["question"]] = Answer(**row["answer"])
                whole.append(line)
            except (ValueError, KeyError, TypeError):
                continue
        if path.exists():
            path.write_text("".join(f"{line}\n" for line in whole))

    def get(self, question: Question) -> Answer | None:
        """Look up the answer to exactly this question; None where there is none yet."""
        return self._answers.get(self._key(question))

    def put(self, question: Question, answer: Answer) -> None:
        """Write an answer to disk, then make it available; safe to call from several threads."""
        key = self._key(question)
        line = json.dumps({"question": key, "answer": dataclasses.asdict(answer)})
        with self._lock, self.path.open("a") as file:
            file.write(f"{line}\n")
            self._answers[key] = answer

    def _key(self, question: Question) -> str:
        return hashlib.sha256(json.dumps([self._asked, *dataclasses.astuple(question)]).encode()).hexdigest()


class PolicyEndpoint:
    """A model behind `POST {url}/chat/completions`.

    Args:
      url: base address, such as http://127.0.0.1:8080/v1.
      model: name that requests give.
      store: file of answers.
      asked: what the model is known by among stored answers; empty: its address and name.
      key: bearer token; empty: none.
      requests: number of requests in flight at the same time.
      attempts: tries of one question, with growing pauses, before the job gives up.
      timeout_s: seconds of one try, at most.
      sleep: waits that many seconds.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        store: pathlib.Path,
        asked: str = "",
        key: str = "",
        requests: int = 8,
        attempts: int = 6,
        timeout_s: float = 600.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=timeout_s)
        self._model, self._requests, self._attempts, self._sleep = model, requests, attempts, sleep
        self._store = AnswerStore(store, asked=asked or f"{url.rstrip('/')}#{model}")

    def ask(
        self, questions: Sequence[Question], *, on_answer: Callable[[int], None] = lambda done: None
    ) -> list[Answer]:
        """Answer every question, in order; stored answers are not asked for again.

        Args:
          questions: distinct ones; give equal texts different numbers.
          on_answer: called with the number of answers so far, from several threads.

        Raises:
          UserError: where the server refuses a question or fails at every attempt.
        """
        done = [0]
        if stored := sum(self._store.get(question) is not None for question in questions):
            _LOG.info("%d of %d answers were given before: %s", stored, len(questions), self._store.path)

        def answer(question: Question) -> Answer:
            found = self._store.get(question)
            if found is None:
                found = self._request(question)
                self._store.put(question, found)
            done[0] += 1
            on_answer(done[0])
            return found

        with concurrent.futures.ThreadPoolExecutor(self._requests) as pool:
            return list(pool.map(answer, questions))

    def has_chat_template(self) -> bool:
        """Say whether the model takes instructions: it does, unless the server's list of models says otherwise.

        `python -m optimrl_jax.serve` says of a policy without a template that it reads a statement alone. A server that
        has no such list says nothing.

        Raises:
          UserError: where the server does not answer: how it wants to be asked is not to be guessed.
        """
        try:
            listed = self._patiently("GET", "/models", _models_of)
        except RefusedError:
            return True
        return all(model.get("has_chat_template", True) for model in listed if model.get("id") == self._model)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _request(self, question: Question) -> Answer:
        told = [{"role": "system", "content": question.system}] if question.system else []
        body = {
            "model": self._model,
            "messages": [*told, {"role": "user", "content": question.text}],
            "temperature": question.temperature,
            "max_tokens": question.tokens,
        }
        return self._patiently("POST", "/chat/completions", _answer_of, body=body)

    def _patiently(
        self, method: str, path: str, read: Callable[[httpx.Response], Found], *, body: dict | None = None
    ) -> Found:
        """Send a request until it is answered, and read the answer; raise RefusedError where it never will be."""
        reason, failure = "", UserError
        for attempt in range(self._attempts):
            if attempt:
                self._sleep(min(LONGEST_PAUSE_S, 2.0**attempt / 2))
            try:
                response = self._client.request(method, path, json=body)
                if response.status_code == 200:
                    return read(response)
                reason = f"status {response.status_code}: {response.text[:200]}"
                if response.status_code not in RETRIED:
                    failure = RefusedError
                    break
                self._pause(response)
            except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError) as error:
                reason = f"{type(error).__name__}: {error}"
        raise failure(f"{self._client.base_url}: expected completions of {self._model!r} ({reason})")

    def _pause(self, response: httpx.Response) -> None:
        """Wait as long as a server that limits its rate asks for, up to a minute."""
        wish = response.headers.get("retry-after", "")
        if wish.replace(".", "", 1).isdigit():
            self._sleep(min(LONGEST_PAUSE_S, float(wish)))


def _models_of(response: httpx.Response) -> list[dict]:
    try:
        listed = response.json()["data"]
    except (ValueError, KeyError, TypeError):
        return []
    return [model for model in listed or () if isinstance(model, dict)]


def _answer_of(response: httpx.Response) -> Answer:
    body = response.json()
    choice = body["choices"][0]
    tokens = (body.get("usage") or {}).get("completion_tokens", -1)
    return Answer(choice["message"]["content"] or "", int(tokens), choice.get("finish_reason") == "length")
