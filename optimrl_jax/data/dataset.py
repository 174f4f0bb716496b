"""Edge: reads a prepared DMC-Optim dataset (ArrayRecord through TFDS, no TensorFlow) as problem records.

First step of every job: records go on to prompts, to the sandbox and, padded (`environment.padding`), to the
environment.
"""

import dataclasses
import itertools
import json
import logging
import pathlib
import re
import typing
from collections.abc import Mapping

import numpy as np

from optimrl_jax import arrays
from optimrl_jax.jobs.errors import UserError

COMPLETION_MARKER = "COMPLETE"
SPLIT_PART = re.compile(r"(?P<name>\w+)(\[:(?P<most>[1-9]\d*)\])?")
_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, eq=False)
class ProblemRecord:
    """One problem as stored: tests, references and their durations; strings and NumPy arrays, unpadded.

    Attributes:
      id: unique within the dataset.
      source: where the problem comes from.
      category: kind of problem, as its source has it.
      statement: the text that a policy reads.
      difficulty: as its source has it; 0 where unknown.
      rating: likewise.
      time_limit_s: the problem's own limit tau_t in seconds.
      memory_limit_bytes: of one run.
      checker: name of the comparison of outputs, or a program that judges them as JSON.
      test_kind: int8`[k]`, `arrays.TestKind`.
      test_input: `k` texts.
      test_output: `k` expected texts.
      reference_id: `h` names.
      reference_program: `h` correct human programs.
      reference_speed_class: `h` names of speed classes.
      incorrect_program: human programs that are wrong.
      duration_s: float32`[k, h]` seconds of each reference on each test; a recorded timeout has the cap, 10 s.
      std_s: float32`[k, h]` seconds, their standard deviation.
      runs: int32`[k, h]`, over how many runs.
      status: int8`[k, h]`, `arrays.Status`.
      measured_under: service, image, host and calibration of those durations.
      robust_cv: interquartile range over median of the references' mean durations on optimization tests.
      length_r: correlation of characters and duration of those tests.
    """

    id: str
    source: str
    category: str
    statement: str
    difficulty: int
    rating: int
    time_limit_s: float
    memory_limit_bytes: int
    checker: str
    test_kind: np.ndarray
    test_input: tuple[str, ...]
    test_output: tuple[str, ...]
    reference_id: tuple[str, ...]
    reference_program: tuple[str, ...]
    reference_speed_class: tuple[str, ...]
    incorrect_program: tuple[str, ...]
    duration_s: np.ndarray
    std_s: np.ndarray
    runs: np.ndarray
    status: np.ndarray
    measured_under: dict[str, str]
    robust_cv: float
    length_r: float

    @property
    def is_usable(self) -> np.ndarray:
        """bool`[k, h]`: cells with a recorded run, timeouts included."""
        return np.isin(self.status, (arrays.Status.SUCCESS, arrays.Status.TIMEOUT))

    @property
    def characters(self) -> np.ndarray:
        """int32`[k]`: Unicode code points of input and expected output together, of each test."""
        texts = zip(self.test_input, self.test_output, strict=True)
        return np.array([len(given) + len(wanted) for given, wanted in texts], np.int32)

    def tests_of(self, kinds: frozenset[int]) -> tuple[int, ...]:
        """Return the indices of the tests whose kind is among `kinds`, in stored order."""
        return tuple(int(index) for index in np.flatnonzero(np.isin(self.test_kind, sorted(kinds))))


