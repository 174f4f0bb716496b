"""Edge: the byte-level BPE tokenizer: trained on statements and programs, stored as `tokenizer.json`.

Any text survives a round trip. A merge may reach over a whole line of code or sentence of a statement, never beyond:
programs for small problems repeat lines, and so a small policy composes a dozen lines instead of a hundred fragments
(94 tokens a program where words and digits stand alone, 15 like this, with 2,048 tokens on the embedded corpus).
"""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from optimrl_jax.commands import UserError
from optimrl_jax.data import chat

FILE_NAME = "tokenizer.json"
CONFIG_NAME, TEMPLATE_NAME = "tokenizer_config.json", "chat_template.jinja"
PAD, END, PROGRAM = "<|pad|>", "<|end|>", "<|program|>"
SPECIAL = (PAD, END, PROGRAM)
PIECES = r"(?:(?!\. )[^\n])*(?:\. |\n)|[^\n]+"


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """Text to token ids and back; the ids of the special tokens stand beside it.

    `end` closes a completion, `program` stands between a statement and its program. The tokenizer of a chat model has
    a `template` instead, whose rendered text is what it reads: there special tokens written out are those tokens.
    """

    model: tokenizers.Tokenizer
    pad: int
    end: int
    program: int
    template: chat.Template | None = None

    @property
    def size(self) -> int:
        """Number of distinct token ids, special tokens included."""
        return self.model.get_vocab_size()

    def encode(self, text: str) -> np.ndarray:
        """Token ids int32[t] of a text; without a template, special tokens written out in it are plain text."""
        return np.asarray(self.model.encode(text, add_special_tokens=False).ids, np.int32)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids; special tokens vanish, bytes that are no UTF-8 become U+FFFD."""
        return self.model.decode([int(token) for token in ids], skip_special_tokens=True)

    def save(self, directory: pathlib.Path) -> None:
        """Writes `tokenizer.json`, and before it the template of a chat model, each atomically."""
        if self.template:
            config = {**self.template.special, "chat_template": self.template.source}
            _write(directory / CONFIG_NAME, json.dumps(config, indent=2))
        _write(directory / FILE_NAME, self.model.to_str())


def train(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Learns at most `vocabulary` tokens from texts; equal texts in equal order give the equal tokenizer."""
    model = tokenizers.Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    model.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    model.train_from_iterator(texts, trainer)
    return _wrapped(model)


def load(directory: pathlib.Path) -> Tokenizer:
    """Reads `tokenizer.json`, one that this package wrote or, beside a `tokenizer_config.json`, one of a chat model.

    Raises UserError where there is none, or none with what is needed.
    """
    path = directory / FILE_NAME
    try:
        model = tokenizers.Tokenizer.from_str(path.read_text())
    except OSError:
        raise UserError(f"{path}: expected the tokenizer of a finished SFT job") from None
    except Exception as error:  # noqa: BLE001 - the library raises bare Exception for malformed files
        raise UserError(f"{path}: expected a tokenizer file ({str(error).splitlines()[0]})") from None
    if not (directory / CONFIG_NAME).exists():
        return _wrapped(model)
    try:
        return _of_chat_model(model, _template(directory))
    except ValueError as error:
        raise UserError(f"{directory}: {error}") from None


def _template(directory: pathlib.Path) -> chat.Template:
    jinja = directory / TEMPLATE_NAME
    config = json.loads((directory / CONFIG_NAME).read_text())
    return chat.template_of(config, jinja.read_text() if jinja.exists() else None)


def _of_chat_model(model: tokenizers.Tokenizer, template: chat.Template) -> Tokenizer:
    closing = chat.end_of_turn(template)
    end = model.token_to_id(closing)
    if end is None:
        raise ValueError(f"expected one token that ends a turn, the chat template has {closing!r}")
    pad = model.token_to_id(template.special.get("pad_token", closing))
    return Tokenizer(model, end if pad is None else pad, end, program=end, template=template)


def _write(path: pathlib.Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.replace(path)


def _wrapped(model: tokenizers.Tokenizer) -> Tokenizer:
    ids = [model.token_to_id(token) for token in SPECIAL]
    if None in ids:
        raise UserError(f"tokenizer: expected the special tokens {', '.join(SPECIAL)}")
    # Special tokens enter by id alone; without this, a statement that spells one out would be read as the token.
    model.encode_special_tokens = True
    return Tokenizer(model, *ids)
