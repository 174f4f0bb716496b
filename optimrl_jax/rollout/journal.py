"""Edge: every judged rollout in Parquet shards under the workdir, for `python -m optimrl_jax.show_rollouts`.

Written beside training and never read by it: a full disk costs shards, never a step. A step that is repeated after a
kill appears twice, and readers keep the newer copy.
"""

import logging
import pathlib
import threading
import time
import types
import typing
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from optimrl_jax.arrays import AffineMap
from optimrl_jax.rollout.execution import CandidateRun
from optimrl_jax.rollout.groups import Group

_LOG = logging.getLogger(__name__)
FOLDER = "rollouts"
SHARD_ROWS = 1024
SCHEMA = pa.schema(
    [
        ("problem", pa.string()),
        ("batch", pa.int64()),
        ("place", pa.int64()),
        ("sample", pa.int64()),
        ("policy_version", pa.int64()),
        ("completion", pa.string()),
        ("program", pa.string()),
        ("tokens", pa.int64()),
        ("is_cut", pa.bool_()),
        ("status", pa.list_(pa.int8())),
        ("duration_s", pa.list_(pa.float32())),
        ("drift_slope", pa.float64()),
        ("drift_offset_s", pa.float64()),
        ("reward", pa.float32()),
        ("advantage", pa.float32()),
        ("is_valid", pa.bool_()),
        ("is_correct", pa.bool_()),
        ("is_fast", pa.bool_()),
        ("is_fallback", pa.bool_()),
        ("written_ns", pa.int64()),
    ]
)

Advantages = Callable[[np.ndarray, np.ndarray, np.ndarray], typing.Any]


class RolloutJournal:
    """Collects the rollouts of all actors of this process and writes a shard for every `SHARD_ROWS` of them.

    A context manager: leaving it writes what is left. Safe to use from several threads. A shard that cannot be written
    is logged and dropped.

    Args:
      directory: where shards go; created with the first one.
      advantages: (reward `[r]`, sampled tokens `[r]`, is_valid `[r]`) -> advantage `[r]`.
    """

    def __init__(self, directory: pathlib.Path, advantages: Advantages) -> None:
        self._directory = directory
        self._advantages = advantages
        self._lock = threading.Lock()
        self._rows: list[dict[str, typing.Any]] = []

    def __enter__(self) -> "RolloutJournal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        with self._lock:
            self._write()

    def add(
        self,
        group: Group,
        *,
        problem: str,
        completions: Sequence[str],
        programs: Sequence[str],
        runs: Sequence[CandidateRun],
    ) -> None:
        """Add the rollouts of one problem.

        Args:
          group: the judged group of `r` rollouts; every sequence below has its order.
          problem: id of the problem.
          completions: `[r]` decoded completions.
          programs: `[r]` programs extracted from them.
          runs: `[r]` what each program did on the tests.
        """
        lengths = group.rollouts.is_completion.sum(axis=1)
        advantage = np.asarray(
            self._advantages(np.asarray(group.reward), np.asarray(lengths), np.asarray(group.is_valid))
        )
        now_ns = time.time_ns()
        rows = [
            {
                "problem": problem,
                "batch": int(group.batch),
                "place": int(group.place),
                "sample": sample,
                "policy_version": int(group.rollouts.policy_version[sample]),
                "completion": completions[sample],
                "program": programs[sample],
                "tokens": int(lengths[sample]),
                "is_cut": bool(group.is_cut[sample]),
                "status": run.status.tolist(),
                "duration_s": run.duration_s.tolist(),
                "drift_slope": run.drift.slope,
                "drift_offset_s": run.drift.offset_s,
                "reward": float(group.reward[sample]),
                "advantage": float(advantage[sample]),
                "is_valid": bool(group.is_valid[sample]),
                "is_correct": bool(group.is_correct[sample]),
                "is_fast": bool(group.is_fast[sample]),
                "is_fallback": run.is_fallback,
                "written_ns": now_ns,
            }
            for sample, run in enumerate(runs)
        ]
        with self._lock:
            self._rows += rows
            if len(self._rows) >= SHARD_ROWS:
                self._write()

    def _write(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        path = self._directory / f"{rows[0]['batch']:08d}-{time.time_ns()}.parquet"
        try:
            self._directory.mkdir(exist_ok=True)
            partial = path.with_suffix(".partial")
            pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), partial, compression="zstd")
            partial.replace(path)
        except OSError as error:
            _LOG.warning("%s: %d rollouts were not written: %s", self._directory, len(rows), error.strerror or error)


def read_rollouts(directory: pathlib.Path) -> list[dict[str, typing.Any]]:
    """Read all rollouts of a journal, keeping the newest copy of each.

    Args:
      directory: with the shards; one that does not exist has no rollouts.

    Returns:
      One dict with the columns of `SCHEMA` for each rollout, in order of batch, place and sample. Shards of runs that
      kept no drift get the identity.
    """
    newest: dict[tuple[int, int, int], dict[str, typing.Any]] = {}
    for path in sorted(directory.glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            key = row["batch"], row["place"], row["sample"]
            if key not in newest or newest[key]["written_ns"] <= row["written_ns"]:
                newest[key] = row
    return [_with_drift(newest[key]) for key in sorted(newest)]


def drift_of(row: Mapping[str, typing.Any]) -> AffineMap:
    """Return the map from stored seconds to those of the clock that a rollout of `read_rollouts` met."""
    return AffineMap(row["drift_slope"], row["drift_offset_s"])


def _with_drift(row: dict[str, typing.Any]) -> dict[str, typing.Any]:
    is_known = row.get("drift_slope") is not None
    return row if is_known else row | {"drift_slope": 1.0, "drift_offset_s": 0.0}
