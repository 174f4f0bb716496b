"""Edge: reference pools that grow with the policy: correct rollouts of an earlier run join the human references.

Read once, before training, from the rollouts that the earlier run kept (`rollout.journal`), so that a run which is
stopped and started again ranks against the same pool. Seconds come back to the clock of the stored references: by the
calibration of the earlier run, and by the drift that each of its rollouts was judged under.
"""

import collections
import dataclasses
import json
import logging
import pathlib
import typing
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from optimrl_jax.arrays import AffineMap, Status
from optimrl_jax.data.dataset import ProblemRecord
from optimrl_jax.jobs.errors import UserError, require
from optimrl_jax.rollout import journal
from optimrl_jax.training.workdir import JOB_FILE

_LOG = logging.getLogger(__name__)
# The fastest distinct programs of each problem; more would crowd the human ones out of small pools.
MOST_LEARNED = 8
SHORTEST_S = 1e-6
Row = Mapping[str, typing.Any]


def with_learned_references(records: Sequence[ProblemRecord], run: str) -> list[ProblemRecord]:
    """Add the fastest correct programs of a run to the references of the problems that they solve.

    Args:
      records: the problems.
      run: workdir of the earlier run; empty returns the records as they are.

    Returns:
      Records in the same order.

    Raises:
      UserError: where the run kept no rollouts.
    """
    if not run:
        return list(records)
    path = pathlib.Path(run)
    rows = journal.read_rollouts(path / journal.FOLDER)
    require(
        bool(rows), "data.learned_references", run, "the workdir of a run that kept its rollouts (grpo.keeps_rollouts)"
    )
    by_problem = collections.defaultdict(list)
    for row in rows:
        if row["is_valid"] and row["is_correct"] and row["program"]:
            by_problem[row["problem"]].append(row)
    clock = _calibration_of(path)
    extended = [extend_references(record, by_problem[record.id], clock) for record in records]
    grown = sum(len(new.reference_id) > len(old.reference_id) for new, old in zip(extended, records, strict=True))
    _LOG.info("%s: learned references for %d of %d problems", run, grown, len(records))
    return extended


def extend_references(record: ProblemRecord, rows: Sequence[Row], clock: AffineMap) -> ProblemRecord:
    """Add the fastest distinct programs among correct rollouts of a problem to its references.

    Args:
      record: the problem.
      rows: its correct rollouts; those that did not succeed on every test of this suite are left out.
      clock: calibration of their run, from stored seconds to live ones; the drift of each rollout comes on top of it.

    Returns:
      The record with up to `MOST_LEARNED` more references, without deviations of their own.
    """
    k = len(record.test_kind)
    known = set(record.reference_program)
    whole = [row for row in rows if len(row["status"]) == k and all(one == Status.SUCCESS for one in row["status"])]
    fastest: dict[str, Row] = {}
    for row in sorted(whole, key=lambda row: _stored_seconds(row, clock).sum()):
        if row["program"] not in known:
            fastest.setdefault(row["program"], row)
    chosen = list(fastest.values())[:MOST_LEARNED]
    if not chosen:
        return record
    stored_s = np.stack([_stored_seconds(row, clock) for row in chosen], axis=1).astype(np.float32)
    success = np.full(stored_s.shape, Status.SUCCESS, record.status.dtype)
    return dataclasses.replace(
        record,
        reference_id=(*record.reference_id, *(f"batch {row['batch']}, sample {row['sample']}" for row in chosen)),
        reference_program=(*record.reference_program, *(row["program"] for row in chosen)),
        reference_speed_class=(*record.reference_speed_class, *("learned",) * len(chosen)),
        duration_s=np.concatenate([record.duration_s, stored_s], axis=1),
        std_s=np.concatenate([record.std_s, np.zeros_like(stored_s)], axis=1),
        runs=np.concatenate([record.runs, np.ones(stored_s.shape, record.runs.dtype)], axis=1),
        status=np.concatenate([record.status, success], axis=1),
    )


def _stored_seconds(row: Row, clock: AffineMap) -> Float[np.ndarray, " k"]:
    """Bring the seconds of a rollout back to the clock of the stored ones."""
    own = journal.drift_of(row).after(clock)
    return np.maximum(SHORTEST_S, (np.array(row["duration_s"], float) - own.offset_s) / own.slope)


def _calibration_of(run: pathlib.Path) -> AffineMap:
    """Read the calibration that a run judged under."""
    try:
        settings = json.loads((run / JOB_FILE).read_text())["settings"]
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{run / JOB_FILE}: expected the settings of a job ({error})") from None
    return AffineMap(settings.get("environment.alpha", 1.0), settings.get("environment.beta_s", 0.0))
