"""Groups problem records by padded shape and stacks each group, so that the sweep compiles few shapes."""

from collections.abc import Callable, Sequence

import numpy as np

from optimrl_jax.arrays import Status, TestKind, Tests
from optimrl_jax.environment.padding import Record
from optimrl_jax.simulator.problems import Problems


def stack(records: Sequence[Record], *, shape_of: Callable[[Record], tuple[int, int]]) -> list[Problems]:
    """Problems [b, k, h] of each shape (k, h) that `shape_of` gives, in order of shape; records keep their order."""
    grouped: dict[tuple[int, int], list[Record]] = {}
    for record in records:
        grouped.setdefault(shape_of(record), []).append(record)
    return [_stacked(members, *shape) for shape, members in sorted(grouped.items())]


def _stacked(records: Sequence[Record], k: int, h: int) -> Problems:
    shape = (len(records), k, h)
    kind = np.full(shape[:2], TestKind.ORIGINAL, np.int32)
    characters, mask = np.zeros(shape[:2], np.int32), np.zeros(shape[:2], bool)
    duration_s, status = np.zeros(shape, np.float32), np.full(shape, Status.NOT_RUN, np.int32)
    for index, record in enumerate(records):
        tests, references = record.status.shape
        kind[index, :tests] = record.test_kind
        characters[index, :tests] = [
            len(given) + len(wanted) for given, wanted in zip(record.test_input, record.test_output, strict=True)
        ]
        mask[index, :tests] = True
        duration_s[index, :tests, :references] = record.duration_s
        status[index, :tests, :references] = record.status
    return Problems(Tests(kind, characters, mask), duration_s, status)
