"""Edge: keeps what became of each record in a file of its own, so that memory stays flat and work is done once.

Every file is written under a temporary name, renamed, and named after the record's place in its source, whatever became
of it: a bundle that a runner executes twice, or a build that is killed and started again, ends with one file for each
record that was read. What a stage took long for is kept as a checkpoint until the build ends.
"""

import base64
import dataclasses
import gzip
import hashlib
import json
import typing
import uuid
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
from etils import epath

from beam_pipelines.matrices import Executions, Timings
from beam_pipelines.records import Generator, Label, Problem, Rejection, ReviewCase, Solution, StageCount, Test

Kind = typing.TypeVar("Kind")
SUFFIX = ".json.gz"


def record_to_json(record: Problem | Rejection) -> str:
    """Write a record as one JSON object, from which `record_from_json` makes an equal record."""
    value = {"record": type(record).__name__, **dataclasses.asdict(record)}
    return json.dumps(value, separators=(",", ":"), default=_array_as_text)


def record_from_json(text: str) -> Problem | Rejection:
    """Read a record that `record_to_json` wrote."""
    value: dict[str, typing.Any] = json.loads(text)
    kind = value.pop("record")
    value["trace"] = tuple(_stage_count(one) for one in value["trace"])
    value["reviews"] = tuple(_made(ReviewCase, one, solutions=tuple(one["solutions"])) for one in value["reviews"])
    if kind == "Rejection":
        return Rejection(**value)
    value["solutions"] = tuple(Solution(**{**one, "label": Label(one["label"])}) for one in value["solutions"])
    value["tests"] = tuple(Test(**one) for one in value["tests"])
    value["generators"] = tuple(_made(Generator, one, commands=tuple(one["commands"])) for one in value["generators"])
    value["tags"] = tuple(value["tags"])
    value["timings"] = _matrices(Timings, value["timings"])
    value["executions"] = _matrices(Executions, value["executions"])
    value["measured_under"] = _pairs(value["measured_under"])
    return Problem(**value)


class WriteRecords(beam.PTransform):
    """Writes every problem or rejection it is given into `directory`; the end of the pipeline."""

    def __init__(self, directory: str, *, label: str) -> None:
        super().__init__(label=label)
        self._directory = directory

    def expand(self, input_or_inputs: beam.PCollection) -> beam.PCollection:
        """Write each record on the worker that has it, and return the names of the files."""
        return input_or_inputs | f"{self.label} one by one" >> beam.Map(write_record, directory=self._directory)


