"""Edge: where the figures of a job go beside `metrics.jsonl`: TensorBoard, Weights & Biases, MLflow, Trackio, or own.

`metrics.sinks` names them. Each keeps its files in the job's directory unless the variables of its own software say
otherwise (`WANDB_MODE`, `WANDB_DIR`, `MLFLOW_TRACKING_URI`, `TRACKIO_DIR`). A job that goes on adds to the runs that it
began. Figures never end a job: a sink that fails is one warning, and is tried again with the next step.
"""

import dataclasses
import importlib
import importlib.util
import json
import logging
import os
import pathlib
import time
import typing
import uuid
from collections.abc import Callable, Mapping

from optimrl_jax.jobs import files, user_code
from optimrl_jax.jobs.checked_fields import did_you_mean, flatten, thaw
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.settings import MetricsSettings, Settings

_LOG = logging.getLogger(__name__)
RUNS_FILE = "metric_runs.json"


@dataclasses.dataclass(frozen=True)
class MetricsRun:
    """What a sink is told of the job.

    Attributes:
      directory: an existing directory of the job, for the sink's files.
      project: `metrics.project`.
      name: `metrics.name`, or the last two parts of the workdir.
      first_step: the first step that will be written; later ones of an earlier start are repeated.
      settings: those of the job, by dotted name.
    """

    directory: pathlib.Path
    project: str
    name: str
    first_step: int
    settings: Mapping[str, typing.Any]

    def stored_id(self, sink: str, new_id: Callable[[], str]) -> str:
        """Return the id under which a sink knows this job; a job that begins gets a new one, which is stored."""
        path = self.directory / RUNS_FILE
        known = json.loads(path.read_text()) if path.exists() else {}
        if sink not in known or self.first_step == 0:
            known[sink] = new_id()
            files.write_json(path, known)
        return known[sink]


