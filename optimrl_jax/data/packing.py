"""Packs whole sequences into rows of one length: no sequence is split, and segments keep them apart.

Pure NumPy between rollouts or examples and the update. Each segment counts its own positions from 0; padding has
segment 0 and carries no loss.
"""

import typing
from collections.abc import Mapping, Sequence

import numpy as np

from optimrl_jax.settings import SettingsError

if typing.TYPE_CHECKING:
    from jaxtyping import Float, Int


class Packed(typing.NamedTuple):
    """Rows of packed sequences, split into `m` microbatches of `s` rows that all have one shape.

    `per_token` holds what else belongs to each token (loss weights, advantages, log-probabilities), 0 in padding.
    """

    tokens: "Int[np.ndarray, 'm s t']"
    positions: "Int[np.ndarray, 'm s t']"
    segments: "Int[np.ndarray, 'm s t']"
    per_token: "dict[str, Float[np.ndarray, 'm s t']]"


def assign(lengths: Sequence[int], row_tokens: int) -> list[list[int]]:
    """Indices of the sequences of each row: longest first, each into the first row that has room.

    First fit decreasing needs at most 11/9 of the optimal number of rows, plus one. Raises ValueError for a sequence
    longer than a row.
    """
    rows: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        length = int(lengths[index])
        if length > row_tokens:
            raise ValueError(f"sequence {index} has {length} tokens: expected at most a row of {row_tokens}")
        row = next((r for r, free in enumerate(room) if free >= length), len(rows))
        if row == len(rows):
            rows.append([])
            room.append(row_tokens)
        rows[row].append(index)
        room[row] -= length
    return rows


def most_microbatches(
    sequences: int, longest: int, *, row_tokens: int, micro_rows: int, tokens: int | None = None
) -> int:
    """Microbatches that hold any `sequences` of at most `longest` tokens, so that one compiled shape serves all.

    `tokens` is the most that they have together, where that is known to be less than all at full length. Raises
    SettingsError where a row is shorter than the longest sequence.
    """
    per_row = row_tokens // longest
    if per_row < 1:
        raise SettingsError(f"data.row_tokens = {row_tokens}: expected at least the longest sequence, {longest}")
    # First fit never leaves two rows that are both at most half full.
    total = sequences * longest if tokens is None else min(tokens, sequences * longest)
    rows = min(-(-sequences // per_row), 2 * -(-total // row_tokens) + 1)
    return -(-rows // micro_rows)


def pack(
    tokens: Sequence[np.ndarray],
    per_token: Mapping[str, Sequence[np.ndarray]],
    *,
    row_tokens: int,
    micro_rows: int,
    microbatches: int,
) -> tuple[Packed, int]:
    """The packed sequences and the number of microbatches that hold any; the rest is padding.

    `per_token[name][i]` has one value for each token of sequence i. Raises ValueError where the sequences do not fit.
    """
    rows = assign([len(sequence) for sequence in tokens], row_tokens)
    used = -(-len(rows) // micro_rows)
    if used > microbatches:
        raise ValueError(f"{len(rows)} packed rows: expected at most {microbatches} x {micro_rows}")
    shape = (microbatches * micro_rows, row_tokens)
    whole = {name: np.zeros(shape, np.int32) for name in ("tokens", "positions", "segments")}
    extra = {name: np.zeros(shape, np.float32) for name in per_token}
    for row, members in enumerate(rows):
        start = 0
        for segment, index in enumerate(members, start=1):
            span = slice(start, start + len(tokens[index]))
            whole["tokens"][row, span] = tokens[index]
            whole["positions"][row, span] = np.arange(len(tokens[index]))
            whole["segments"][row, span] = segment
            for name, values in per_token.items():
                extra[name][row, span] = values[index]
            start = span.stop
    split = (microbatches, micro_rows, row_tokens)
    return Packed(
        **{name: values.reshape(split) for name, values in whole.items()},
        per_token={name: values.reshape(split) for name, values in extra.items()},
    ), used
