"""Edge: asks an OpenAI-compatible endpoint for chat completions: at a bounded rate, with bounded retries."""

import dataclasses
import threading
import time

import httpx

from optimrl_jax.jobs.errors import UserError

# The request itself cannot be answered, as a prompt longer than the model's context; others may be.
REFUSED_STATUS = (400, 413, 422)
RETRIED_STATUS = (408, 409, 425, 429, 500, 502, 503, 504)
LONGEST_PAUSE_S = 60.0
LONGEST_DETAIL = 200


class GarbledAnswerError(ValueError):
    """The endpoint answered, but not with a completion."""

    outcome = "garbage"


class RefusedRequestError(ValueError):
    """The endpoint will never answer this request; it may well answer others."""

    outcome = "refused"


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where to ask for completions, and how.

    Attributes:
      url: address up to `/v1`.
      model: name of the model.
      key: bearer token; empty for none.
      temperature: of sampling.
      max_tokens: length of a completion at most.
      retries: of a request that fails for a while.
      interval_s: time between the starts of two requests, seconds.
      pause_s: pause before the first retry, seconds; doubled from retry to retry unless the endpoint names one.
      timeout_s: limit of each network operation of a request, seconds.
    """

    url: str
    model: str
    key: str = ""
    temperature: float = 1.0
    max_tokens: int = 2048
    retries: int = 5
    interval_s: float = 0.0
    pause_s: float = 1.0
    timeout_s: float = 300.0


class ChatClient:
    """An HTTP client with one rate limit for all its callers; safe to use from several threads."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
        self._client = httpx.Client(timeout=endpoint.timeout_s, headers=headers)
        self._lock = threading.Lock()
        self._next_start = 0.0

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def complete(self, prompt: str, *, seed: int) -> str:
        """Ask for one completion, again and again if need be, and return its text.

        Args:
          prompt: the only message of the conversation.
          seed: passed on to the endpoint, which may ignore it.

        Raises:
          GarbledAnswerError: the last answer was no completion.
          RefusedRequestError: this one request cannot be answered.
          UserError: the endpoint rejects every request, stays overloaded or cannot be reached. A caller then stops, and
            goes on later from what it stored.
        """
        failure: Exception | None = None
        for attempt in range(self._endpoint.retries + 1):
            self._wait_for_turn()
            try:
                return self._asked(prompt, seed=seed)
            except (GarbledAnswerError, _Retry) as error:
                failure = error
            if attempt < self._endpoint.retries:
                time.sleep(self._pause_s(attempt, failure))
        if isinstance(failure, GarbledAnswerError):
            raise failure
        raise UserError(f"--endpoint = {self._endpoint.url!r}: expected an answer, got {failure}")

    def _asked(self, prompt: str, *, seed: int) -> str:
        question = {
            "model": self._endpoint.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": self._endpoint.temperature,
            "max_tokens": self._endpoint.max_tokens,
            "seed": seed,
        }
        try:
            answer = self._client.post(f"{self._endpoint.url.rstrip('/')}/chat/completions", json=question)
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise UserError(f"--endpoint = {self._endpoint.url!r}: expected an http address ({error})") from None
        except httpx.TransportError as error:
            raise _Retry(type(error).__name__) from None
        if answer.status_code in RETRIED_STATUS:
            raise _Retry(f"status {answer.status_code}", answer.headers.get("retry-after", ""))
        if answer.status_code in REFUSED_STATUS:
            raise RefusedRequestError(f"status {answer.status_code}: {answer.text[:LONGEST_DETAIL]}")
        if answer.status_code != 200:
            raise UserError(f"--endpoint = {self._endpoint.url!r}: expected status 200, got {answer.status_code}")
        return _text(answer)

    def _wait_for_turn(self) -> None:
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next_start)
            self._next_start = start + self._endpoint.interval_s
        # Outside the lock, so that the next caller can book its turn meanwhile.
        time.sleep(start - now)

    def _pause_s(self, attempt: int, failure: Exception) -> float:
        asked = getattr(failure, "pause_s", None)
        return min(LONGEST_PAUSE_S, self._endpoint.pause_s * 2**attempt if asked is None else asked)


class _Retry(RuntimeError):
    """A failure that may pass; `pause_s` is how long the endpoint asks to wait, None where it does not say."""

    def __init__(self, message: str, retry_after: str = "") -> None:
        super().__init__(message)
        try:
            self.pause_s: float | None = max(0.0, float(retry_after))
        except ValueError:
            self.pause_s = None


def _text(answer: httpx.Response) -> str:
    try:
        content = answer.json()["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        raise GarbledAnswerError("answer without choices[0].message.content") from None
    if not isinstance(content, str):
        raise GarbledAnswerError(f"content of type {type(content).__name__}")
    return content
