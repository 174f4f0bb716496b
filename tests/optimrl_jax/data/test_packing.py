"""Packing keeps every sequence whole, in few rows, with its own positions; what does not fit is an error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimrl_jax.data import packing

LENGTHS = st.lists(st.integers(1, 20), min_size=1, max_size=40)


def test_three_sequences_in_two_rows_by_hand():
    tokens = [np.array([7, 7]), np.array([1, 2, 3, 4]), np.array([9, 9])]
    packed, used = packing.pack_sequences(
        tokens, {"weight": [np.ones(2), np.ones(4) * 2, np.ones(2) * 3]}, row_tokens=5, micro_rows=1, microbatches=3
    )
    assert used == 2
    assert packed.tokens[:, 0].tolist() == [[1, 2, 3, 4, 0], [7, 7, 9, 9, 0], [0] * 5]
    assert packed.positions[:, 0].tolist() == [[0, 1, 2, 3, 0], [0, 1, 0, 1, 0], [0] * 5]
    assert packed.segments[:, 0].tolist() == [[1, 1, 1, 1, 0], [1, 1, 2, 2, 0], [0] * 5]
    assert packed.per_token["weight"][1, 0].tolist() == [1, 1, 3, 3, 0]


@given(LENGTHS)
def test_every_sequence_comes_back_whole_and_rows_are_few(lengths):
    tokens = [np.arange(1, length + 1) + 100 * index for index, length in enumerate(lengths)]
    microbatches = packing.max_packed_microbatches(len(lengths), max(lengths), row_tokens=20, micro_rows=2)
    packed, used = packing.pack_sequences(tokens, {}, row_tokens=20, micro_rows=2, microbatches=microbatches)
    found = []
    for row_tokens, row_segments in zip(packed.tokens.reshape(-1, 20), packed.segments.reshape(-1, 20), strict=True):
        for segment in range(1, row_segments.max() + 1):
            found.append(row_tokens[row_segments == segment].tolist())
    assert sorted(found) == sorted(sequence.tolist() for sequence in tokens)
    rows = len(packing.assign_rows(lengths, 20))
    assert rows <= 11 / 9 * -(-sum(lengths) // 20) + 1 or rows <= len(lengths)
    assert -(-rows // 2) == used <= microbatches


def test_a_group_has_its_prefix_once_in_each_row_with_some_of_its_members():
    tokens = [np.array([5, 6, 7, own, own]) for own in (1, 2, 3)] + [np.array([9, 8])]
    groups = [packing.PrefixGroup([0, 1, 2], 2), packing.PrefixGroup([3], 1)]
    weight = [np.array([0, 0, 0, 1, 1])] * 3 + [np.array([0, 1])]
    packed, used = packing.pack_sequences(
        tokens, {"weight": weight}, row_tokens=8, micro_rows=2, microbatches=1, groups=groups
    )
    assert used == 1
    assert packed.tokens[0].tolist() == [[5, 6, 7, 1, 1, 7, 2, 2], [5, 6, 7, 3, 3, 9, 8, 0]]
    assert packed.positions[0].tolist() == [[0, 1, 2, 3, 4, 2, 3, 4], [0, 1, 2, 3, 4, 0, 1, 0]]
    assert packed.segments[0].tolist() == [[1] * 8, [1] * 5 + [2, 2, 0]]
    assert packed.suffixes[0].tolist() == [[0, 0, 1, 1, 1, 2, 2, 2], [0, 0, 1, 1, 1, 0, 1, 0]]
    assert packed.per_token["weight"][0].tolist() == [[0, 0, 0, 1, 1, 0, 1, 1], [0, 0, 0, 1, 1, 0, 1, 0]]


GROUPS = st.lists(st.tuples(st.integers(0, 6), st.lists(st.integers(1, 8), min_size=1, max_size=5)), max_size=8)


@given(GROUPS, st.sampled_from([14, 20, 50, 100]))
def test_groups_come_back_whole_in_at_most_the_rows_that_were_planned(found, row_tokens):
    groups, tokens = [], []
    for number, (shared, own) in enumerate(found):
        groups.append(packing.PrefixGroup(range(len(tokens), len(tokens) + len(own)), shared))
        prefix = 100 * (number + 1) + np.arange(shared)
        tokens += [np.concatenate([prefix, np.full(length, len(tokens) + n)]) for n, length in enumerate(own)]
    shape = {"row_tokens": row_tokens, "micro_rows": 2}
    most = packing.max_shared_microbatches(8, 5, shared=6, own=8, **shape)
    packed, _ = packing.pack_sequences(tokens, {}, **shape, microbatches=most, groups=groups)
    rows = zip(*(part.reshape(-1, row_tokens) for part in packed[:4]), strict=True)
    whole = []
    for row, positions, segments, suffixes in rows:
        for segment in range(1, segments.max() + 1):
            for number in range(1, suffixes[segments == segment].max() + 1):
                at = (segments == segment) & ((suffixes == 0) | (suffixes == number))
                assert positions[at].tolist() == list(range(at.sum()))
                whole.append(row[at].tolist())
    assert sorted(whole) == sorted(sequence.tolist() for sequence in tokens)


def test_a_sequence_longer_than_a_row_is_an_error():
    with pytest.raises(ValueError, match="sequence 1 has 6 tokens"):
        packing.assign_rows([2, 6], 5)
    with pytest.raises(ValueError, match="row_tokens = 5"):
        packing.max_packed_microbatches(3, 6, row_tokens=5, micro_rows=1)
    with pytest.raises(ValueError, match="row_tokens = 5: expected at least the longest sequence, 6"):
        packing.max_shared_microbatches(2, 3, shared=2, own=4, row_tokens=5, micro_rows=1)