def record_path(record: Problem | Rejection, directory: epath.PathLike) -> epath.Path:
    """Return the file of a record: named by its key or, for records without one, by a hash of what tells it apart.

    Args:
      record: a problem (told apart by id and statement) or a rejection (by id and reason).
      directory: where records lie.
    """
    is_problem = isinstance(record, Problem)
    told_apart_by = (record.id, record.statement) if is_problem else (record.problem_id, record.reason)
    name = hashlib.sha256("\n".join(told_apart_by).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return epath.Path(directory) / f"{record.key or name}{SUFFIX}"


def write_record(record: Problem | Rejection, *, directory: str) -> str:
    """Put a record into its file, atomically, and return the file's name; the directory is made if need be."""
    return _write(record, record_path(record, directory))


def is_stored(record: Problem | Rejection, directory: epath.PathLike) -> bool:
    """Tell whether an earlier run of the build already finished this record; False for a record without a key."""
    return bool(record.key) and record_path(record, directory).exists()


def read_records(directory: epath.PathLike) -> Iterator[Problem | Rejection]:
    """Yield all records of a directory, one at a time, in the order of their file names.

    A directory that does not exist gives none.
    """
    for path in sorted(epath.Path(directory).glob(f"*{SUFFIX}")):
        yield _record(path)


def read_problems(directory: epath.PathLike) -> Iterator[Problem]:
    """Yield the problems among the records of a directory, in the order of their file names."""
    return (record for record in read_records(directory) if isinstance(record, Problem))


def count_records(directory: epath.PathLike) -> int:
    """Return how many records a directory holds; 0 for one that does not exist."""
    return sum(1 for _ in epath.Path(directory).glob(f"*{SUFFIX}"))


def reject_repeated(directory: epath.PathLike) -> int:
    """Turn every problem whose id an earlier file already has into a rejection, in its file.

    Args:
      directory: where the records lie.

    Returns:
      How many problems were turned down.
    """
    seen: set[str] = set()
    count = 0
    for path in sorted(epath.Path(directory).glob(f"*{SUFFIX}")):
        record = _record(path)
        if isinstance(record, Problem) and record.id in seen:
            _write(Rejection(record.id, "read", "repeated_id", trace=record.trace, key=record.key), path)
            count += 1
        elif isinstance(record, Problem):
            seen.add(record.id)
    return count


def move_records(source: epath.Path, target: epath.Path) -> epath.Path:
    """Move the records of a directory to another one, in place of what is there.

    Args:
      source: directory of records; gone afterwards.
      target: directory that is replaced; may lie on another file system.

    Returns:
      The target.
    """
    target.rmtree(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    # The two may lie on different file systems, where a rename is not possible.
    target.mkdir()
    for path in source.glob(f"*{SUFFIX}"):
        path.copy(target / path.name)
    source.rmtree()
    return target


def write_checkpoint(outcome: Problem | Rejection, *, directory: str, stage: str) -> None:
    """Keep what a stage made of a problem, for a bundle that the runner tries again.

    Args:
      outcome: what the stage decided.
      directory: of all checkpoints.
      stage: the stage's name.
    """
    _write(outcome, _checkpoint_path(outcome, directory=directory, stage=stage))


def read_checkpoint(problem: Problem, *, directory: str, stage: str) -> Problem | Rejection | None:
    """Return what an earlier try of the stage made of this problem; None where it kept nothing.

    Args:
      problem: as the stage receives it.
      directory: of all checkpoints.
      stage: the stage's name.
    """
    path = _checkpoint_path(problem, directory=directory, stage=stage)
    return _record(path) if path.exists() else None


def _checkpoint_path(record: Problem | Rejection, *, directory: str, stage: str) -> epath.Path:
    return record_path(record, epath.Path(directory) / stage)


def _write(record: Problem | Rejection, path: epath.Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Threads and processes of several hosts may write the same record; each renames a file of its own.
    temporary = path.parent / f"{path.name}.{uuid.uuid4().hex}.part"
    # Without a time in its header, the same record gives the same bytes in every run.
    content = gzip.compress(record_to_json(record).encode("utf-8", "surrogatepass"), compresslevel=3, mtime=0)
    try:
        temporary.write_bytes(content)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        # What fails while writing does not say where, and the disk that is full may be one of several.
        raise OSError(error.errno, error.strerror or str(error), str(path.parent)) from None
    temporary.replace(path)
    return str(path)


def _record(path: epath.Path) -> Problem | Rejection:
    return record_from_json(gzip.decompress(path.read_bytes()).decode("utf-8", "surrogatepass"))


def _array_as_text(array: np.ndarray) -> dict[str, object]:
    return {"dtype": array.dtype.str, "shape": array.shape, "base64": base64.b64encode(array.tobytes()).decode()}


def _matrices(kind: type, value: dict[str, dict] | None) -> object:
    if value is None:
        return None
    return kind(
        **{
            name: np.frombuffer(base64.b64decode(one["base64"]), one["dtype"]).reshape(one["shape"])
            for name, one in value.items()
        }
    )


def _made(kind: type[Kind], value: dict[str, typing.Any], **changed: object) -> Kind:
    """Make an instance from parsed fields, some of them changed from the form that JSON gives."""
    return kind(**(value | changed))


def _stage_count(value: dict[str, typing.Any]) -> StageCount:
    return _made(StageCount, value, notes=tuple((name, number) for name, number in value["notes"]))


def _pairs(rows: Iterable[Iterable[object]]) -> tuple[tuple[object, ...], ...]:
    return tuple(tuple(row) for row in rows)
