"""Edge: the order in which problems and programs reach a job, as Grain pipelines whose position can be stored.

Each epoch is a new shuffle of all problems, derived from the seed alone. `get_state` and `set_state` of the iterators
move between processes: the next element is the one that would have come.
"""

from collections.abc import Sequence
from typing import TypeVar

import grain
import numpy as np

from optimrl_jax.data.dataset import ProblemRecord

Element = TypeVar("Element")
MAX_EPOCHS = 1 << 32
NO_THREADS = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


def problem_batches(records: Sequence[Element], *, batch: int, seed: int) -> grain.DatasetIterator:
    """Iterate endlessly over batches of problems; a batch may straddle two epochs.

    Args:
      records: at least one.
      batch: problems of a batch.
      seed: of the order; each epoch is a new shuffle.

    Returns:
      An iterator over lists, whose position `get_state` and `set_state` move between processes.
    """
    return _endless(records, seed).batch(batch, batch_fn=list).to_iter_dataset(NO_THREADS).__iter__()


def problem_stream(records: Sequence[Element], *, seed: int, part: tuple[int, int] = (0, 1)) -> grain.DatasetIterator:
    """Iterate over the problems of `problem_batches` one by one, in the same order.

    Args:
      records: at least one.
      seed: of the order.
      part: (i, n) takes every n-th problem from the i-th on: one of n processes.
    """
    return _endless(records, seed)[part[0] :: part[1]].to_iter_dataset(NO_THREADS).__iter__()


def example_batches(
    records: Sequence[ProblemRecord], *, batch: int, seed: int, part: tuple[int, int] = (0, 1)
) -> grain.DatasetIterator:
    """Iterate endlessly over batches of (statement, program) pairs: uniform over problems, then over references.

    Args:
      records: each with at least one reference program.
      batch: pairs of a batch.
      seed: of order and choice.
      part: (i, n) takes every n-th pair from the i-th on: one of n processes that share the steps.
    """

    def choose(record: ProblemRecord, rng: np.random.Generator) -> tuple[str, str]:
        return record.statement, record.reference_program[rng.integers(len(record.reference_program))]

    share = _endless(records, seed).random_map(choose)[part[0] :: part[1]]
    return share.batch(batch, batch_fn=list).to_iter_dataset(NO_THREADS).__iter__()


def _endless(records: Sequence[Element], seed: int) -> grain.MapDataset:
    # A number of epochs, because an endless stream in batches of one is longer than Python's sequences may be.
    return grain.MapDataset.source(records).seed(seed).shuffle().repeat(MAX_EPOCHS)
