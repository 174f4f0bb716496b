"""Conversations to tokens with a loss mask: the chat templates of Hugging Face tokenizers, rendered in a sandbox.

Pure; between the files of a reasoning mix and packing. Only what an assistant says is trained, up to and including the
token that ends its turn. Prompt and completion are tokenized apart, as they are when the policy samples.
"""

import dataclasses
import functools
import json
import typing
from collections.abc import Callable, Mapping, Sequence

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
import numpy as np
from jaxtyping import Float, Int

Message = Mapping[str, str]
ROLES = ("system", "user", "assistant", "tool")
SPECIAL_NAMES = ("bos_token", "eos_token", "pad_token", "unk_token")
PROBE = "\N{SNOWMAN}"


class EncodedExample(typing.NamedTuple):
    """One example as tokens.

    Attributes:
      tokens: int32`[t]` token ids.
      weight: float32`[t]`, 1 where a token is trained, 0 where it is only read.
    """

    tokens: Int[np.ndarray, " t"]
    weight: Float[np.ndarray, " t"]


@dataclasses.dataclass(frozen=True)
class ChatTemplate:
    """A chat template.

    Attributes:
      source: its Jinja text.
      special: the special tokens that it may name, by name (`eos_token` and the like).
    """

    source: str
    special: Mapping[str, str]

    def render(self, messages: Sequence[Message], *, asks: bool) -> str:
        """Render a conversation as one text.

        Args:
          messages: with `role` and `content`, in order.
          asks: add what stands before the assistant's next words.

        Raises:
          ValueError: where the template fails or refuses these messages.
        """
        try:
            return _compiled(self.source).render(messages=messages, add_generation_prompt=asks, **self.special)
        except jinja2.TemplateError as error:
            raise ValueError(f"chat template: {error}") from None


class _Generation(jinja2.ext.Extension):
    """`{% generation %}` marks assistant words for some trainers; here roles decide, and the block is its content."""

    tags = {"generation"}  # noqa: RUF012 - declared as an instance variable by jinja2

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _refuse(message: str) -> typing.NoReturn:
    raise jinja2.TemplateError(message)


_ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
)
_GLOBALS = typing.cast("dict[str, object]", _ENVIRONMENT.globals)
_GLOBALS["raise_exception"] = _refuse
# Templates print tools and arguments; Jinja's own filter escapes for web pages.
_ENVIRONMENT.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)


@functools.cache
def _compiled(source: str) -> jinja2.Template:
    return _ENVIRONMENT.from_string(source)


def chat_template_of(config: Mapping[str, typing.Any], jinja: str | None = None) -> ChatTemplate:
    """Read the chat template that comes with a tokenizer.

    Args:
      config: contents of `tokenizer_config.json`; of several named templates the one called "default" counts.
      jinja: the text of a `chat_template.jinja` beside it, which takes precedence.

    Raises:
      ValueError: where there is none, or where it is not Jinja.
    """
    source = jinja or config.get("chat_template")
    if isinstance(source, list):
        named = {entry["name"]: entry["template"] for entry in source}
        source = named.get("default")
    if not isinstance(source, str):
        raise ValueError("tokenizer_config.json: expected a chat_template")
    try:
        _compiled(source)
    except jinja2.TemplateError as error:
        raise ValueError(f"chat template: {error}") from None
    tokens = {name: config[name] for name in SPECIAL_NAMES if config.get(name)}
    special = {name: token if isinstance(token, str) else token["content"] for name, token in tokens.items()}
    return ChatTemplate(source, special)


def end_of_turn(template: ChatTemplate) -> str:
    """Return the text with which the template closes an assistant's turn, or the `eos_token` where it adds nothing.

    Base models name another `eos_token` than the one that ends a turn.
    """
    conversation = [{"role": "user", "content": "?"}, {"role": "assistant", "content": PROBE}]
    closing = template.render(conversation, asks=False).rpartition(PROBE)[2].strip()
    return closing or template.special.get("eos_token", "")


def require_messages(value: object) -> list[Message]:
    """Return the messages of one example as read from a file.

    Args:
      value: an object with `messages`, the last of them the assistant's.

    Raises:
      ValueError: saying what is wrong with them.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("messages"), list):
        raise ValueError("expected an object with a list of messages")
    messages = value["messages"]
    for message in messages:
        if not isinstance(message, Mapping) or message.get("role") not in ROLES:
            raise ValueError(f"expected messages with a role among {', '.join(ROLES)}")
        if not isinstance(message.get("content"), str):
            raise ValueError(f"expected a text as the content of the {message['role']}")
    if not messages or messages[-1]["role"] != "assistant":
        raise ValueError("expected messages that end with the assistant's")
    return messages


def trained_spans(template: ChatTemplate, messages: Sequence[Message]) -> list[tuple[str, bool]]:
    """Cut a rendered conversation into pieces that are trained and pieces that are only read.

    Args:
      template: of the model.
      messages: with `role` and `content`, in order.

    Returns:
      Texts, each with whether it is trained; together they are the conversation up to the assistant's last answer.

    Raises:
      ValueError: for a template that renders an answer differently from what it asks for, or that rewrites earlier
        turns later (some drop the reasoning of all but the last): the policy would never see what it was trained on.
    """
    pieces: list[tuple[str, bool]] = []
    done, end = "", end_of_turn(template)
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        asked = template.render(messages[:index], asks=True)
        answered = template.render(messages[: index + 1], asks=False)
        if not asked.startswith(done):
            raise ValueError("expected a chat template that leaves earlier turns as they were")
        if not answered.startswith(asked):
            raise ValueError("expected a chat template that continues its own generation prompt")
        answer, tail = _split_after_end(answered[len(asked) :], end)
        pieces += [(asked[len(done) :], False), (answer, True), (tail, False)]
        done = answered
    return [(text, is_trained) for text, is_trained in pieces if text]


def _split_after_end(answer: str, end: str) -> tuple[str, str]:
    """Split an answer after its end token, before the line breaks that a template may put after it."""
    stripped = answer.rstrip()
    return (stripped, answer[len(stripped) :]) if end and stripped.endswith(end) else (answer, "")


def encode_conversation(
    template: ChatTemplate, messages: Sequence[Message], *, tokenize: Callable[[str], Int[np.ndarray, " t"]]
) -> EncodedExample:
    """Encode a conversation as one example in which only the assistant's words are trained.

    Args:
      template: of the model.
      messages: with `role` and `content`, in order.
      tokenize: turns a text into token ids, special tokens written out in it included.

    Raises:
      ValueError: where the template cannot be trained on (`trained_spans`).
    """
    return concatenate_pieces([(tokenize(text), is_trained) for text, is_trained in trained_spans(template, messages)])


def concatenate_pieces(pieces: Sequence[tuple[Int[np.ndarray, " t"], bool]]) -> EncodedExample:
    """Concatenate pieces of token ids into one example.

    Args:
      pieces: at least one; each holds `[t]` token ids and whether they are trained.
    """
    return EncodedExample(
        np.concatenate([tokens for tokens, _ in pieces]).astype(np.int32),
        np.concatenate([np.full(len(tokens), is_trained, np.float32) for tokens, is_trained in pieces]),
    )
