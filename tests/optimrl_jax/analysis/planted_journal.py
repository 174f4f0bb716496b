"""A journal of rollouts whose rates are known: a warm-up without programs, one timeout, one burst of two batches."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from optimrl_jax.arrays import Status
from optimrl_jax.rollout import journal
from tests.optimrl_jax import records

BATCHES, ROLLOUTS = 40, 4
BURST = (20, 21)
# One correctness and one optimization test; references take 10, 20, 30 and 40 ms.
PROBLEM = records.record(name="journal", test_kind=(0, 2))
SETTINGS = {"environment.family": "qar_ranked", "reward.composition": "two_gate_graded"}


def rollout(batch, sample, *, written_ns=1):
    """In batch 0 nothing parses. In the burst, two of four rollouts need the fallback and one is settled by nobody."""
    is_burst = batch in BURST
    status = [Status.SUCCESS, Status.SUCCESS]
    if is_burst and sample == 2:
        status[1] = Status.FAULT
    if batch == 10 and sample == 0:
        status[1] = Status.TIMEOUT
    row = dict.fromkeys(journal.SCHEMA.names)
    return row | {
        "problem": PROBLEM.id,
        "tokens": 10,
        "duration_s": [0.01, 0.015 + 0.01 * sample],
        "drift_slope": 1.0,
        "drift_offset_s": 0.0,
        "batch": batch,
        "place": 0,
        "sample": sample,
        "written_ns": written_ns,
        "program": "" if batch == 0 else "print(1)",
        "status": [int(one) for one in status],
        "reward": -1.0 if is_burst else 0.5,
        "is_valid": True,
        "is_correct": not is_burst,
        "is_fallback": is_burst and sample < 2,
    }


def write_shard(run, rows, name="0.parquet"):
    (run / journal.FOLDER).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=journal.SCHEMA), run / journal.FOLDER / name)


def write_journal(run):
    run.mkdir(parents=True, exist_ok=True)
    (run / "job.json").write_text(json.dumps({"job": "train", "settings": SETTINGS}))
    write_shard(run, [rollout(batch, sample) for batch in range(BATCHES) for sample in range(ROLLOUTS)])
