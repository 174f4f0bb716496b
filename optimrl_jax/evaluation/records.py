"""Edge: stores what every sampled program did on every test, so that evaluations are replayed and never rerun.

A directory of records is all that an analysis needs: `records.parquet` has one row for each (policy, problem, sample),
`problems.parquet` one for each problem with its stored reference durations. The human references take part under the
policy name `REFERENCES`: they ran in the same shuffled timing pass and tell how the service stood against the stored
durations (sec. 5, "Replayed evaluation").
"""

import dataclasses
import hashlib
import json
import pathlib
import typing
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from optimrl_jax.arrays import Execution, Status, TestKind
from optimrl_jax.data.dataset import ProblemRecord
from optimrl_jax.jobs.errors import UserError

REFERENCES = "references"
RECORDS, PROBLEMS = "records.parquet", "problems.parquet"
SAMPLE_SCHEMA = pa.schema(
    [
        ("policy", pa.string()),
        ("problem_id", pa.string()),
        ("sample", pa.int32()),
        ("program", pa.string()),
        ("status", pa.list_(pa.int8())),
        ("duration_s", pa.list_(pa.float32())),
        ("tokens", pa.int32()),
        ("is_cut", pa.bool_()),
    ]
)
PROBLEM_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("sha256", pa.string()),
        ("source", pa.string()),
        ("category", pa.string()),
        ("statement", pa.string()),
        ("difficulty", pa.int32()),
        ("rating", pa.int32()),
        ("time_limit_s", pa.float32()),
        ("test_kind", pa.list_(pa.int8())),
        ("characters", pa.list_(pa.int32())),
        ("reference_id", pa.list_(pa.string())),
        ("reference_program", pa.list_(pa.string())),
        ("duration_s", pa.list_(pa.list_(pa.float32()))),
        ("std_s", pa.list_(pa.list_(pa.float32()))),
        ("status", pa.list_(pa.list_(pa.int8()))),
    ]
)
ARRAY_TYPES = {"test_kind": np.int8, "characters": np.int32, "duration_s": np.float32, "std_s": np.float32}


@dataclasses.dataclass(frozen=True, eq=False)
class SampleRecord:
    """One program of one policy on one problem.

    Attributes:
      policy: its name in the evaluation, or `REFERENCES`.
      problem_id: of the problem.
      sample: number of the program, from 0.
      program: its text.
      status: int8`[k]` values of `Status`, in stored test order.
      duration_s: float32`[k]` measured seconds.
      tokens: length of the completion; -1 where it is not known.
      is_cut: the completion filled its room without ending.
    """

    policy: str
    problem_id: str
    sample: int
    program: str
    status: np.ndarray
    duration_s: np.ndarray
    tokens: int = -1
    is_cut: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class StoredProblem:
    """What an analysis needs of a problem, `k` tests by `h` references.

    Fields that are not listed mean what they mean in `data.dataset.ProblemRecord`.

    Attributes:
      sha256: hash of what decides verdicts and places (`content_sha256`).
      characters: int32`[k]` of input and expected output together.
    """

    id: str
    sha256: str
    source: str
    category: str
    statement: str
    difficulty: int
    rating: int
    time_limit_s: float
    test_kind: np.ndarray
    characters: np.ndarray
    reference_id: tuple[str, ...]
    reference_program: tuple[str, ...]
    duration_s: np.ndarray
    std_s: np.ndarray
    status: np.ndarray

    @property
    def is_usable(self) -> np.ndarray:
        """bool`[k, h]`: cells with a recorded run, timeouts included."""
        return np.isin(self.status, (Status.SUCCESS, Status.TIMEOUT))

    @property
    def is_optimization(self) -> np.ndarray:
        """bool`[k]`: the tests whose seconds count."""
        return np.asarray(self.test_kind) == TestKind.OPTIMIZATION


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation:
    """A stored evaluation.

    Attributes:
      problems: in the order in which scores list them.
      samples: of all policies and of the references.
      facts: the question's `key`, the `pass` that timed everything, and `policies`: {name: source, step, seed, recipe}.
    """

    problems: list[StoredProblem]
    samples: list[SampleRecord]
    facts: dict[str, typing.Any]


def content_sha256(record: ProblemRecord) -> str:
    """Hash what decides verdicts and places: tests with their kinds, checker, memory limit and reference programs."""
    content = (
        record.id,
        record.checker,
        record.memory_limit_bytes,
        [int(kind) for kind in record.test_kind],
        record.test_input,
        record.test_output,
        record.reference_program,
        hashlib.sha256(np.asarray(record.duration_s).tobytes()).hexdigest(),
        hashlib.sha256(np.asarray(record.status).tobytes()).hexdigest(),
    )
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def stored_problem(record: ProblemRecord) -> StoredProblem:
    """Keep of a dataset's record what analyses read: all but inputs and outputs of tests and wrong programs."""
    names = [field.name for field in dataclasses.fields(StoredProblem) if field.name != "sha256"]
    return StoredProblem(sha256=content_sha256(record), **{name: getattr(record, name) for name in names})


