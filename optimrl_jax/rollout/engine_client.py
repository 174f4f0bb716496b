"""Edge: rollouts from an engine elsewhere: a server of the OpenAI protocol that returns token ids and probabilities.

Stands where the sampler of `rollout.actor` stands. Our own `serve`, vLLM and SGLang answer `/v1/completions` for
prompts of token ids with `return_token_ids` and `logprobs`; nothing is tokenized twice, so that the sampled ids are the
trained ids. New weights reach the engine by a hook, `push_weights` for our own server: `engine.push` names another one
as `module:function`. It gets the address, the shape of the decoder, the parameters and their version, and returns once
the engine samples with them.
"""

import concurrent.futures
import functools
import importlib
import itertools
import os
import time
import typing
from collections.abc import Callable, Sequence

import httpx
import jax
import numpy as np
import safetensors.numpy

from optimrl_jax.data import prompts
from optimrl_jax.data.tokenizer import Tokenizer
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model import decoder
from optimrl_jax.model.generation import sampling
from optimrl_jax.model.pretrained.hugging_face import named_tensors
from optimrl_jax.settings import DataSettings, EngineSettings, Network

KEY_VARIABLE = "OPTIMRL_ENGINE_KEY"
ATTEMPTS = 5
FIRST_PAUSE_S = 0.5
# Status codes after which another attempt may succeed.
PASSING = (408, 409, 425, 429, 500, 502, 503, 504)

Push = Callable[[str, Network, decoder.Params, int], None]


def push_hook(name: str) -> Push | None:
    """Resolve the hook that a setting names as `module:function`; return None for an empty name.

    Raises:
      UserError: if the module cannot be imported or has no such attribute.
    """
    if not name:
        return None
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError):
        raise UserError(f"engine.push = {name!r}: expected module:function of something importable") from None


def push_weights(url: str, network: Network, params: decoder.Params, version: int) -> None:
    """Send weights to our own server (`serve` with `serve.accepts_weights`), in the type that the decoder computes in.

    Args:
      url: base address of the server, ending in `/v1`.
      network: shape of the decoder.
      params: parameters with stacked layers.
      version: policy version that rollouts carry from then on.

    Raises:
      UserError: if the server refuses the weights or stays unreachable after all attempts.
    """
    body = safetensors.numpy.save(dict(named_tensors(network, params, dtype=network.compute.dtype)))
    with httpx.Client(timeout=httpx.Timeout(10.0, read=600.0, write=600.0), headers=_headers()) as client:
        _post(client, f"{url}/policy?version={version}", content=body)


class EngineSampler:
    """A sampler whose completions come from an engine elsewhere.

    Args:
      url: base address of the server, ending in `/v1`.
      settings: model name and limits of requests.
      tokenizer: that of the policy; the engine must use the same one.
      data: longest completion in tokens, and stop texts.
      temperature: sampling temperature.
    """

    def __init__(
        self, url: str, settings: EngineSettings, tokenizer: Tokenizer, data: DataSettings, *, temperature: float
    ) -> None:
        self._url = url.rstrip("/")
        self._settings, self._tokenizer, self._data, self._temperature = settings, tokenizer, data, temperature

    def complete(self, prompt_ids: Sequence[np.ndarray], samples: int, *, keys: jax.Array) -> sampling.Completions:
        """Sample `samples` completions for each prompt; the rows of one prompt are neighbours.

        Args:
          prompt_ids: int32 `[p]` token ids of each prompt.
          samples: completions for each prompt.
          keys: `[b * samples]` random keys; the first one of each prompt gives the seed of its request.

        Returns:
          Completions (NumPy) with the log-probabilities that the engine states, cut at the first stop text.

        Raises:
          UserError: if the engine refuses a request, or answers without ids and log-probabilities.
        """
        seeds = (jax.random.bits(key) & 0x7FFFFFFF for key in keys[::samples])
        with (
            httpx.Client(timeout=self._settings.timeout_s, headers=_headers()) as client,
            concurrent.futures.ThreadPoolExecutor(self._settings.requests) as pool,
        ):
            ask = functools.partial(self._ask, client, samples)
            answers = list(pool.map(ask, prompt_ids, (int(seed) for seed in seeds)))
        done = jax.tree.map(np.array, sampling.empty_completions(len(keys), self._data.completion_tokens))
        for row, choice in enumerate(itertools.chain.from_iterable(answers)):
            self._fill_row(done, row, choice)
        return sampling.cut_at_stop(done, self._stop_rule())

    def _ask(self, client: httpx.Client, samples: int, prompt: np.ndarray, seed: int) -> list[dict[str, typing.Any]]:
        body = {
            "model": self._settings.model,
            "prompt": prompt.tolist(),
            "n": samples,
            "seed": seed,
            "temperature": self._temperature,
            "max_tokens": self._data.completion_tokens,
            "logprobs": 0,
            "return_token_ids": True,
        }
        choices = _post(client, f"{self._url}/completions", json=body).get("choices", ())
        if len(choices) != samples:
            raise UserError(f"{self._url}: expected {samples} choices, found {len(choices)}")
        return sorted(choices, key=lambda choice: choice["index"])

    def _fill_row(self, done: sampling.Completions, row: int, choice: dict[str, typing.Any]) -> None:
        ids, log_probs = choice.get("token_ids"), (choice.get("logprobs") or {}).get("token_logprobs")
        if not ids or not log_probs or len(ids) != len(log_probs):
            raise UserError(f"{self._url}: expected token_ids and logprobs.token_logprobs, equally many")
        length = min(len(ids), self._data.completion_tokens)
        done.tokens[row, :length], done.log_prob[row, :length] = ids[:length], log_probs[:length]
        done.length[row] = length
        done.has_ended[row] = ids[length - 1] == self._tokenizer.end

    def _stop_rule(self) -> sampling.StopRule | None:
        if not self._data.stop:
            return None
        return functools.partial(prompts.stop_length, stops=self._data.stop, decode=self._tokenizer.decode)


def _headers() -> dict[str, str]:
    key = os.environ.get(KEY_VARIABLE, "")
    return {"Authorization": f"Bearer {key}"} if key else {}


def _post(client: httpx.Client, url: str, **content: typing.Any) -> dict[str, typing.Any]:
    """Post to the engine with bounded retries; raise UserError for an answer that no retry would change."""
    error = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(FIRST_PAUSE_S * 2 ** (attempt - 1))
        try:
            answer = client.post(url, **content)
        except httpx.HTTPError as failure:
            error = f"{type(failure).__name__}: {failure}"
            continue
        if answer.is_success:
            return answer.json()
        error = f"{answer.status_code}: {answer.text[:200]}"
        if answer.status_code not in PASSING:
            break
    raise UserError(f"{url}: expected an answer of the engine ({error})")
