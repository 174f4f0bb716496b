"""Edge: the tokenizer: a byte-level BPE trained on statements and programs, or one that came with published weights.

Any text survives a round trip. A merge may reach over a whole line of code or sentence of a statement, never beyond:
programs for small problems repeat lines, and so a small policy composes a dozen lines instead of a hundred fragments
(94 tokens a program where words and digits stand alone, 15 like this, with 2,048 tokens on the embedded corpus).
"""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np
import tokenizers
from jaxtyping import Array
from tokenizers import decoders, models, pre_tokenizers, trainers

from optimrl_jax.data import answers, chat
from optimrl_jax.jobs import files
from optimrl_jax.jobs.errors import UserError

FILE_NAME = "tokenizer.json"
CONFIG_NAME, TEMPLATE_NAME = "tokenizer_config.json", "chat_template.jinja"
PAD, END, PROGRAM = "<|pad|>", "<|end|>", "<|program|>"
SPECIAL = (PAD, END, PROGRAM)
ROLES_FILE = "special_tokens.json"
# Which tokens of published tokenizers stand for padding, the end and the start of a program; the first row that fits.
FOREIGN = (
    SPECIAL,
    ("<|endoftext|>", "<|im_end|>", "<|im_start|>"),
    ("<|finetune_right_pad_id|>", "<|eot_id|>", "<|end_header_id|>"),
    ("<|end_of_text|>", "<|eot_id|>", "<|end_header_id|>"),
)
PIECES = r"(?:(?!\. )[^\n])*(?:\. |\n)|[^\n]+"


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """Text to token ids and back; the ids of the special tokens stand beside it.

    The text that a chat template renders is what its model reads: there, special tokens written out are those tokens.

    Attributes:
      model: of the `tokenizers` library.
      pad: id that fills rows.
      end: id that closes a completion.
      program: id that stands between a statement and its program; `end` for a chat model, which has no such marker.
      template: of a chat model; None for others.
    """

    model: tokenizers.Tokenizer
    pad: int
    end: int
    program: int
    template: chat.ChatTemplate | None = None

    @property
    def size(self) -> int:
        """Number of rows that an embedding needs: one more than the largest token id, special tokens included."""
        return 1 + max(self.model.get_vocab(with_added_tokens=True).values())

    def encode(self, text: str) -> np.ndarray:
        """Return the token ids int32`[t]` of a text; without a template, special tokens spelled out are plain text."""
        return np.asarray(self.model.encode(text, add_special_tokens=False).ids, np.int32)

    def decode(self, ids: Sequence[int] | np.ndarray | Array, *, keeps_reasoning_tags: bool = False) -> str:
        """Return the text of token ids; special tokens vanish, and bytes that are not UTF-8 become U+FFFD.

        Args:
          ids: `[t]` token ids.
          keeps_reasoning_tags: spell out the tags of reasoning where they are special tokens.
        """
        kept = [int(token) for token in ids]
        if keeps_reasoning_tags and self._reasoning_tags:
            hidden = self._special - self._reasoning_tags
            return self.model.decode([token for token in kept if token not in hidden], skip_special_tokens=False)
        return self.model.decode(kept, skip_special_tokens=True)

    @functools.cached_property
    def _special(self) -> frozenset[int]:
        return frozenset(token for token, added in self.model.get_added_tokens_decoder().items() if added.special)

    @functools.cached_property
    def _reasoning_tags(self) -> frozenset[int]:
        tags = map(self.model.token_to_id, (answers.THINKING, answers.THOUGHT))
        return frozenset(tag for tag in tags if tag is not None) & self._special

    def save(self, directory: pathlib.Path) -> None:
        """Write `tokenizer.json`, after whatever else `load_tokenizer` needs to read it back; each file atomically.

        That is the template of a chat model, or `special_tokens.json` where the special tokens are not our own.
        """
        names = [self.model.id_to_token(token) for token in (self.pad, self.end, self.program)]
        if self.template:
            config = {**self.template.special, "chat_template": self.template.source}
            files.write_json(directory / CONFIG_NAME, config)
        elif names != list(SPECIAL):
            roles = dict(zip(("pad", "end", "program"), names, strict=True))
            files.write_json(directory / ROLES_FILE, roles)
        files.write_text(directory / FILE_NAME, self.model.to_str())


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Learn a byte-level BPE from texts; equal texts in equal order give equal tokenizers.

    Args:
      texts: statements, programs or messages.
      vocabulary: number of tokens to learn, special ones included.
    """
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
    return adopt_tokenizer(model, source="tokenizer", roles=SPECIAL)


def load_tokenizer(directory: pathlib.Path) -> Tokenizer:
    """Read `tokenizer.json`: trained here, or published with weights or a chat template.

    `special_tokens.json` beside it says which tokens are `pad`, `end` and `program`. Without it, a template in
    `tokenizer_config.json` makes it that of a chat model; without either, the special tokens are looked up in
    `FOREIGN`.

    Args:
      directory: that holds the files.

    Raises:
      UserError: where there is no tokenizer, or none with what is needed.
    """
    path = directory / FILE_NAME
    try:
        model = tokenizers.Tokenizer.from_str(path.read_text())
    except OSError:
        raise UserError(f"{path}: expected the tokenizer of a finished SFT job") from None
    except Exception as error:  # noqa: BLE001 - the library raises bare Exception for malformed files
        raise UserError(f"{path}: expected a tokenizer file ({str(error).splitlines()[0]})") from None
    try:
        template = None if (directory / ROLES_FILE).exists() else _template(directory)
        if template:
            return _of_chat_model(model, template)
    except ValueError as error:
        raise UserError(f"{directory}: {error}") from None
    return adopt_tokenizer(model, source=str(path), roles=_roles(directory / ROLES_FILE))


def _template(directory: pathlib.Path) -> chat.ChatTemplate | None:
    """Return the chat template that lies beside a tokenizer, if one does."""
    config, jinja = directory / CONFIG_NAME, directory / TEMPLATE_NAME
    if not config.exists():
        return None
    values = json.loads(config.read_text())
    if "chat_template" not in values and not jinja.exists():
        return None
    return chat.chat_template_of(values, jinja.read_text() if jinja.exists() else None)


def _of_chat_model(model: tokenizers.Tokenizer, template: chat.ChatTemplate) -> Tokenizer:
    closing = chat.end_of_turn(template)
    end = model.token_to_id(closing)
    if end is None:
        raise ValueError(f"expected one token that ends a turn, the chat template has {closing!r}")
    pad = model.token_to_id(template.special.get("pad_token", closing))
    _disable_batching(model)
    return Tokenizer(model, end if pad is None else pad, end, program=end, template=template)


def adopt_tokenizer(model: tokenizers.Tokenizer, *, source: str, roles: Sequence[str] | None = None) -> Tokenizer:
    """Adopt any tokenizer of the library.

    Args:
      model: its padding and truncation are switched off.
      source: what messages call it.
      roles: its special tokens as (pad, end, program); None looks for a row of `FOREIGN` that fits.

    Raises:
      UserError: naming `source`, where it lacks these tokens.
    """
    for names in FOREIGN if roles is None else (roles,):
        ids = [token for token in map(model.token_to_id, names) if token is not None]
        if len(ids) == len(names):
            # Special tokens enter by id alone: a statement that spells one out is text like any other.
            model.encode_special_tokens = True
            _disable_batching(model)
            pad, end, program = ids
            return Tokenizer(model, pad, end, program)
    wanted = " or ".join(", ".join(names) for names in (FOREIGN if roles is None else (roles,)))
    raise UserError(f"{source}: expected the special tokens {wanted}")


def _disable_batching(model: tokenizers.Tokenizer) -> None:
    # What a published file asks for batches of its own would silently change what we encode.
    model.no_padding()
    model.no_truncation()


def _roles(path: pathlib.Path) -> Sequence[str] | None:
    if not path.exists():
        return None
    try:
        roles = json.loads(path.read_text())
        return [str(roles[name]) for name in ("pad", "end", "program")]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: expected a JSON object with pad, end and program") from None
