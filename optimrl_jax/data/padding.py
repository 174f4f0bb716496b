"""Pads ragged problems to bucketed shapes, so that the number of compiled programs stays small and known.

Pure NumPy between the records and the environment; masks are made here and nowhere else.
"""

import typing
from collections.abc import Sequence

import numpy as np

from optimrl_jax import arrays

SMALLEST_BUCKET = 8


class Record(typing.Protocol):
    """What padding needs of a problem record (`data.dataset.ProblemRecord` has it)."""

    test_kind: np.ndarray
    test_input: Sequence[str]
    test_output: Sequence[str]
    duration_s: np.ndarray
    std_s: np.ndarray
    is_usable: np.ndarray


def bucket(size: int, *, smallest: int = SMALLEST_BUCKET) -> int:
    """Smallest power of two that holds `size`, at least `smallest`: padding at most doubles an axis."""
    if size < 0:
        raise ValueError(f"size = {size}: expected a number that is not negative")
    return max(smallest, 1 << max(0, size - 1).bit_length())


def shape_of(records: Sequence[Record]) -> tuple[int, int]:
    """Bucketed (tests, references) that hold every one of `records`."""
    tests = max((record.duration_s.shape[0] for record in records), default=0)
    references = max((record.duration_s.shape[1] for record in records), default=0)
    return bucket(tests), bucket(references)


def pad_tests(record: Record, k: int) -> arrays.Tests:
    """Tests of one problem padded to `k`; padding has mask False and counts 0 characters."""
    characters = [len(a) + len(b) for a, b in zip(record.test_input, record.test_output, strict=True)]
    return arrays.Tests(
        kind=_padded(np.asarray(record.test_kind, np.int32), (k,), fill=int(arrays.TestKind.ORIGINAL)),
        characters=_padded(np.asarray(characters, np.int32), (k,), fill=0),
        mask=_padded(np.ones(len(characters), bool), (k,), fill=False),
    )


def pad_references(record: Record, k: int, h: int) -> arrays.References:
    """Reference durations of one problem padded to `k` tests and `h` references; padding is unusable."""
    usable = np.asarray(record.is_usable, bool)
    return arrays.References(
        duration_s=_padded(np.where(usable, record.duration_s, 0).astype(np.float32), (k, h), fill=0.0),
        std_s=_padded(np.where(usable, record.std_s, 0).astype(np.float32), (k, h), fill=0.0),
        is_usable=_padded(usable, (k, h), fill=False),
    )


def pad_execution(status: np.ndarray, duration_s: np.ndarray, k: int) -> arrays.Execution:
    """Executions of `r` candidates, [r, tests], padded to `k`; padding was not run."""
    r = status.shape[0]
    return arrays.Execution(
        status=_padded(np.asarray(status, np.int32), (r, k), fill=int(arrays.Status.NOT_RUN)),
        duration_s=_padded(np.asarray(duration_s, np.float32), (r, k), fill=0.0),
    )


def _padded(values: np.ndarray, shape: tuple[int, ...], *, fill: float) -> np.ndarray:
    if any(have > want for have, want in zip(values.shape, shape, strict=True)):
        raise ValueError(f"array of shape {values.shape}: expected at most {shape}")
    result = np.full(shape, fill, values.dtype)
    result[tuple(slice(0, size) for size in values.shape)] = values
    return result
