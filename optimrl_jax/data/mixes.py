"""Edge: reasoning mixes for SFT: JSONL or Parquet files of `messages`, drawn by weight in a seeded order.

Files are read where they are drawn, example by example, so that a mix may be far larger than memory. A line that is no
conversation ends the job with one line that names the file and the line.
"""

import dataclasses
import functools
import json
import logging
import pathlib
from collections.abc import Callable, Sequence

import grain
import numpy as np
import pyarrow
import pyarrow.parquet

from optimrl_jax.data import chat
from optimrl_jax.data.stream import NO_THREADS
from optimrl_jax.jobs.errors import SettingsError, UserError

_LOG = logging.getLogger(__name__)
KEPT_GROUPS = 16
# A mix of which nothing fits must not be drawn from for ever.
MAX_LEFT_OUT = 1000


class JsonLinesFile:
    """The conversations of a JSONL file by index; only where each line begins is kept in memory."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        starts, numbers, position = [], [], 0
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    starts.append(position)
                    numbers.append(number)
                position += len(line)
        self._starts, self._numbers = np.asarray(starts, np.int64), np.asarray(numbers, np.int64)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> list[chat.Message]:
        with self._path.open("rb") as file:
            file.seek(int(self._starts[index]))
            line = file.readline()
        try:
            return chat.require_messages(json.loads(line))
        except ValueError as error:
            raise UserError(f"{self.place(index)}: {error}") from None

    def place(self, index: int) -> str:
        """Say where an example stands, for messages about it."""
        return f"{self._path}, line {self._numbers[index]}"


class ParquetFile:
    """The conversations in the column `messages` of a Parquet file by index; a few row groups are kept in memory."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        try:
            self._file = pyarrow.parquet.ParquetFile(path, memory_map=True)
        except (pyarrow.ArrowException, OSError) as error:
            raise UserError(f"{path}: expected a Parquet file ({str(error).splitlines()[0]})") from None
        if "messages" not in self._file.schema_arrow.names:
            raise UserError(f"{path}: expected a column messages")
        groups = range(self._file.num_row_groups)
        self._ends = np.cumsum([self._file.metadata.row_group(group).num_rows for group in groups], dtype=np.int64)
        self._group = functools.lru_cache(KEPT_GROUPS)(self._read)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: int) -> list[chat.Message]:
        group = int(np.searchsorted(self._ends, index, side="right"))
        start = int(self._ends[group - 1]) if group else 0
        try:
            return chat.require_messages({"messages": self._group(group)[index - start].as_py()})
        except ValueError as error:
            raise UserError(f"{self.place(index)}: {error}") from None

    def place(self, index: int) -> str:
        """Say where an example stands, for messages about it."""
        return f"{self._path}, row {index + 1}"

    def _read(self, group: int) -> pyarrow.ChunkedArray:
        return self._file.read_row_group(group, columns=["messages"])["messages"]


READERS = {".jsonl": JsonLinesFile, ".parquet": ParquetFile}
ConversationFile = JsonLinesFile | ParquetFile


def open_mix(mix: Sequence[tuple[str, float]]) -> list[ConversationFile]:
    """Open the files of a mix.

    Args:
      mix: (path, weight) pairs; a path ends with one of `READERS`.

    Raises:
      UserError: for a file that is missing, empty or malformed.
      SettingsError: for a weight that is not positive or a file of another kind.
    """
    opened = []
    for name, weight in mix:
        path = pathlib.Path(name)
        if weight <= 0:
            raise SettingsError(f"sft.mix = {(name, weight)!r}: expected a positive weight")
        if path.suffix not in READERS:
            raise SettingsError(f"sft.mix = {name!r}: expected a file that ends with {' or '.join(READERS)}")
        if not path.is_file():
            raise UserError(f"sft.mix = {name!r}: expected a file that exists")
        source = READERS[path.suffix](path)
        if not len(source):
            raise UserError(f"{path}: expected at least one example")
        _LOG.info("%s: %d examples, weight %g", path, len(source), weight)
        opened.append(source)
    return opened


