"""Runs with one of the sinks' own packages: a job writes figures, ends, and goes on; then they are read back.

`python -m tests.ecosystem.write_figures SINK DIRECTORY`; prints [[step, loss], ...] as that package has stored them.
"""

import contextlib
import importlib
import json
import os
import pathlib
import sqlite3
import struct
import sys
import time
import typing
from collections.abc import Iterator

from optimrl_jax.settings import MetricsSettings, Settings
from optimrl_jax.training import metric_sinks

Points = list[list[float]]
BLOCK, WHOLE, LAST = 32768, 1, 4


def main(sink: str, directory: str) -> None:
    job = pathlib.Path(directory)
    settings = Settings(metrics=MetricsSettings(sinks=(sink,), project="optimrl", name="run"))
    metric_sinks.check_sinks(settings.metrics)
    for first, last in ((0, 3), (3, 5)):
        (opened,) = metric_sinks.sink_opener(settings)(job, first)
        for step in range(first, last):
            opened.write(step, {"loss": 2.0**-step, "updated": 1})
        opened.close()
        # TensorBoard's files are named after the second.
        time.sleep(1.1)
    print(json.dumps(STORED[sink](job)))


def tensorboard_points(job: pathlib.Path) -> Points:
    events: typing.Any = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    read = events.EventAccumulator(str(job / "tensorboard"))
    read.Reload()
    return [[point.step, point.value] for point in read.Scalars("loss")]


def wandb_points(job: pathlib.Path) -> Points:
    """Read the files that wait for `wandb sync`, those of both starts."""
    # Its service writes the last blocks as it ends.
    importlib.import_module("wandb").teardown()
    records: typing.Any = importlib.import_module("wandb.proto.wandb_internal_pb2")
    points = []
    for path in job.glob("wandb/offline-run-*/*.wandb"):
        for data in log_entries(path.read_bytes()):
            record = records.Record()
            record.ParseFromString(data)
            row = {item.key or ".".join(item.nested_key): item.value_json for item in record.history.item}
            if "loss" in row:
                points.append([float(row["_step"]), float(row["loss"])])
    return sorted(points)


def log_entries(content: bytes) -> Iterator[bytes]:
    """Yield what a write-ahead log holds: blocks of 32 KiB; checksum, length and kind before each part of an entry."""
    place, entry = 7, b""
    while place + 7 <= len(content):
        if place % BLOCK > BLOCK - 7:
            place += BLOCK - place % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        entry += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (WHOLE, LAST):
            yield entry
            entry = b""


def mlflow_points(job: pathlib.Path) -> Points:
    mlflow: typing.Any = importlib.import_module("mlflow")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{job / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("optimrl")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["grpo.rollouts"] == str(Settings().grpo.rollouts)
    return [[point.step, point.value] for point in client.get_metric_history(run.info.run_id, "loss")]


def trackio_points(job: pathlib.Path) -> Points:
    assert os.environ["TRACKIO_DIR"] == str(job / "trackio")
    with contextlib.closing(sqlite3.connect(job / "trackio" / "optimrl.db")) as stored:
        assert len(stored.execute("SELECT DISTINCT run_name FROM metrics").fetchall()) == 1
        rows = stored.execute("SELECT step, metrics FROM metrics ORDER BY id").fetchall()
    return [[step, json.loads(metrics)["loss"]] for step, metrics in rows]


STORED = {
    "tensorboard": tensorboard_points,
    "wandb": wandb_points,
    "mlflow": mlflow_points,
    "trackio": trackio_points,
}


if __name__ == "__main__":
    main(*sys.argv[1:])
