"""Edge: keeps what became of each problem in a file of its own, so that memory stays flat and retries overwrite.

Every file is written under a temporary name and renamed, and named after the problem's id and statement: a bundle that
a runner executes twice, or a build that is killed and started again, ends with the same set of files.
"""

import base64
import dataclasses
import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
from etils import epath

from beam_pipelines.matrices import Executions, Timings
from beam_pipelines.records import Generator, Label, Problem, Rejection, Solution, StageCount, Test


def record_to_json(record: Problem | Rejection) -> str:
    """One JSON object; `from_json` gives back an equal record."""
    value = {"record": type(record).__name__, **dataclasses.asdict(record)}
    return json.dumps(value, separators=(",", ":"), default=_array_as_text)


def record_from_json(text: str) -> Problem | Rejection:
    """The record that `to_json` wrote."""
    value = json.loads(text)
    kind = value.pop("record")
    value["trace"] = tuple(StageCount(**{**one, "notes": _pairs(one["notes"])}) for one in value["trace"])
    if kind == "Rejection":
        return Rejection(**value)
    value["solutions"] = tuple(Solution(**{**one, "label": Label(one["label"])}) for one in value["solutions"])
    value["tests"] = tuple(Test(**one) for one in value["tests"])
    value["generators"] = tuple(Generator(**{**one, "commands": tuple(one["commands"])}) for one in value["generators"])
    value["timings"] = _matrices(Timings, value["timings"])
    value["executions"] = _matrices(Executions, value["executions"])
    value["measured_under"] = _pairs(value["measured_under"])
    return Problem(**value)


class WriteRecords(beam.PTransform):
    """Writes every problem or rejection it is given into `directory`; the end of the pipeline."""

    def __init__(self, directory: str, *, label: str) -> None:
        super().__init__(label=label)
        self._directory = directory

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        return records | f"{self.label} one by one" >> beam.Map(write_record, directory=self._directory)


def write_record(record: Problem | Rejection, *, directory: str) -> str:
    """Puts a record into its file atomically and returns the file's name."""
    is_problem = isinstance(record, Problem)
    told_apart_by = (record.id, record.statement) if is_problem else (record.problem_id, record.reason)
    name = hashlib.sha256("\n".join(told_apart_by).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    path = epath.Path(directory) / f"{name}.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f"{name}.{os.getpid()}.part"
    temporary.write_bytes(
        gzip.compress(record_to_json(record).encode("utf-8", "surrogatepass"), compresslevel=3, mtime=0)
    )
    temporary.replace(path)
    return str(path)


def read_records(directory: epath.PathLike) -> Iterator[Problem | Rejection]:
    """All records of a directory, one at a time, in the order of their file names."""
    for path in sorted(epath.Path(directory).glob("*.json.gz")):
        yield _record(path)


def remove_repeated(directory: epath.PathLike) -> list[Rejection]:
    """Removes problems whose id an earlier file of the directory has already, and says so: ids name problems."""
    seen: set[str] = set()
    removed = []
    for path in sorted(epath.Path(directory).glob("*.json.gz")):
        problem = _record(path)
        if problem.id in seen:
            path.unlink()
            removed.append(Rejection(problem.id, "read", "repeated_id", trace=problem.trace))
        seen.add(problem.id)
    return removed


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


def _pairs(rows: Iterable[Iterable[object]]) -> tuple[tuple[object, ...], ...]:
    return tuple(tuple(row) for row in rows)
