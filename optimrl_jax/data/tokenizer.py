"""Edge: the tokenizer: a byte-level BPE trained on statements and programs, or one that came with published weights.

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

FILE_NAME = "tokenizer.json"
PAD, END, PROGRAM = "<|pad|>", "<|end|>", "<|program|>"
SPECIAL = (PAD, END, PROGRAM)
SPECIAL_FILE = "special_tokens.json"
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

    `end` closes a completion, `program` stands between a statement and its program.
    """

    model: tokenizers.Tokenizer
    pad: int
    end: int
    program: int

    @property
    def size(self) -> int:
        """Rows that an embedding needs: one more than the largest token id, special tokens included."""
        return 1 + max(self.model.get_vocab(with_added_tokens=True).values())

    def encode(self, text: str) -> np.ndarray:
        """Token ids int32[t] of plain text: special tokens written out in it are text like any other."""
        return np.asarray(self.model.encode(text, add_special_tokens=False).ids, np.int32)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids; special tokens vanish, bytes that are no UTF-8 become U+FFFD."""
        return self.model.decode([int(token) for token in ids], skip_special_tokens=True)

    def save(self, directory: pathlib.Path) -> None:
        """Writes `tokenizer.json` atomically, and before it `special_tokens.json` for a tokenizer not trained here."""
        names = [self.model.id_to_token(token) for token in (self.pad, self.end, self.program)]
        if names != list(SPECIAL):
            roles = dict(zip(("pad", "end", "program"), names, strict=True))
            _write(directory / SPECIAL_FILE, json.dumps(roles, indent=2) + "\n")
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
    return foreign(model, source="tokenizer", roles=SPECIAL)


def load(directory: pathlib.Path) -> Tokenizer:
    """Reads `tokenizer.json`, trained here or published with weights; raises UserError where there is none.

    `special_tokens.json` beside it may say which tokens are `pad`, `end` and `program`; `FOREIGN` knows the usual ones.
    """
    path = directory / FILE_NAME
    try:
        model = tokenizers.Tokenizer.from_str(path.read_text())
    except OSError:
        raise UserError(f"{path}: expected the tokenizer of a finished SFT job") from None
    except Exception as error:  # noqa: BLE001 - the library raises bare Exception for malformed files
        raise UserError(f"{path}: expected a tokenizer file ({str(error).splitlines()[0]})") from None
    return foreign(model, source=str(path), roles=_roles(directory / SPECIAL_FILE))


def foreign(model: tokenizers.Tokenizer, *, source: str, roles: Sequence[str] | None = None) -> Tokenizer:
    """Any tokenizer of the library, its special tokens given as (pad, end, program) or found in `FOREIGN`.

    Raises UserError, naming `source`, where it has none of these.
    """
    for names in FOREIGN if roles is None else (roles,):
        ids = [model.token_to_id(token) for token in names]
        if None not in ids:
            # Special tokens enter by id alone: a statement that spells one out is text like any other.
            model.encode_special_tokens = True
            # What a published file asks for batches of its own would silently change what we encode.
            model.no_padding()
            model.no_truncation()
            return Tokenizer(model, *ids)
    wanted = " or ".join(", ".join(names) for names in (FOREIGN if roles is None else (roles,)))
    raise UserError(f"{source}: expected the special tokens {wanted}")


def _roles(path: pathlib.Path) -> Sequence[str] | None:
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
        return [str(found[name]) for name in ("pad", "end", "program")]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: expected a JSON object with pad, end and program") from None


def _write(path: pathlib.Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.replace(path)