def write_evaluation(directory: pathlib.Path, evaluation: Evaluation) -> None:
    """Write problems, then samples with the facts; each file atomically.

    Samples come last: where they are, the problems are too.

    Args:
      directory: exists already; older records in it are replaced.
      evaluation: what to store.
    """
    _write(directory / PROBLEMS, PROBLEM_SCHEMA, evaluation.problems, {})
    _write(directory / RECORDS, SAMPLE_SCHEMA, evaluation.samples, evaluation.facts)


def read_evaluation(directory: pathlib.Path) -> Evaluation:
    """Read a directory of records.

    Args:
      directory: that `write_evaluation` wrote to.

    Raises:
      UserError: where there are none, or they cannot be read.
    """
    table = _read(directory / RECORDS, SAMPLE_SCHEMA)
    samples = [
        SampleRecord(
            **row
            | {"status": np.asarray(row["status"], np.int8), "duration_s": np.asarray(row["duration_s"], np.float32)}
        )
        for row in table.to_pylist()
    ]
    problems = [_problem_of(row) for row in _read(directory / PROBLEMS, PROBLEM_SCHEMA).to_pylist()]
    return Evaluation(problems, samples, json.loads((table.schema.metadata or {}).get(b"facts", b"{}")))


def stored_facts(directory: pathlib.Path) -> dict[str, typing.Any]:
    """Read the facts of stored records alone; empty where there are none yet.

    Raises:
      UserError: for a file that is not one of records.
    """
    path = directory / RECORDS
    if not path.exists():
        return {}
    try:
        return json.loads((pq.read_schema(path).metadata or {}).get(b"facts", b"{}"))
    except (OSError, pa.ArrowException, ValueError) as error:
        raise _unreadable(path, error) from None


def _problem_of(row: dict[str, typing.Any]) -> StoredProblem:
    k, h = len(row["test_kind"]), len(row["reference_id"])
    arrays = {name: np.asarray(row[name], kind) for name, kind in ARRAY_TYPES.items()} | {
        "status": np.asarray(row["status"], np.int8)
    }
    matrices = {name: arrays[name].reshape(k, h) for name in ("duration_s", "std_s", "status")}
    texts = {name: tuple(row[name]) for name in ("reference_id", "reference_program")}
    fields: dict[str, typing.Any] = {**row, **arrays, **matrices, **texts}
    return StoredProblem(**fields)


def _write(path: pathlib.Path, schema: pa.Schema, rows: Sequence[object], facts: dict[str, typing.Any]) -> None:
    columns = {field.name: [_plain(getattr(row, field.name)) for row in rows] for field in schema}
    table = pa.table(columns, schema=schema.with_metadata({"facts": json.dumps(facts)}))
    partial = path.with_suffix(".partial")
    pq.write_table(table, partial)
    partial.replace(path)


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _read(path: pathlib.Path, schema: pa.Schema) -> pa.Table:
    try:
        table = pq.read_table(path)
        return table.select(schema.names)
    except (OSError, pa.ArrowException, KeyError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: pathlib.Path, error: Exception) -> UserError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return UserError(f"{path}: expected stored evaluation records ({reason})")


def executions_of(evaluation: Evaluation, policy: str) -> list[Execution]:
    """Stack the runs of one policy, problem by problem.

    Args:
      evaluation: stored problems and samples.
      policy: its name, or `REFERENCES`.

    Returns:
      `[n, k]` of each problem, in the order of the evaluation's problems and of the samples' numbers.

    Raises:
      UserError: where a problem has no sample of the policy; references of a problem without any are `[0, k]`.
    """
    by_problem: dict[str, list[SampleRecord]] = {problem.id: [] for problem in evaluation.problems}
    for sample in evaluation.samples:
        if sample.policy == policy:
            by_problem[sample.problem_id].append(sample)
    return [_stack_samples(problem, by_problem[problem.id], policy) for problem in evaluation.problems]


def _stack_samples(problem: StoredProblem, samples: list[SampleRecord], policy: str) -> Execution:
    if samples:
        return Execution.stack(sorted(samples, key=lambda sample: sample.sample))
    if policy == REFERENCES and not problem.reference_id:
        return Execution(
            np.zeros((0, len(problem.test_kind)), np.int8), np.zeros((0, len(problem.test_kind)), np.float32)
        )
    raise UserError(f"problem {problem.id!r}: expected a stored sample of policy {policy!r}")
