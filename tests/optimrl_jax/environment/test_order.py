"""Counting comparisons gives what sorting gives."""

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from optimrl_jax.environment import order

# Few distinct values, so that ties are everywhere; +inf marks unusable cells.
ROWS = npst.arrays(np.float32, (3, 6), elements=st.sampled_from([0.0, 0.5, 1.0, 2.0, np.inf]))
ordered, faster_and_tied = jax.jit(order.ordered), jax.jit(order.faster_and_tied)


@settings(max_examples=50, deadline=None)
@given(ROWS)
def test_rows_come_out_in_ascending_order(rows):
    np.testing.assert_array_equal(ordered(rows), np.sort(rows, axis=1))


@settings(max_examples=50, deadline=None)
@given(ROWS, ROWS)
def test_faster_and_tied_are_counted_test_by_test(pool, values):
    faster, tied = faster_and_tied(pool, values)
    np.testing.assert_array_equal(faster, (pool[:, None, :] < values[:, :, None]).sum(axis=2))
    np.testing.assert_array_equal(tied, (pool[:, None, :] == values[:, :, None]).sum(axis=2))