def load_records(directory: str | pathlib.Path, split: str, *, field: str = "data.train_split") -> list[ProblemRecord]:
    """Read all records of one split, in stored order.

    Problems without any usable optimization test are counted in the log: their ranking stage is inactive.

    Args:
      directory: of a finished dataset.
      split: one of its splits, or several, each whole or its first problems: `rl_train[:478]+non_filterable[:522]`.
      field: the setting that names the split, for messages.

    Raises:
      UserError: in one line, where the directory is missing or half-written, the split is unknown or empty, or a record
        does not fit its own shape.
    """
    import tensorflow_datasets as tfds

    path = pathlib.Path(directory)
    parts = split_parts(split, field=field)
    _require_complete(path)
    try:
        builder = tfds.builder_from_directory(_builder_directory(path))
        names = sorted(builder.info.splits)
        rows: list[dict[str, typing.Any]] = []
        for name, most in parts:
            if name not in names:
                raise UserError(f"{field} = {name!r}: expected one of {', '.join(names)} in {path}")
            rows += itertools.islice(typing.cast("typing.Any", builder.as_data_source(split=name)), most)
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: expected a readable dmc_optim dataset ({str(error).splitlines()[0]})") from None
    if not rows:
        raise UserError(f"{path}, split {split!r}: expected at least one problem, found none")
    records = [record_from_row(row) for row in rows]
    unranked = sum(not has_ranking(record) for record in records)
    if unranked:
        _LOG.warning("%d of %d problems in %s have no usable optimization test", unranked, len(records), split)
    return records


def split_parts(split: str, *, field: str = "data.train_split") -> list[tuple[str, int | None]]:
    """Read which splits a pool is made of: (name, number of first problems; None for all) of each.

    Args:
      split: such as `rl_train` or `rl_train[:478]+non_filterable[:522]`.

    Raises:
      UserError: for another form, or a split that is named twice.
    """
    found = [SPLIT_PART.fullmatch(part) for part in split.split("+")]
    parts = [(match["name"], int(match["most"]) if match["most"] else None) for match in found if match]
    if len(parts) < len(found) or len({name for name, _ in parts}) < len(parts):
        raise UserError(f"{field} = {split!r}: expected splits such as rl_train[:478]+non_filterable[:522]")
    return parts


def has_ranking(record: ProblemRecord) -> bool:
    """Say whether at least one optimization test has a usable reference duration."""
    return bool(record.is_usable[record.test_kind == arrays.TestKind.OPTIMIZATION].any())


def record_from_row(row: Mapping[str, typing.Any]) -> ProblemRecord:
    """Turn a dataset example into a record.

    Args:
      row: values by the names of the fields of `ProblemRecord`; texts may be bytes.

    Raises:
      UserError: naming the problem, for a missing field, shapes that contradict each other, or seconds that are not
        finite and non-negative.
    """
    name = _text(row["id"])
    values: dict[str, typing.Any] = {}
    for field in dataclasses.fields(ProblemRecord):
        if field.name not in row:
            raise UserError(f"record {name!r}: expected the field {field.name!r}")
        values[field.name] = _field(field.name, row[field.name])
    record = ProblemRecord(**values)
    shape = (len(record.test_input), len(record.reference_program))
    agrees = {"test_kind": record.test_kind.shape == shape[:1], "test_output": len(record.test_output) == shape[0]}
    for matrix in ("duration_s", "std_s", "runs", "status"):
        agrees[matrix] = getattr(record, matrix).shape == shape
    for field_name, fits in agrees.items():
        if not fits:
            raise UserError(f"record {name!r}, {field_name}: expected {shape[0]} tests x {shape[1]} references")
    usable = record.duration_s[record.is_usable]
    if not (np.isfinite(usable).all() and (usable >= 0).all()):
        raise UserError(f"record {name!r}, duration_s: expected finite seconds >= 0 wherever a run is recorded")
    return record


def _field(name: str, value: typing.Any) -> object:
    if name == "measured_under":
        return json.loads(_text(value) or "{}")
    kind = ProblemRecord.__annotations__[name]
    if kind is np.ndarray:
        return np.asarray(value)
    if kind is str:
        return _text(value)
    if kind in (int, float):
        return kind(value)
    return tuple(_text(item) for item in value)


def _text(value: object) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _require_complete(path: pathlib.Path) -> None:
    if not path.is_dir():
        raise UserError(f"data.directory = {str(path)!r}: expected a directory made by beam_pipelines.build_dataset")
    if not (path / COMPLETION_MARKER).exists():
        raise UserError(f"data.directory = {str(path)!r}: expected a finished dataset (no {COMPLETION_MARKER} in it)")


def _builder_directory(path: pathlib.Path) -> str:
    infos = sorted(path.glob("**/dataset_info.json"))
    if not infos:
        raise UserError(f"data.directory = {str(path)!r}: expected a dmc_optim dataset in it (no dataset_info.json)")
    return str(infos[0].parent)
