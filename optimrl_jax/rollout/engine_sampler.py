"""Edge: rollouts from an engine elsewhere: a server of the OpenAI protocol that returns token ids and probabilities.

Stands where the sampler of `rollout.actor` stands. Our own `serve`, vLLM and SGLang answer `/v1/completions` for
prompts of token ids with `return_token_ids` and `logprobs`; nothing is tokenized twice, so that the sampled ids are the
trained ids. An answer that is not about the prompt, the tokenizer or the weights that it should be about never becomes
a rollout: weights that the engine has lost are pushed again, everything else ends the run in one line.
"""

import concurrent.futures
import dataclasses
import functools
import itertools
import logging
import math
import typing
from collections.abc import Sequence

import jax
import numpy as np

from optimrl_jax.data import prompts
from optimrl_jax.data.tokenizer import Tokenizer
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model.generation import sampling
from optimrl_jax.rollout import engine_client
from optimrl_jax.settings import DataSettings, Settings
from optimrl_jax.training.checkpoints import Policy

_LOG = logging.getLogger(__name__)
# Pushes for one batch: an engine that restarts under way needs another one.
PUSHES = 5
# Text that a cut completion ends in is not complete: bytes of a character may be missing.
INCOMPLETE = "\ufffd"
# Engines round log-probabilities; the likeliest token may come out slightly above 0.
ROUNDING = 1e-3


class OtherWeightsError(UserError):
    """The engine answered with older weights than those that were pushed to it."""


@dataclasses.dataclass(frozen=True, eq=False)
class EngineChoice:
    """One completion of the engine, checked.

    Attributes:
      tokens: int32 `[t]`, at least one.
      log_prob: float32 `[t]` under the engine's policy at the temperature of the request.
      version: of the weights, where the engine states one.
    """

    tokens: np.ndarray
    log_prob: np.ndarray
    version: int | None


