"""Edge: stores what every sampled program did on every test, so that evaluations are replayed and never rerun.

One Parquet row for each (policy, problem, sample). The human references take part under the policy name `REFERENCES`:
they ran in the same shuffled timing pass and tell how the service stood against the stored durations (sec. 5, "Replayed
evaluation").
"""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from optimrl_jax.errors import UserError

REFERENCES = "references"
SCHEMA = pa.schema(
    [
        ("policy", pa.string()),
        ("problem_id", pa.string()),
        ("sample", pa.int32()),
        ("program", pa.string()),
        ("status", pa.list_(pa.int8())),
        ("duration_s", pa.list_(pa.float32())),
    ]
)


@dataclasses.dataclass(frozen=True, eq=False)
class SampleRecord:
    """One program of one policy on one problem; `status` int8[k] and `duration_s` float32[k] in stored test order."""

    policy: str
    problem_id: str
    sample: int
    program: str
    status: np.ndarray
    duration_s: np.ndarray


def write_records(path: pathlib.Path, samples: Sequence[SampleRecord], *, key: str) -> None:
    """Write all samples at once and atomically; `key` names the question they answer (`stored_key` asks for it)."""
    columns = {field.name: [getattr(sample, field.name) for sample in samples] for field in SCHEMA}
    table = pa.table(columns, schema=SCHEMA.with_metadata({"key": key}))
    partial = path.with_suffix(".partial")
    pq.write_table(table, partial)
    partial.replace(path)


def read_records(path: pathlib.Path) -> list[SampleRecord]:
    """Read all stored samples; raises UserError for a file that is not a record file."""
    try:
        table = pq.read_table(path)
        columns = {field.name: table.column(field.name).to_pylist() for field in SCHEMA}
    except (OSError, pa.ArrowException, KeyError) as error:
        raise UserError(f"{path}: expected stored evaluation records ({str(error).splitlines()[0]})") from None
    rows = zip(*columns.values(), strict=True)
    return [
        SampleRecord(*row[:4], status=np.asarray(row[4], np.int8), duration_s=np.asarray(row[5], np.float32))
        for row in rows
    ]


def stored_key(path: pathlib.Path) -> str | None:
    """Read the key that a record file was written under, or None where there is no such file yet."""
    if not path.exists():
        return None
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: expected stored evaluation records ({str(error).splitlines()[0]})") from None
    return metadata.get(b"key", b"").decode()
