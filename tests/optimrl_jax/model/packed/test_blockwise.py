"""Blockwise attention against the dense one on packed rows: values, gradients, windows, and what it never visits."""

import functools

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from optimrl_jax.model import attention, blockwise
from tests.optimrl_jax.model.packed.rows import arrays_of, dense, packed_layout, value_and_grads


@functools.cache
def in_blocks_of(block: int):
    return lambda query, key, value, layout, window: blockwise.attend_blockwise(
        query, key, value, layout, block=block, window=window
    )


SEGMENT = st.builds(lambda prefix, own: (prefix, *own), st.integers(0, 9), st.lists(st.integers(1, 12), max_size=4))
ROW = st.lists(SEGMENT, max_size=4).filter(lambda row: sum(map(sum, row)) <= 23)
ROWS = st.lists(ROW, min_size=2, max_size=2)


@settings(max_examples=25, deadline=None)
@given(
    rows=ROWS,
    block=st.sampled_from([1, 5, 32]),
    window=st.sampled_from([1, 3, attention.NO_WINDOW]),
    seed=st.integers(0, 99),
)
def test_blocks_equal_the_dense_rows_with_their_gradients(rows, block, window, seed):
    layout = packed_layout(rows, 23)
    *inputs, weight = arrays_of(layout, seed=seed)
    (_, found), grads = value_and_grads(*inputs, weight, layout, jnp.int32(window), attend=in_blocks_of(block))
    (_, expected), expected_grads = value_and_grads(*inputs, weight, layout, jnp.int32(window), attend=dense)
    is_real = layout.segments > 0
    np.testing.assert_allclose(found[is_real], expected[is_real], rtol=1e-4, atol=1e-5)
    for grad, expected_grad in zip(grads, expected_grads, strict=True):
        np.testing.assert_allclose(grad, expected_grad, rtol=1e-3, atol=2e-5)


def cut(
    rows: list[list[tuple[int, ...]]], row_tokens: int, *, window: int = attention.NO_WINDOW
) -> list[tuple[tuple[int, int, int], list[int]]]:
    """Row, start and length of each block of queries, with the blocks of positions that it visits."""
    blocks, count = blockwise.find_blocks(packed_layout(rows, row_tokens), 4)
    first, end = blocks.visited(jnp.int32(window), 4)
    return [
        ((int(blocks.row[n]), int(blocks.start[n]), int(blocks.queries[n])), list(range(int(first[n]), int(end[n]))))
        for n in range(int(count))
    ]


def test_a_block_of_queries_begins_with_a_sequence_or_goes_on_with_it_and_leaves_padding_out():
    found = cut([[(8,), (7,)], [(2, 3)]], 20)
    assert found == [
        ((0, 0, 4), [0]),
        ((0, 4, 4), [0, 1]),
        ((0, 8, 4), [0]),
        ((0, 12, 3), [0, 1]),
        ((1, 0, 4), [0]),
        ((1, 4, 1), [0, 1]),
    ]


def test_positions_before_the_window_are_never_visited():
    assert [visits for _, visits in cut([[(20,)]], 20, window=3)] == [[0], [0, 1], [1, 2], [2, 3], [3, 4]]
    # The last suffix is as far from the prefix's end as the first one, though farther in the row.
    assert [visits for _, visits in cut([[(8, 4, 4, 4)]], 20, window=3)] == [[0], [0, 1], [1, 2], [1, 2], [1, 2]]


def test_a_suffix_visits_its_prefix_and_itself_but_no_suffix_before_it():
    found = cut([[(6, 6, 8, 4)]], 24)
    assert [start for (_, start, _), _ in found] == [0, 4, 8, 12, 16, 20]
    assert [visits[-1] for _, visits in found] == [0, 1, 2, 2, 3, 2]


def test_a_prefix_and_the_suffix_behind_it_are_cut_as_one_sequence():
    assert [start for (_, start, _), _ in cut([[(1, 3, 3)]], 8)] == [0, 4]


def test_keys_of_another_segment_do_not_move_a_query():
    layout = packed_layout([[(6,), (7,)]], 16)
    query, key, value, _ = arrays_of(layout, seed=3)
    before = blockwise.attend_blockwise(query, key, value, layout, block=4)
    is_first = (layout.segments == 1)[:, None, None]
    changed = np.where(is_first, key + 50, key), np.where(is_first.swapaxes(2, 3), value + 50, value)
    after = blockwise.attend_blockwise(query, *changed, layout, block=4)
    np.testing.assert_array_equal(before[:, 6:13], after[:, 6:13])
    assert not np.allclose(before[:, :6], after[:, :6])


def test_a_row_of_padding_alone_is_finite_with_its_gradients():
    layout = packed_layout([[]], 8)
    *inputs, weight = arrays_of(layout, seed=0)
    (_, found), grads = value_and_grads(*inputs, weight + 1, layout, jnp.int32(4), attend=in_blocks_of(3))
    assert all(np.isfinite(x).all() for x in (found, *grads))
