"""Packs whole sequences into rows of one length: no sequence is split, and segments keep them apart.

Pure NumPy between rollouts or examples and the update. Sequences that begin with the same tokens may share them: a
segment is then a prefix, which stands in the row once, and the rest of each sequence as a suffix of it. Positions count
from 0 in each segment and go on from the end of the prefix in each suffix; padding has segment 0 and carries no loss.
"""

import typing
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from optimrl_jax.arrays import Array
from optimrl_jax.jobs.errors import SettingsError


class Packed(typing.NamedTuple):
    """Rows of packed sequences, split into `m` microbatches of `s` rows that all have one shape.

    Attributes:
      tokens: `[m, s, t]` token ids, 0 in padding.
      positions: `[m, s, t]`, from 0 in each sequence, its prefix included.
      segments: `[m, s, t]`, from 1 in each row; 0 is padding.
      suffixes: `[m, s, t]`, 0 for a prefix, which its whole segment sees; other tokens see it and their own suffix.
      per_token: what else belongs to each token (loss weights, advantages, log-probabilities), 0 in padding.
    """

    tokens: Int[Array, "m s t"]
    positions: Int[Array, "m s t"]
    segments: Int[Array, "m s t"]
    suffixes: Int[Array, "m s t"]
    per_token: dict[str, Float[Array, "m s t"]]


class PrefixGroup(typing.NamedTuple):
    """Sequences that begin with the same tokens.

    Attributes:
      members: numbers of the sequences.
      shared: how many of their first tokens are the same.
    """

    members: Sequence[int]
    shared: int


def assign_rows(lengths: Sequence[int], row_tokens: int) -> list[list[int]]:
    """Assign sequences to rows: longest first, each into the first row that has room.

    First fit decreasing needs at most 11/9 of the optimal number of rows, plus one.

    Args:
      lengths: tokens of each sequence.
      row_tokens: tokens of a row.

    Returns:
      The indices of the sequences of each row.

    Raises:
      ValueError: for a sequence longer than a row.
    """
    rows: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        length = lengths[index]
        if length > row_tokens:
            raise ValueError(f"sequence {index} has {length} tokens: expected at most {row_tokens}")
        row = next((r for r, free in enumerate(room) if free >= length), len(rows))
        if row == len(rows):
            rows.append([])
            room.append(row_tokens)
        rows[row].append(index)
        room[row] -= length
    return rows


