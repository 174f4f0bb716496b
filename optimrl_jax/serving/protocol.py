"""The requests of the OpenAI protocol that a policy of text can honour; every other field is refused by name.

Pure. Fields that change nothing where they are neutral (`presence_penalty: 0`, `tools: null`) are accepted only so.
"""

import abc
import typing
from collections.abc import Sequence
from typing import Annotated, Literal

import pydantic

from optimrl_jax.serving.row_sampling import MAX_ALTERNATIVES

MAX_CHOICES = 128
MAX_STOPS = 16
# Names of roles that stand for one of ours.
SAME_ROLE = {"developer": "system"}

Positive = Annotated[int, pydantic.Field(ge=1)]
Seed = Annotated[int, pydantic.Field(ge=0, lt=2**31)]
Stops = str | Annotated[list[str], pydantic.Field(max_length=MAX_STOPS)] | None


class TextPart(pydantic.BaseModel):
    """A part of a message; only texts can be read.

    Attributes:
      type: "text".
      text: the words.
    """

    model_config = pydantic.ConfigDict(extra="forbid")
    type: Literal["text"]
    text: str


class ChatMessage(pydantic.BaseModel):
    """One turn of a conversation.

    Attributes:
      role: who speaks; "developer" stands for "system".
      content: a text, or its parts.
    """

    model_config = pydantic.ConfigDict(extra="forbid")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart]
    name: None = None
    refusal: None = None
    tool_calls: None = None

    def plain(self) -> dict[str, str]:
        """Return role and text, as chat templates take them."""
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": SAME_ROLE.get(self.role, self.role), "content": text}


class StreamOptions(pydantic.BaseModel):
    """What a stream sends beside the text.

    Attributes:
      include_usage: a last event counts tokens.
    """

    model_config = pydantic.ConfigDict(extra="forbid")
    include_usage: bool = False
    include_obfuscation: Literal[False] = False


class ResponseFormat(pydantic.BaseModel):
    """Text, the only form of an answer."""

    model_config = pydantic.ConfigDict(extra="forbid")
    type: Literal["text"] = "text"


class SamplingFields(pydantic.BaseModel):
    """What both kinds of requests have in common.

    Attributes:
      temperature: 0 takes the likeliest token each time.
      return_token_ids: adds the ids of prompt and completion to the answer, as vLLM does.
    """

    model_config = pydantic.ConfigDict(extra="forbid")
    model: str
    temperature: Annotated[float, pydantic.Field(ge=0, le=10)] = 1.0
    top_p: Annotated[float, pydantic.Field(gt=0, le=1)] = 1.0
    n: Annotated[int, pydantic.Field(ge=1, le=MAX_CHOICES)] = 1
    seed: Seed | None = None
    stop: Stops = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    return_token_ids: bool = False
    frequency_penalty: Literal[0] | None = None
    presence_penalty: Literal[0] | None = None
    logit_bias: Annotated[dict[str, float], pydantic.Field(max_length=0)] | None = None

    @pydantic.field_validator("temperature", "top_p", "n", mode="before")
    @classmethod
    def _default_for_null(cls, value: object, field: pydantic.ValidationInfo) -> object:
        return cls.model_fields[str(field.field_name)].default if value is None else value

    def stops(self) -> Sequence[str]:
        """Return the texts that end a completion and are no part of it."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())

    @abc.abstractmethod
    def room(self) -> int | None:
        """Return how many tokens an answer may have at most; None where the request leaves that open."""

    def echoes(self) -> bool:
        """Return whether a choice begins with its prompt."""
        return False

    @abc.abstractmethod
    def alternatives(self) -> int | None:
        """Return how many likely tokens to list beside each one; None where log-probabilities are not asked for."""


class ChatRequest(SamplingFields):
    """A conversation to continue.

    Attributes:
      messages: at least one turn.
      max_completion_tokens: tokens of an answer, at most; `max_tokens` is its older name.
      logprobs: whether to list log-probabilities.
      top_logprobs: likely tokens listed beside each one.
    """

    messages: Annotated[list[ChatMessage], pydantic.Field(min_length=1)]
    max_completion_tokens: Positive | None = None
    max_tokens: Positive | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, pydantic.Field(ge=0, le=MAX_ALTERNATIVES)] | None = None
    response_format: ResponseFormat | None = None
    tools: None = None
    tool_choice: Literal["none"] | None = None
    store: Literal[False] | None = None
    metadata: dict[str, str] | None = None

    @pydantic.model_validator(mode="after")
    def _wants_log_probs(self) -> typing.Self:
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs: expected logprobs = true beside it")
        return self

    def room(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    def alternatives(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None


class TextRequest(SamplingFields):
    """Prompts to continue; several are answered in the order of prompts, then of choices.

    Attributes:
      prompt: one or several, as texts or token ids.
      max_tokens: tokens of an answer, at most.
      logprobs: likely tokens listed beside each one; None leaves log-probabilities out.
      echo: begin each choice with its prompt, whose tokens get log-probabilities where `logprobs` asks for them.
    """

    prompt: str | list[str] | list[int] | list[list[int]]
    max_tokens: Positive | None = None
    logprobs: Annotated[int, pydantic.Field(ge=0, le=MAX_ALTERNATIVES)] | None = None
    echo: bool | None = None
    best_of: Literal[1] | None = None
    suffix: None = None

    def prompts(self) -> Sequence[str | list[int]]:
        """Return the prompts one by one."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if all(isinstance(part, int) for part in self.prompt):
            return [typing.cast("list[int]", self.prompt)]
        return typing.cast("list[str | list[int]]", self.prompt)

    def echoes(self) -> bool:
        return bool(self.echo)

    def room(self) -> int | None:
        # The default of the protocol for this kind of request.
        return self.max_tokens or 16

    def alternatives(self) -> int | None:
        return self.logprobs
