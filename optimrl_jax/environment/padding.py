"""Pads ragged problems to few shapes, so that the number of compiled programs stays small and known.

Pure NumPy between the records of a dataset and the environment: masks are made here and nowhere else, and padding never
changes a result.
"""

import math
import typing
from collections.abc import Iterable, Sequence

import numpy as np

from optimrl_jax import arrays

SMALLEST_SIZE = 8
Size = tuple[int, ...]


class Record(typing.Protocol):
    """The fields of a problem record that padding reads: `data.dataset.ProblemRecord` has them."""

    @property
    def test_kind(self) -> np.ndarray: ...
    @property
    def characters(self) -> np.ndarray: ...
    @property
    def duration_s(self) -> np.ndarray: ...
    @property
    def std_s(self) -> np.ndarray: ...
    @property
    def is_usable(self) -> np.ndarray: ...


def padded_size(size: int, *, smallest: int = SMALLEST_SIZE) -> int:
    """Round up to a power of two, at least `smallest`: padding then at most doubles a longer axis.

    Args:
      size: cells of the axis.
      smallest: the least size; a power of two.

    Raises:
      ValueError: for a negative size.
    """
    if size < 0:
        raise ValueError(f"size = {size}: expected a number that is not negative")
    return max(smallest, 1 << max(0, size - 1).bit_length())


def shape_of(records: Sequence[Record]) -> tuple[int, int]:
    """Find one padded (tests, references) that holds every record; the smallest shape without any record."""
    tests = max((record.duration_s.shape[0] for record in records), default=0)
    references = max((record.duration_s.shape[1] for record in records), default=0)
    return padded_size(tests), padded_size(references)


def bounded_shapes(sizes: Iterable[Size], *, most: int = 8) -> list[Size]:
    """Choose at most `most` shapes, smallest first, that hold every one of `sizes` with little padding.

    Starts from the next powers of two and merges, again and again, the two shapes whose union adds the fewest padded
    cells over all problems.

    Args:
      sizes: (tests, references) of each problem of a dataset.
      most: how many shapes, and with them compiled programs, are allowed.

    Returns:
      Shapes in ascending order of their cells; empty without sizes.

    Raises:
      ValueError: for `most` below 1.
    """
    if most < 1:
        raise ValueError(f"most = {most}: expected at least 1")
    problems: dict[Size, int] = {}
    for size in sizes:
        shape = tuple(padded_size(axis, smallest=1) for axis in size)
        problems[shape] = problems.get(shape, 0) + 1
    while len(problems) > most:
        names = list(problems)
        pairs = [(names[i], names[j]) for i in range(len(names)) for j in range(i)]
        left, right = min(pairs, key=lambda pair: _added_cells(*pair, problems))
        merged = problems.pop(left) + problems.pop(right)
        union = _union(left, right)
        problems[union] = problems.get(union, 0) + merged
    return sorted(problems, key=lambda shape: (math.prod(shape), shape))


def shape_for(size: Size, shapes: Iterable[Size]) -> Size:
    """Pick the smallest shape that holds `size`.

    Args:
      size: (tests, references) of a problem.
      shapes: from `bounded_shapes`.

    Raises:
      ValueError: where none of them is large enough.
    """
    fitting = [shape for shape in shapes if all(axis <= wide for axis, wide in zip(size, shape, strict=True))]
    if not fitting:
        raise ValueError(f"size = {size}: expected one that fits a shape of {sorted(shapes)}")
    return min(fitting, key=math.prod)


def pad_array(values: np.ndarray, shape: tuple[int, ...], *, fill: float = 0) -> np.ndarray:
    """Pad every axis at its end to `shape`.

    Args:
      values: any array.
      shape: one length for each axis of `values`.
      fill: what padded cells hold.

    Returns:
      A new array of the same type.

    Raises:
      ValueError: where an axis is longer already or the numbers of axes differ.
    """
    if any(have > want for have, want in zip(values.shape, shape, strict=True)):
        raise ValueError(f"array of shape {values.shape}: expected at most {shape}")
    result = np.full(shape, fill, values.dtype)
    result[tuple(slice(0, size) for size in values.shape)] = values
    return result


def pad_tests(record: Record, k: int) -> arrays.Tests:
    """Pad the tests of one problem to `k`; padded tests have mask False and 0 characters.

    Args:
      record: with at most `k` tests.
      k: tests after padding.

    Returns:
      NumPy arrays `[k]`.

    Raises:
      ValueError: for more than `k` tests.
    """
    return arrays.Tests(
        kind=pad_array(np.asarray(record.test_kind, np.int32), (k,), fill=int(arrays.TestKind.ORIGINAL)),
        characters=pad_array(np.asarray(record.characters, np.int32), (k,)),
        mask=pad_array(np.ones(len(record.test_kind), bool), (k,), fill=False),
    )


def pad_references(record: Record, k: int, h: int) -> arrays.References:
    """Pad the reference durations of one problem to `[k, h]` seconds; padding is unusable.

    Args:
      record: with at most `k` tests and `h` references.
      k: tests after padding.
      h: references after padding.

    Returns:
      NumPy arrays `[k, h]`, 0 seconds in unusable cells.

    Raises:
      ValueError: for more tests or references.
    """
    usable = np.asarray(record.is_usable, bool)
    return arrays.References(
        duration_s=pad_array(np.where(usable, record.duration_s, 0).astype(np.float32), (k, h)),
        std_s=pad_array(np.where(usable, record.std_s, 0).astype(np.float32), (k, h)),
        is_usable=pad_array(usable, (k, h), fill=False),
    )


def pad_execution(execution: arrays.Execution, k: int) -> arrays.Execution:
    """Pad the executions of `r` candidates, `[r, tests]`, to `[r, k]`; padded tests count as not run.

    Args:
      execution: of at most `k` tests.
      k: tests after padding.

    Raises:
      ValueError: for more than `k` tests.
    """
    r = execution.status.shape[0]
    return arrays.Execution(
        status=pad_array(np.asarray(execution.status, np.int32), (r, k), fill=int(arrays.Status.NOT_RUN)),
        duration_s=pad_array(np.asarray(execution.duration_s, np.float32), (r, k)),
    )


def _union(left: Size, right: Size) -> Size:
    return tuple(max(axes) for axes in zip(left, right, strict=True))


def _added_cells(left: Size, right: Size, problems: dict[Size, int]) -> int:
    union = math.prod(_union(left, right))
    return (union - math.prod(left)) * problems[left] + (union - math.prod(right)) * problems[right]
