"""Few shapes hold a ragged dataset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimrl_jax import environment

SIZES = st.lists(st.tuples(st.integers(1, 200), st.integers(0, 3200)), min_size=1, max_size=30)


@given(SIZES, st.integers(1, 8))
def test_every_size_fits_one_of_a_few_shapes(sizes, most):
    shapes = environment.bounded_shapes(sizes, most=most)
    assert 1 <= len(shapes) <= most
    for size in sizes:
        assert all(axis <= wide for axis, wide in zip(size, environment.shape_for(size, shapes), strict=True))


@given(SIZES)
def test_padding_at_most_doubles_an_axis_while_shapes_last(sizes):
    shapes = environment.bounded_shapes(sizes, most=1000)
    for size in sizes:
        assert all(
            wide <= max(1, 2 * axis) for axis, wide in zip(size, environment.shape_for(size, shapes), strict=True)
        )


def test_rare_shapes_are_merged_first():
    sizes = [(100, 60)] * 50 + [(100, 1000)] * 50 + [(9, 60)]
    assert environment.bounded_shapes(sizes, most=2) == [(128, 64), (128, 1024)]


def test_a_size_that_fits_nowhere_is_refused():
    with pytest.raises(ValueError, match=r"size = \(9, 9\)"):
        environment.shape_for((9, 9), [(8, 16)])
    with pytest.raises(ValueError, match="most = 0"):
        environment.bounded_shapes([(1, 1)], most=0)
