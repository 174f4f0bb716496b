"""Edge: mixes for SFT: files of `messages` and programs of datasets, drawn by weight in a seeded order.

Files are read where they are drawn, example by example, so that a mix may be far larger than memory. A line that is no
conversation ends the job with one line that names the file and the line.
"""

import dataclasses
import functools
import json
import logging
import pathlib
import typing
from collections.abc import Callable, Sequence

import grain
import numpy as np
import pyarrow
import pyarrow.parquet

from optimrl_jax.data import chat, dataset, prompts
from optimrl_jax.data.stream import NO_THREADS
from optimrl_jax.jobs.errors import SettingsError, UserError
from optimrl_jax.settings import DataSettings

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


class DatasetPrograms:
    """The reference programs of a prepared dataset as conversations, each an answer to the statement of its problem.

    Every program counts alike, whichever problem it solves and however long it is; a mix leaves out what is longer than
    a row.

    Args:
      directory: of the dataset.
      split: one of its splits or several (`dataset.load_records`).
      data: instruction, system message and prompt function of the job.
      is_chat: the policy has a chat template.

    Raises:
      UserError: where the dataset cannot be read or has no such split.
    """

    def __init__(self, directory: str, split: str, data: DataSettings, *, is_chat: bool) -> None:
        self._records = dataset.load_records(directory, split, field="sft.mix")
        self._data, self._is_chat, self._directory = data, is_chat, directory
        self._ends = np.cumsum([len(record.reference_program) for record in self._records], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: int) -> list[chat.Message]:
        record, program = self._pair(index)
        asked = prompts.question(record.statement, self._data, is_chat=self._is_chat)
        answered = prompts.answer(record.reference_program[program], is_chat=self._is_chat)
        return [*asked, {"role": "assistant", "content": answered}]

    def place(self, index: int) -> str:
        """Say where an example stands, for messages about it."""
        record, program = self._pair(index)
        return f"{self._directory}, {record.id}, program {record.reference_id[program]}"

    def _pair(self, index: int) -> tuple[dataset.ProblemRecord, int]:
        problem = int(np.searchsorted(self._ends, index, side="right"))
        start = int(self._ends[problem - 1]) if problem else 0
        return self._records[problem], index - start


class ConversationSource(typing.Protocol):
    """Conversations by index, each with words for where it stands."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> list[chat.Message]: ...

    def place(self, index: int) -> str:
        """Say where an example stands, for messages about it."""
        ...


READERS = {".jsonl": JsonLinesFile, ".parquet": ParquetFile}


def open_mix(mix: Sequence[tuple[str, float]], data: DataSettings, *, is_chat: bool) -> list[ConversationSource]:
    """Open the sources of a mix.

    Args:
      mix: (name, weight) pairs; a name is a path that ends with one of `READERS`, or the directory of a dataset with
        a split behind a colon, `data.train_split` where there is none.
      data: of the job.
      is_chat: the policy has a chat template.

    Raises:
      UserError: for a source that is missing, empty or malformed.
      SettingsError: for a weight that is not positive or a source of another kind.
    """
    opened = []
    for name, weight in mix:
        if weight <= 0:
            raise SettingsError(f"sft.mix = {(name, weight)!r}: expected a positive weight")
        source = _open_source(name, data, is_chat=is_chat)
        if not len(source):
            raise UserError(f"{name}: expected at least one example")
        _LOG.info("%s: %d examples, weight %g", name, len(source), weight)
        opened.append(source)
    return opened


def _open_source(name: str, data: DataSettings, *, is_chat: bool) -> ConversationSource:
    directory, _, split = name.partition(":")
    if pathlib.Path(directory).is_dir():
        return DatasetPrograms(directory, split or data.train_split, data, is_chat=is_chat)
    path = pathlib.Path(name)
    if path.suffix not in READERS:
        kinds = " or ".join(READERS)
        raise SettingsError(f"sft.mix = {name!r}: expected a file that ends with {kinds}, or DATASET:SPLIT")
    if not path.is_file():
        raise UserError(f"sft.mix = {name!r}: expected a file that exists")
    return READERS[path.suffix](path)


class _Encoding:
    """A source whose examples come encoded; an error of the encoder names the place of the example."""

    def __init__(self, source: ConversationSource, encode: Callable[[list[chat.Message]], chat.EncodedExample]) -> None:
        self._source, self._encode = source, encode

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> chat.EncodedExample:
        messages = self._source[index]
        try:
            return self._encode(messages)
        except ValueError as error:
            raise UserError(f"{self._source.place(index)}: {error}") from None


def stream_mix(
    opened: Sequence[ConversationSource],
    weights: Sequence[float],
    *,
    encode: Callable[[list[chat.Message]], chat.EncodedExample],
    seed: int,
    part: tuple[int, int] = (0, 1),
    epochs: int = 0,
) -> grain.DatasetIterator:
    """Iterate over encoded examples, those of all sources mixed, and each newly shuffled every time it is through.

    An epoch of the mix has each example of a source as often as the source's weight says, on average where that is not
    whole; with equal weights of 1 it is every example once.

    Args:
      opened: the sources (`open_mix`).
      weights: one positive number for each.
      encode: turns messages into an example; its ValueErrors become UserErrors that name the place.
      seed: of the order.
      part: (i, n) takes every n-th example from the i-th on: one of n processes that share a mix.
      epochs: after how many the iterator ends; 0: never.

    Returns:
      An iterator whose position `get_state` and `set_state` move between processes.
    """
    shuffled = [
        grain.MapDataset.source(_Encoding(source, encode)).seed(seed + index).shuffle().repeat()
        for index, source in enumerate(opened)
    ]
    shares = [weight * len(source) for weight, source in zip(weights, opened, strict=True)]
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
