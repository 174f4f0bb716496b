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
import jinja2.sandbox
import numpy as np

if typing.TYPE_CHECKING:
    from jaxtyping import Float, Int

Message = Mapping[str, str]
ROLES = ("system", "user", "assistant", "tool")
SPECIAL_NAMES = ("bos_token", "eos_token", "pad_token", "unk_token")
PROBE = "\N{SNOWMAN}"


class Encoded(typing.NamedTuple):
    """Token ids of one example, and 1 where a token is trained, 0 where it is only read."""

    tokens: "Int[np.ndarray, 't']"
    weight: "Float[np.ndarray, 't']"


@dataclasses.dataclass(frozen=True)
class Template:
    """A chat template in Jinja, and the special tokens that it may name (`eos_token` and the like)."""

    source: str
    special: Mapping[str, str]

    def render(self, messages: Sequence[Message], *, asks: bool) -> str:
        """The conversation as one text; `asks` adds what stands before the assistant's next words.

        Raises ValueError where the template fails or refuses these messages.
        """
        try:
            return _compiled(self.source).render(messages=messages, add_generation_prompt=asks, **self.special)
        except jinja2.TemplateError as error:
            raise ValueError(f"chat template: {error}") from None


class _Generation(jinja2.ext.Extension):
    """`{% generation %}` marks assistant words for some trainers; here roles decide, and the block is its content."""

    tags: typing.ClassVar = {"generation"}

    def parse(self, parser: typing.Any) -> typing.Any:
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def _refuse(message: str) -> typing.NoReturn:
    raise jinja2.TemplateError(message)


_ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
)
_ENVIRONMENT.globals["raise_exception"] = _refuse
# Templates print tools and arguments; Jinja's own filter escapes for web pages.
_ENVIRONMENT.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)


@functools.cache
def _compiled(source: str) -> jinja2.Template:
    return _ENVIRONMENT.from_string(source)


def template_of(config: Mapping[str, typing.Any], jinja: str | None = None) -> Template:
    """The template of a `tokenizer_config.json`, or `jinja`, the text of a `chat_template.jinja` beside it.

    Raises ValueError where there is none, or where it is not Jinja.
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
    return Template(source, special)


def end_of_turn(template: Template) -> str:
    """The text with which the template closes what an assistant says; the `eos_token` where it closes it with nothing.

    Base models name another `eos_token` than the one that ends a turn.
    """
    conversation = [{"role": "user", "content": "?"}, {"role": "assistant", "content": PROBE}]
    closing = template.render(conversation, asks=False).rpartition(PROBE)[2].strip()
    return closing or template.special.get("eos_token", "")


def checked(value: object) -> list[Message]:
    """The messages of one example as read from a file; raises ValueError saying what is wrong with them."""
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


def spans(template: Template, messages: Sequence[Message]) -> list[tuple[str, bool]]:
    """The rendered conversation in pieces, each with whether it is trained; together they are the whole text.

    Raises ValueError for a template that renders an answer differently from what it asks for, or that rewrites earlier
    turns later (some drop the reasoning of all but the last): then the policy would never see what it was trained on.
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
        answer, tail = _ended(answered[len(asked) :], end)
        pieces += [(asked[len(done) :], False), (answer, True), (tail, False)]
        done = answered
    return [(text, is_trained) for text, is_trained in pieces if text]


def _ended(answer: str, end: str) -> tuple[str, str]:
    """An answer up to its end token, and the line break or so that a template puts behind it."""
    stripped = answer.rstrip()
    return (stripped, answer[len(stripped) :]) if end and stripped.endswith(end) else (answer, "")


def encode(
    template: Template, messages: Sequence[Message], *, tokenize: Callable[[str], "Int[np.ndarray, 't']"]
) -> Encoded:
    """One example; `tokenize` reads special tokens written out in a text as those tokens."""
    return joined([(tokenize(text), is_trained) for text, is_trained in spans(template, messages)])


def joined(pieces: Sequence[tuple["Int[np.ndarray, 't']", bool]]) -> Encoded:
    """Pieces of token ids, each with whether it is trained, as one example."""
    return Encoded(
        np.concatenate([tokens for tokens, _ in pieces]).astype(np.int32),
        np.concatenate([np.full(len(tokens), is_trained, np.float32) for tokens, is_trained in pieces]),
    )
