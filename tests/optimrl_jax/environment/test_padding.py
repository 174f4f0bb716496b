"""Padding keeps what is real, marks what is not, and bounds the number of shapes."""

import numpy as np
import pytest

from optimrl_jax import arrays
from optimrl_jax.environment import padding
from tests.optimrl_jax.records import ragged, record


@pytest.mark.parametrize(("size", "expected"), [(0, 8), (1, 8), (8, 8), (9, 16), (16, 16), (17, 32), (3185, 4096)])
def test_buckets_are_powers_of_two_that_hold_the_size(size, expected):
    assert padding.padded_size(size) == expected


def test_a_negative_size_is_a_mistake():
    with pytest.raises(ValueError, match=r"size = -1"):
        padding.padded_size(-1)


def test_shapes_of_a_whole_dataset_stay_few():
    shapes = {padding.shape_of([entry]) for entry in ragged(0, problems=40)}
    assert shapes == {(8, 8)}


def test_real_cells_are_kept_and_padding_is_unusable():
    entry = record(status=np.array([[0, 1, 2, 3]] * 5, np.int8))
    references = padding.pad_references(entry, 8, 16)
    assert references.is_usable.shape == (8, 16)
    assert references.is_usable[:5, :4].tolist() == [[True, True, False, False]] * 5
    assert not references.is_usable[5:].any()
    assert not references.is_usable[:, 4:].any()
    np.testing.assert_array_equal(references.duration_s[:5, :2], entry.duration_s[:, :2])
    assert references.duration_s[:5, 2:].sum() == 0


def test_characters_count_input_and_expected_output():
    tests = padding.pad_tests(record(), 8)
    assert tests.characters[:5].tolist() == [4, 4, 4, 4, 4]
    assert tests.mask.tolist() == [True] * 5 + [False] * 3
    assert tests.characters[5:].sum() == 0


def test_padded_tests_of_an_execution_were_not_run():
    execution = padding.pad_execution(arrays.Execution(np.zeros((2, 5), np.int8), np.full((2, 5), 0.5)), 8)
    assert execution.status[:, 5:].tolist() == [[arrays.Status.NOT_RUN] * 3] * 2
    assert execution.duration_s[:, :5].tolist() == [[0.5] * 5] * 2


def test_an_array_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="expected at most"):
        padding.pad_tests(record(), 4)
