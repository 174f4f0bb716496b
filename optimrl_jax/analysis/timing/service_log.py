"""Edge: what the sandbox did to each batch of a training run, read from the journal of its rollouts.

The paper's rates are those of rollouts (App. C.5): a rollout is of the service alone where its text held a program and
every test got a verdict without help; averages over a run hide bursts, so everything is kept batch by batch.
"""

import dataclasses
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from optimrl_jax.arrays import Status
from optimrl_jax.rollout.journal import FOLDER

COLUMNS = ("batch", "place", "sample", "written_ns", "reward", "is_valid", "is_correct", "program", "status")


@dataclasses.dataclass(frozen=True, eq=False)
class ServiceLog:
    """Shares of the rollouts of each batch, `[n]` in order of batches.

    Attributes:
      run: name of the run, that of its directory as it is read.
      batch: number of each batch.
      parsed: rollouts with a program in them.
      service_only: parsed rollouts that the service settled alone, of all rollouts.
      fallback: rollouts with a test that the fallback settled.
      unresolved: rollouts with a test that nobody settled.
      timeouts: tests at their limit, of those that ran.
      reward: mean return of the rollouts that are valid.
      correct: strictly correct rollouts.
    """

    run: str
    batch: np.ndarray
    parsed: np.ndarray
    service_only: np.ndarray
    fallback: np.ndarray
    unresolved: np.ndarray
    timeouts: np.ndarray
    reward: np.ndarray
    correct: np.ndarray


def read_service_log(run: pathlib.Path) -> ServiceLog | None:
    """Read the journal of a training run.

    Args:
      run: workdir of the job.

    Returns:
      None where it has written no rollouts (`grpo.keeps_rollouts`).
    """
    tables = [_read(path) for path in sorted((run / FOLDER).glob("*.parquet"))]
    if not tables:
        return None
    table = pa.concat_tables(tables)
    column = {name: table[name].to_numpy() for name in table.column_names if name not in ("status", "program")}
    status = table["status"].combine_chunks()
    owner = np.repeat(np.arange(len(table)), np.diff(status.offsets.to_numpy()))
    values = status.values.to_numpy()[status.offsets[0].as_py() : status.offsets[-1].as_py()]
    rows = len(table)

    def count(is_counted: np.ndarray) -> np.ndarray:
        return np.bincount(owner[is_counted], minlength=rows)

    has_program = np.array([bool(text) for text in table["program"].to_pylist()])
    is_lost = count(values == Status.FAULT) > 0
    is_alone = has_program & ~is_lost & ~column["is_fallback"]
    kept = _newest(column)
    batch, place = np.unique(column["batch"][kept], return_inverse=True)

    def mean(of: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        weights = np.ones(len(kept)) if weight is None else weight[kept].astype(float)
        total = np.bincount(place, weights * of[kept], len(batch))
        share = np.bincount(place, weights, len(batch))
        return np.divide(total, share, out=np.full(len(batch), np.nan), where=share > 0)

    ran = count(values != Status.NOT_RUN)
    late = np.divide(count(values == Status.TIMEOUT), ran, out=np.zeros(rows), where=ran > 0)
    reward = np.nan_to_num(column["reward"].astype(float))
    return ServiceLog(
        run.name,
        batch,
        mean(has_program),
        mean(is_alone),
        mean(column["is_fallback"]),
        mean(is_lost),
        mean(late, ran),
        mean(reward, column["is_valid"]),
        mean(column["is_correct"]),
    )


def _read(path: pathlib.Path) -> pa.Table:
    """Read one shard; those from before the fallback was written down count as settled without it."""
    names = pq.read_schema(path).names
    if "is_fallback" in names:
        return pq.read_table(path, columns=[*COLUMNS, "is_fallback"])
    table = pq.read_table(path, columns=list(COLUMNS))
    return table.append_column("is_fallback", pa.array(np.zeros(len(table), bool)))


def _newest(column: dict[str, np.ndarray]) -> np.ndarray:
    """Find the newest copy of each rollout: a step that was repeated after a kill is there twice."""
    keys = column["sample"], column["place"], column["batch"]
    order = np.lexsort((column["written_ns"], *keys))
    is_last = np.ones(len(order), bool)
    is_last[:-1] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    return order[is_last]
