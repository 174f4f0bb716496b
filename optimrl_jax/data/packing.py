"""Packs whole sequences into rows of one length: no sequence is split, and segments keep them apart.

Pure NumPy between rollouts or examples and the update. Sequences that begin with the same tokens may share them: a
segment is then a trunk, which stands in the row once, and the rest of each sequence as a branch of it. Positions count
from 0 in each segment and go on from the trunk's end in each branch; padding has segment 0 and carries no loss.
"""

import typing
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from optimrl_jax.errors import SettingsError

if typing.TYPE_CHECKING:
    from jaxtyping import Float, Int


class Packed(typing.NamedTuple):
    """Rows of packed sequences, split into `m` microbatches of `s` rows that all have one shape.

    Within a segment, branch 0 is the trunk, which every branch sees; the others see it and themselves alone.
    `per_token` holds what else belongs to each token (loss weights, advantages, log-probabilities), 0 in padding.
    """

    tokens: "Int[np.ndarray, 'm s t']"
    positions: "Int[np.ndarray, 'm s t']"
    segments: "Int[np.ndarray, 'm s t']"
    branches: "Int[np.ndarray, 'm s t']"
    per_token: "dict[str, Float[np.ndarray, 'm s t']]"


class Family(typing.NamedTuple):
    """Sequences, by their numbers, whose first `shared` tokens are the same."""

    members: Sequence[int]
    shared: int


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
            raise ValueError(f"sequence {index} has {length} tokens: expected at most {row_tokens}")
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


def most_shared_microbatches(
    families: int, members: int, *, shared: int, own: int, row_tokens: int, micro_rows: int
) -> int:
    """Microbatches that hold any `families` of `members` sequences, at most `shared` tokens in common and `own` more.

    Raises SettingsError where a row is shorter than the longest sequence.
    """
    per_row = max(0, row_tokens - shared) // own
    if per_row < 1:
        raise SettingsError(f"data.row_tokens = {row_tokens}: expected at least the longest sequence, {shared + own}")
    segments = families * -(-members // per_row)
    longest = min(row_tokens, shared + members * own)
    return -(-segments // (row_tokens // longest * micro_rows))


def pack(
    tokens: Sequence[np.ndarray],
    per_token: Mapping[str, Sequence[np.ndarray]],
    *,
    row_tokens: int,
    micro_rows: int,
    microbatches: int,
    families: Sequence[Family] | None = None,
) -> tuple[Packed, int]:
    """The packed sequences and the number of microbatches that hold any; the rest is padding.

    `per_token[name][i]` has one value for each token of sequence i; those of a trunk are its first member's. Without
    `families` no sequence shares anything. A family that a row cannot hold has its trunk in each row with some of its
    members. Raises ValueError where the sequences do not fit.
    """
    lengths = [len(sequence) for sequence in tokens]
    if families is None:
        families = [Family([index], 0) for index in range(len(tokens))]
    segments = [part for family in families for part in _segments(family, lengths, row_tokens)]
    rows = assign([_length(part, lengths) for part in segments], row_tokens)
    used = -(-len(rows) // micro_rows)
    if used > microbatches:
        raise ValueError(f"{len(rows)} packed rows: expected at most {microbatches} x {micro_rows}")
    shape = (microbatches * micro_rows, row_tokens)
    whole = {name: np.zeros(shape, np.int32) for name in ("tokens", "positions", "segments", "branches")}
    extra = {name: np.zeros(shape, np.float32) for name in per_token}
    for row, numbers in enumerate(rows):
        start = 0
        for segment, number in enumerate(numbers, start=1):
            for branch, index, span in _spans(segments[number], lengths):
                at = (row, slice(start, start + span.stop - span.start))
                whole["tokens"][at] = tokens[index][span]
                whole["positions"][at] = np.arange(span.start, span.stop)
                whole["segments"][at] = segment
                whole["branches"][at] = branch
                for name, values in per_token.items():
                    extra[name][at] = values[index][span]
                start = at[1].stop
    split = (microbatches, micro_rows, row_tokens)
    return Packed(
        **{name: values.reshape(split) for name, values in whole.items()},
        per_token={name: values.reshape(split) for name, values in extra.items()},
    ), used


def _segments(family: Family, lengths: Sequence[int], row_tokens: int) -> list[Family]:
    """The family in parts, each of which fits into a row with the trunk."""
    own = [lengths[index] - family.shared for index in family.members]
    return [
        Family([family.members[n] for n in part], family.shared) for part in assign(own, row_tokens - family.shared)
    ]


def _length(segment: Family, lengths: Sequence[int]) -> int:
    return segment.shared + sum(lengths[index] - segment.shared for index in segment.members)


def _spans(segment: Family, lengths: Sequence[int]) -> Iterator[tuple[int, int, slice]]:
    """Branch, sequence and tokens of it, in the order in which they stand in the row."""
    yield 0, segment.members[0], slice(0, segment.shared)
    for branch, index in enumerate(segment.members, start=1):
        yield branch, index, slice(segment.shared, lengths[index])