def max_packed_microbatches(
    sequences: int, longest: int, *, row_tokens: int, micro_rows: int, tokens: int | None = None
) -> int:
    """Return the number of microbatches that hold any such sequences, so that one compiled shape serves all.

    Args:
      sequences: how many there are.
      longest: tokens of the longest one.
      row_tokens: tokens of a row.
      micro_rows: rows of a microbatch.
      tokens: the most that they have together; None where only `longest` bounds them.

    Raises:
      SettingsError: where a row is shorter than the longest sequence.
    """
    per_row = row_tokens // longest
    if per_row < 1:
        raise SettingsError(f"data.row_tokens = {row_tokens}: expected at least the longest sequence, {longest}")
    # First fit never leaves two rows that are both at most half full.
    total = sequences * longest if tokens is None else min(tokens, sequences * longest)
    rows = min(-(-sequences // per_row), 2 * -(-total // row_tokens) + 1)
    return -(-rows // micro_rows)


def max_shared_microbatches(
    groups: int, members: int, *, shared: int, own: int, row_tokens: int, micro_rows: int
) -> int:
    """Return the number of microbatches that hold any such prefix groups.

    Args:
      groups: how many prefix groups there are.
      members: sequences of each.
      shared: tokens that the sequences of a group have in common, at most.
      own: tokens that each has beside them, at most.
      row_tokens: tokens of a row.
      micro_rows: rows of a microbatch.

    Raises:
      SettingsError: where a row is shorter than the longest sequence.
    """
    per_row = max(0, row_tokens - shared) // own
    if per_row < 1:
        raise SettingsError(f"data.row_tokens = {row_tokens}: expected at least the longest sequence, {shared + own}")
    segments = groups * -(-members // per_row)
    longest = min(row_tokens, shared + members * own)
    return -(-segments // (row_tokens // longest * micro_rows))


def count_rows(lengths: Sequence[int], groups: Sequence[PrefixGroup] | None, *, row_tokens: int) -> int:
    """Count the rows that `pack_sequences` fills.

    Args:
      lengths: tokens of each sequence.
      groups: which sequences share a prefix; None: no two do.
      row_tokens: tokens of a row.
    """
    return len(_assigned(lengths, groups, row_tokens)[1])


def pack_sequences(
    tokens: Sequence[np.ndarray],
    per_token: Mapping[str, Sequence[np.ndarray]],
    *,
    row_tokens: int,
    micro_rows: int,
    microbatches: int,
    groups: Sequence[PrefixGroup] | None = None,
) -> tuple[Packed, int]:
    """Pack sequences into `microbatches * micro_rows` rows.

    Args:
      tokens: the token ids of each sequence.
      per_token: values by name; `per_token[name][i]` has one for each token of sequence i. Those of a shared prefix are
        taken from the first member of its group.
      row_tokens: tokens of a row.
      micro_rows: rows of a microbatch.
      microbatches: microbatches of the result, whether or not they are needed.
      groups: which sequences share a prefix; None: no two do. A group too large for one row is split, and each of its
        rows repeats the prefix.

    Returns:
      The packed sequences, and how many leading microbatches hold any of them; the rest is padding.

    Raises:
      ValueError: where the sequences do not fit.
    """
    lengths = [len(sequence) for sequence in tokens]
    segments, rows = _assigned(lengths, groups, row_tokens)
    used = -(-len(rows) // micro_rows)
    if used > microbatches:
        raise ValueError(f"{len(rows)} packed rows: expected at most {microbatches} x {micro_rows}")
    shape = (microbatches * micro_rows, row_tokens)
    whole = {name: np.zeros(shape, np.int32) for name in ("tokens", "positions", "segments", "suffixes")}
    extra = {name: np.zeros(shape, np.float32) for name in per_token}
    for row, numbers in enumerate(rows):
        start = 0
        for segment, number in enumerate(numbers, start=1):
            for suffix, index, span in _spans(segments[number], lengths):
                at = (row, slice(start, start + span.stop - span.start))
                whole["tokens"][at] = tokens[index][span]
                whole["positions"][at] = np.arange(span.start, span.stop)
                whole["segments"][at] = segment
                whole["suffixes"][at] = suffix
                for name, values in per_token.items():
                    extra[name][at] = values[index][span]
                start = at[1].stop
    split = (microbatches, micro_rows, row_tokens)
    return Packed(
        **{name: values.reshape(split) for name, values in whole.items()},
        per_token={name: values.reshape(split) for name, values in extra.items()},
    ), used


def _assigned(
    lengths: Sequence[int], groups: Sequence[PrefixGroup] | None, row_tokens: int
) -> tuple[list[PrefixGroup], list[list[int]]]:
    """Split groups into segments that fit into rows; return these, and the numbers of those of each row."""
    if groups is None:
        groups = [PrefixGroup([index], 0) for index in range(len(lengths))]
    segments = [part for group in groups for part in _segments(group, lengths, row_tokens)]
    return segments, assign_rows([_length(part, lengths) for part in segments], row_tokens)


def _segments(group: PrefixGroup, lengths: Sequence[int], row_tokens: int) -> list[PrefixGroup]:
    """Split a group into parts, each of which fits into a row with the prefix."""
    own = [lengths[index] - group.shared for index in group.members]
    parts = assign_rows(own, row_tokens - group.shared)
    return [PrefixGroup([group.members[n] for n in part], group.shared) for part in parts]


def _length(segment: PrefixGroup, lengths: Sequence[int]) -> int:
    return segment.shared + sum(lengths[index] - segment.shared for index in segment.members)


def _spans(segment: PrefixGroup, lengths: Sequence[int]) -> Iterator[tuple[int, int, slice]]:
    """Yield suffix number, sequence number and token span of each part, in the order of the row."""
    yield 0, segment.members[0], slice(0, segment.shared)
    for suffix, index in enumerate(segment.members, start=1):
        yield suffix, index, slice(segment.shared, lengths[index])