class _Encoding:
    """A file whose examples come encoded; an error of the encoder names the place of the example."""

    def __init__(self, file: ConversationFile, encode: Callable[[list[chat.Message]], chat.EncodedExample]) -> None:
        self._file, self._encode = file, encode

    def __len__(self) -> int:
        return len(self._file)

    def __getitem__(self, index: int) -> chat.EncodedExample:
        messages = self._file[index]
        try:
            return self._encode(messages)
        except ValueError as error:
            raise UserError(f"{self._file.place(index)}: {error}") from None


def stream_mix(
    opened: Sequence[ConversationFile],
    weights: Sequence[float],
    *,
    encode: Callable[[list[chat.Message]], chat.EncodedExample],
    seed: int,
    part: tuple[int, int] = (0, 1),
    epochs: int = 0,
) -> grain.DatasetIterator:
    """Iterate over encoded examples, those of all files mixed, and each file newly shuffled every time it is through.

    An epoch of the mix has each example of a file as often as the file's weight says, on average where that is not
    whole; with equal weights of 1 it is every example once.

    Args:
      opened: the files (`open_mix`).
      weights: one positive number for each.
      encode: turns messages into an example; its ValueErrors become UserErrors that name the place.
      seed: of the order.
      part: (i, n) takes every n-th example from the i-th on: one of n processes that share a mix.
      epochs: after how many the iterator ends; 0: never.

    Returns:
      An iterator whose position `get_state` and `set_state` move between processes.
    """
    shuffled = [
        grain.MapDataset.source(_Encoding(file, encode)).seed(seed + index).shuffle().repeat()
        for index, file in enumerate(opened)
    ]
    shares = [weight * len(file) for weight, file in zip(weights, opened, strict=True)]
    mixed = grain.MapDataset.mix(shuffled, weights=shares)
    if epochs:
        mixed = mixed[: round(epochs * sum(shares))]
    return mixed[part[0] :: part[1]].to_iter_dataset(NO_THREADS).__iter__()


@dataclasses.dataclass(frozen=True, eq=False)
class ExampleStep:
    """The examples of one optimizer step.

    Attributes:
      examples: those that are trained on.
      left_out: number of drawn examples that were longer than a row.
    """

    examples: list[chat.EncodedExample]
    left_out: int


class ExampleSteps:
    """Draws the examples of one step after another; its state is plain data that JSON can keep.

    Args:
      examples: a stream of encoded examples.
      batch: examples of a step; not read where `batch_tokens` is set.
      batch_tokens: tokens of a step, at most; 0 counts examples instead.
      longest: tokens of an example, at most; longer ones are left out.
    """

    def __init__(self, examples: grain.DatasetIterator, *, batch: int, batch_tokens: int, longest: int) -> None:
        self._examples = examples
        self._batch, self._batch_tokens, self._longest = batch, batch_tokens, longest

    def __next__(self) -> ExampleStep:
        """Take `batch` examples; or, with `batch_tokens`, as many as come before the one that would exceed them.

        A stream that ends gives what is left, and then steps without any examples.

        Raises:
          UserError: where a thousand examples of one step are too long.
        """
        taken: list[chat.EncodedExample] = []
        total = left_out = 0
        while self._batch_tokens or len(taken) < self._batch:
            before = self._examples.get_state()
            example = next(self._examples, None)
            if example is None:
                break
            length = len(example.tokens)
            if length > self._longest:
                left_out += 1
                if left_out == MAX_LEFT_OUT:
                    raise UserError(f"data.row_tokens = {self._longest}: expected room for the examples of sft.mix")
                continue
            if self._batch_tokens and total + length > self._batch_tokens:
                self._examples.set_state(before)
                break
            total += length
            taken.append(example)
        return ExampleStep(taken, left_out)

    def get_state(self) -> dict:
        """Return the position in the stream of examples."""
        return self._examples.get_state()

    def set_state(self, state: dict) -> None:
        """Go to a position that `get_state` returned."""
        self._examples.set_state(state)
