"""Edge: the byte-level BPE tokenizer: trained on statements and programs, stored as `tokenizer.json`.

Any text survives a round trip. A merge may reach over a whole line of code or sentence of a statement, never beyond:
programs for small problems repeat lines, and so a small policy composes a dozen lines instead of a hundred fragments
(94 tokens a program where words and digits stand alone, 15 like this, with 2,048 tokens on the embedded corpus).
"""

import dataclasses
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from optimrl_jax.commands import UserError

FILE_NAME = "tokenizer.json"
PAD, END, PROGRAM = "<|pad|>", "<|end|>", "<|program|>"
SPECIAL = (PAD, END, PROGRAM)
PIECES = r"(?:(?!\. )[^\n])*(?:\. |\n)|[^\n]+"


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """Text to token ids and back; the ids of the special tokens stand beside it.

    `end` closes a completion, `program` stands between a statement and its program.
    """

    model: tokenizers.Tokenizer
    pad: int
    end: int
    program: int

    @property
    def size(self) -> int:
        """Number of distinct token ids, special tokens included."""
        return self.model.get_vocab_size()

    def encode(self, text: str) -> np.ndarray:
        """Token ids int32[t] of plain text: special tokens written out in it are text like any other."""
        return np.asarray(self.model.encode(text, add_special_tokens=False).ids, np.int32)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids; special tokens vanish, bytes that are no UTF-8 become U+FFFD."""
        return self.model.decode([int(token) for token in ids], skip_special_tokens=True)

    def save(self, directory: pathlib.Path) -> None:
        """Writes `tokenizer.json` atomically."""
        partial = directory / f"{FILE_NAME}.partial"
        partial.write_text(self.model.to_str())
        partial.replace(directory / FILE_NAME)


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
    """Reads `tokenizer.json`; raises UserError where there is none that this package wrote."""
    path = directory / FILE_NAME
    try:
        model = tokenizers.Tokenizer.from_str(path.read_text())
    except OSError:
        raise UserError(f"{path}: expected the tokenizer of a finished SFT job") from None
    except Exception as error:  # noqa: BLE001 - the library raises bare Exception for malformed files
        raise UserError(f"{path}: expected a tokenizer file ({str(error).splitlines()[0]})") from None
    return _wrapped(model)


def _wrapped(model: tokenizers.Tokenizer) -> Tokenizer:
    ids = [model.token_to_id(token) for token in SPECIAL]
    if None in ids:
        raise UserError(f"tokenizer: expected the special tokens {', '.join(SPECIAL)}")
    # Special tokens enter by id alone; without this, a statement that spells one out would be read as the token.
    model.encode_special_tokens = True
    return Tokenizer(model, *ids)