class MetricSink(typing.Protocol):
    """What gets the figures of every step; `close` is called once, after the last one."""

    def write(self, step: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


# (directory of the figures, first step) -> open sinks.
SinkOpener = Callable[[pathlib.Path, int], list[MetricSink]]


class _TensorBoard:
    def __init__(self, run: MetricsRun) -> None:
        writer = importlib.import_module("tensorboardX").SummaryWriter
        # Unbounded: TensorBoard's writer thread dies on a full disk, and a full queue would then block `write`.
        self._board = writer(str(run.directory / "tensorboard"), purge_step=run.first_step, max_queue=0)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._board.add_scalar(name, value, step)

    def close(self) -> None:
        self._board.close()


class _WeightsAndBiases:
    def __init__(self, run: MetricsRun) -> None:
        wandb = importlib.import_module("wandb")
        self._run = wandb.init(
            project=run.project,
            name=run.name,
            id=run.stored_id("wandb", lambda: uuid.uuid4().hex),
            resume="allow",
            dir=os.environ.get("WANDB_DIR", str(run.directory)),
            config=dict(run.settings),
        )

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class _MlFlow:
    def __init__(self, run: MetricsRun) -> None:
        mlflow: typing.Any = importlib.import_module("mlflow")
        self._metric = mlflow.entities.Metric
        address = os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{run.directory.resolve() / 'mlflow.db'}")
        self._client = mlflow.MlflowClient(tracking_uri=address)
        self._id = run.stored_id("mlflow", lambda: self._begun(run, mlflow.entities.Param))

    def _begun(self, run: MetricsRun, parameter: Callable[[str, str], typing.Any]) -> str:
        experiment = self._client.get_experiment_by_name(run.project)
        number = experiment.experiment_id if experiment else self._client.create_experiment(run.project)
        begun = self._client.create_run(number, run_name=run.name).info.run_id
        settings = [parameter(name, str(value)) for name, value in run.settings.items()]
        # A request takes at most 100 parameters.
        for start in range(0, len(settings), 100):
            self._client.log_batch(begun, params=settings[start : start + 100])
        return begun

    def write(self, step: int, values: Mapping[str, float]) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._client.log_batch(
            self._id, metrics=[self._metric(name, float(value), now_ms, step) for name, value in values.items()]
        )

    def close(self) -> None:
        self._client.set_terminated(self._id)


class _Trackio:
    def __init__(self, run: MetricsRun) -> None:
        # Read once, as the package is imported.
        os.environ.setdefault("TRACKIO_DIR", str(run.directory / "trackio"))
        trackio = importlib.import_module("trackio")
        self._run = trackio.init(
            project=run.project,
            name=run.stored_id("trackio", lambda: f"{run.name}-{uuid.uuid4().hex[:6]}"),
            resume="allow",
            config=dict(run.settings),
            embed=False,
        )

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


SINKS: dict[str, Callable[[MetricsRun], MetricSink]] = {
    "tensorboard": _TensorBoard,
    "wandb": _WeightsAndBiases,
    "mlflow": _MlFlow,
    "trackio": _Trackio,
}
# What each of them imports; the first is part of every learner.
PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow", "trackio": "trackio"}


class _Guarded:
    """A sink whose failures are warnings: the first one is told, the others are counted until it closes."""

    def __init__(self, name: str, sink: MetricSink) -> None:
        self._name, self._sink = name, sink
        self._failures = 0

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._attempt(lambda: self._sink.write(step, values))

    def close(self) -> None:
        self._attempt(self._sink.close)
        if self._failures > 1:
            _LOG.warning("metrics.sinks: %s failed %d times", self._name, self._failures)

    def _attempt(self, act: Callable[[], object]) -> None:
        try:
            act()
        # Whatever somebody else's software raises, training is worth more than its figures.
        except Exception as error:  # noqa: BLE001
            self._failures += 1
            if self._failures == 1:
                _LOG.warning("metrics.sinks: %s: %s: %s", self._name, type(error).__name__, error)


def check_sinks(settings: MetricsSettings) -> None:
    """Check that every sink is known and its package is there, before a job reads anything.

    Raises:
      UserError: naming the sink, and the extra that has it.
    """
    for name in settings.sinks:
        if user_code.names_function(name):
            user_code.load_function(name, "metrics.sinks")
        elif name not in SINKS:
            known = ", ".join(SINKS)
            raise UserError(
                f"metrics.sinks = {name!r}: expected some of {known}, or FILE.py:FUNCTION{did_you_mean(name, SINKS)}"
            )
        elif importlib.util.find_spec(PACKAGES[name]) is None:
            raise UserError(f"metrics.sinks = {name!r}: expected `pip install 'optimrl-jax[{name}]'`")


def no_sinks(directory: pathlib.Path, first_step: int) -> list[MetricSink]:
    """Open nothing: `metrics.jsonl` alone has the figures."""
    return []


def open_sinks(settings: MetricsSettings, run: MetricsRun) -> list[MetricSink]:
    """Open the sinks of a job.

    Args:
      settings: which sinks; `check_sinks` has accepted them.
      run: what they are told of the job.

    Raises:
      UserError: for a sink that cannot be opened, such as one that asks for a key.
    """
    opened: list[MetricSink] = []
    for name in settings.sinks:
        own = user_code.names_function(name)
        opens = user_code.load_function(name, "metrics.sinks") if own else SINKS[name]
        try:
            opened.append(_Guarded(name, opens(run)))
        # What it raises is for the user to fix: a key, an address, a function of the user's own.
        except Exception as error:  # noqa: BLE001
            raise UserError(f"metrics.sinks = {name!r}: {type(error).__name__}: {error}") from None
    return opened


def sink_opener(settings: Settings) -> SinkOpener:
    """Return what opens the sinks of a job once it is known where and at which step it goes on.

    Of several processes each has TensorBoard files of its own, and the first alone has the other sinks.

    Args:
      settings: those of the job; `check_sinks` has accepted its sinks.
    """
    metrics, every = settings.metrics, flatten(thaw(settings))
    if settings.processes.index:
        own = tuple(name for name in metrics.sinks if name == "tensorboard")
        metrics = dataclasses.replace(metrics, sinks=own)

    def opens(directory: pathlib.Path, first_step: int) -> list[MetricSink]:
        name = metrics.name or "/".join(directory.resolve().parts[-2:])
        return open_sinks(metrics, MetricsRun(directory, metrics.project, name, first_step, every))

    return opens