class EngineSampler:
    """A sampler whose completions come from the engine that `grpo.sampler` names.

    Args:
      settings: those of the whole job.
      tokenizer: that of the policy; the engine must use the same one.
    """

    def __init__(self, settings: Settings, tokenizer: Tokenizer) -> None:
        self._url, self._engine, self._data = settings.grpo.sampler.rstrip("/"), settings.engine, settings.data
        self._temperature = settings.grpo.temperature
        self._tokenizer = tokenizer
        self._push = engine_client.push_hook(settings.engine.push)
        self._needs_weights = True

    def expire(self) -> None:
        """Push the policy again before the next completions: it has changed."""
        self._needs_weights = True

    def complete(
        self, policy: Policy, version: int, prompt_ids: Sequence[np.ndarray], samples: int, *, keys: jax.Array
    ) -> tuple[sampling.Completions, int]:
        """Sample `samples` completions for each prompt; the rows of one prompt are neighbours.

        Args:
          policy: whose weights are pushed first, where the engine has not got them.
          version: of these weights.
          prompt_ids: int32 `[p]` token ids of each prompt.
          samples: completions for each prompt.
          keys: `[b * samples]` random keys; the first one of each prompt gives the seed of its request.

        Returns:
          Completions (NumPy) with the log-probabilities that the engine states, cut at the first stop text; and the
          oldest version that any of them began under: another actor may have pushed newer weights.

        Raises:
          UserError: if the engine refuses a request, goes away for good, or answers with anything but completions of
            these prompts in tokens of this policy.
        """
        for _ in range(PUSHES):
            if self._needs_weights and self._push:
                self._push(self._url, policy.settings, policy.params, version)
            self._needs_weights = False
            try:
                choices = self._choices(version, prompt_ids, samples, keys=keys)
            except OtherWeightsError as error:
                _LOG.warning("%s: pushing them again", error)
                self._needs_weights = True
                continue
            versions = [version if choice.version is None else choice.version for choice in choices]
            return self._completions(choices, rows=len(keys)), min(versions)
        raise UserError(f"{self._url}: expected to keep the weights of version {version}, lost {PUSHES} times")

    def _choices(
        self, version: int, prompt_ids: Sequence[np.ndarray], samples: int, *, keys: jax.Array
    ) -> list[EngineChoice]:
        seeds = [int(jax.random.bits(key) & 0x7FFFFFFF) for key in keys[::samples]]
        engine = self._engine
        with (
            engine_client.EngineClient(self._url, timeout_s=engine.timeout_s) as client,
            concurrent.futures.ThreadPoolExecutor(engine.requests) as pool,
        ):
            ask = functools.partial(self._ask, client, samples)
            answers = list(pool.map(ask, prompt_ids, seeds))
        choices = list(itertools.chain.from_iterable(answers))
        stated = [choice.version for choice in choices if choice.version is not None]
        if self._push and stated and min(stated) < version:
            raise OtherWeightsError(f"{self._url}: answered with weights of version {min(stated)}, expected {version}")
        return choices

    def _ask(
        self, client: engine_client.EngineClient, samples: int, prompt: np.ndarray, seed: int
    ) -> list[EngineChoice]:
        body = {
            "model": self._engine.model,
            "prompt": prompt.tolist(),
            "n": samples,
            "seed": seed,
            "temperature": self._temperature,
            "max_tokens": self._data.completion_tokens,
            "logprobs": 0,
            "return_token_ids": True,
        }
        choices = client.post("completions", json=body).get("choices") or []
        if len(choices) != samples:
            raise UserError(f"{self._url}: expected {samples} choices, found {len(choices)}")
        try:
            return [self._checked(choice, prompt) for choice in sorted(choices, key=lambda choice: choice["index"])]
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{self._url}: expected choices of the OpenAI protocol ({error!r})") from None

    def _checked(self, choice: dict[str, typing.Any], prompt: np.ndarray) -> EngineChoice:
        """Read a choice; raise UserError where it is not of this prompt, this vocabulary or this tokenizer."""
        ids, log_probs = choice.get("token_ids"), (choice.get("logprobs") or {}).get("token_logprobs")
        if not ids or not log_probs or len(ids) != len(log_probs):
            raise UserError(f"{self._url}: expected token_ids and logprobs.token_logprobs, equally many")
        asked = choice.get("prompt_token_ids")
        if asked is not None and list(asked) != prompt.tolist():
            raise UserError(f"{self._url}: expected a completion of the prompt that was sent, found another prompt")
        if not all(isinstance(token, int) and 0 <= token < self._tokenizer.size for token in ids):
            raise UserError(f"{self._url}: expected token ids from 0 to {self._tokenizer.size - 1}, found others")
        if not all(isinstance(value, int | float) and -math.inf < value <= ROUNDING for value in log_probs):
            raise UserError(f"{self._url}: expected finite log-probabilities, at most 0")
        length = min(len(ids), self._data.completion_tokens)
        tokens = np.asarray(ids[:length], np.int32)
        self._require_text(choice.get("text"), tokens)
        return EngineChoice(tokens, np.asarray(log_probs[:length], np.float32), choice.get("policy_version"))

    def _require_text(self, text: str | None, tokens: np.ndarray) -> None:
        """Compare the engine's text with ours of the same ids: another tokenizer would make other programs of them."""
        own = self._tokenizer.decode(tokens, keeps_reasoning_tags=True)
        plain = self._tokenizer.decode(tokens)
        # Engines leave out stop texts, and differ in whether special tokens show.
        stated = (text or "").split(INCOMPLETE)[0].strip()
        if stated and not any(known.strip().startswith(stated) for known in (own, plain)):
            raise UserError(
                f"{self._url}: expected the tokenizer of the policy, for which the ids of {stated[:30]!r} are "
                f"{plain.strip()[:30]!r}"
            )

    def _completions(self, choices: Sequence[EngineChoice], *, rows: int) -> sampling.Completions:
        done = jax.tree.map(np.array, sampling.empty_completions(rows, self._data.completion_tokens))
        for row, choice in enumerate(choices):
            length = len(choice.tokens)
            done.tokens[row, :length], done.log_prob[row, :length] = choice.tokens, choice.log_prob
            done.length[row] = length
            done.has_ended[row] = choice.tokens[-1] == self._tokenizer.end
        return sampling.cut_at_stop(done, _stop_rule(self._tokenizer, self._data))


def _stop_rule(tokenizer: Tokenizer, data: DataSettings) -> sampling.StopRule | None:
    if not data.stop:
        return None
    return functools.partial(prompts.stop_length, stops=data.stop, decode=tokenizer.decode)
