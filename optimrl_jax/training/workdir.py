"""Edge: what lies in the workdir of a job that makes a policy: model settings, metrics, summary, compiled programs.

Jobs write it while they run; serving, evaluation and resumed jobs read it.
"""

import dataclasses
import json
import logging
import os
import pathlib
import time
import typing

import jax
import rich.console
import rich.table

from optimrl_jax import settings as settings_lib
from optimrl_jax.jobs import files
from optimrl_jax.jobs.checked_fields import flatten, freeze, thaw
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.training import metric_sinks

_LOG = logging.getLogger(__name__)
POLICY_FILE = "policy.json"
JOB_FILE = "job.json"
CHECKPOINT_FOLDER = "checkpoints"
# Settings that may change between two starts of a job: how long and where it runs, not what it learns.
FREE = (
    "sft.steps", "sft.checkpoint_every", "sft.most_skipped", "sft.init_from",
    "grpo.steps", "grpo.checkpoint_every", "grpo.most_skipped", "grpo.keeps_rollouts", "grpo.init_from",
    "grpo.most_groups",
    "sandbox.address", "sandbox.workers", "sandbox.store", "sandbox.reuse", "sandbox.fallback_",
    "compute.remat", "compute.unroll", "compute.attention", "compute.logits_chunk",
    "data.directory", "data.slots", "data.micro_rows",
    "grpo.sampler", "engine.model", "engine.push", "engine.requests", "engine.timeout_s",
    "actors.", "checkpoints.", "device.", "evaluation.", "mesh.", "metrics.", "processes.", "serve.",
)  # fmt: skip
METRICS_FILE = "metrics.jsonl"
SUMMARY_FILE = "summary.json"
COMPILED_FOLDER, CACHE_VARIABLE = "compiled", "JAX_COMPILATION_CACHE_DIR"
# Fields that earlier versions stored beside the shape of a policy.
COMPUTED = ("compute_dtype", "remat", "unroll", "attention_block", "logits_chunk")


def reuse_compiled_programs(workdir: pathlib.Path) -> None:
    """Keep compiled programs in the workdir, so that a job that is started again compiles nothing a second time.

    Where the variable `JAX_COMPILATION_CACHE_DIR` names a place for the programs of many jobs, they stay there.
    """
    if os.environ.get(CACHE_VARIABLE):
        return
    jax.config.update("jax_compilation_cache_dir", str(workdir.resolve() / COMPILED_FOLDER))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


def write_model(workdir: pathlib.Path, model: settings_lib.ModelSettings) -> None:
    """Store the shape of the policy.

    Raises:
      UserError: if the workdir holds a policy of another shape.
    """
    path = workdir / POLICY_FILE
    shape = _shape_of(model)
    if path.exists() and thaw(read_model(workdir)) != shape:
        raise UserError(f"--workdir = {str(workdir)!r}: expected a policy of the shape asked for, see {path}")
    files.write_json(path, shape)


def read_model(workdir: pathlib.Path) -> settings_lib.ModelSettings:
    """Read the shape of the policy that a job left.

    Settings of computation that earlier versions stored beside it are ignored.

    Raises:
      UserError: if there is none, or its file is not JSON.
      SettingsError: if a stored value is not valid.
    """
    path = workdir / POLICY_FILE
    try:
        values = json.loads(path.read_text())
    except OSError:
        raise UserError(f"{path}: expected the workdir of a job that made a policy") from None
    except ValueError as error:
        raise UserError(f"{path}: expected JSON ({error})") from None
    kept = {name: value for name, value in values.items() if name not in COMPUTED}
    return freeze(settings_lib.ModelSettings, kept, path="policy.")


def _shape_of(model: settings_lib.ModelSettings) -> dict[str, typing.Any]:
    return {field.name: getattr(model, field.name) for field in dataclasses.fields(settings_lib.ModelSettings)}


def claim_workdir(workdir: pathlib.Path, job: str, settings: settings_lib.Settings) -> None:
    """Record which job and settings a workdir belongs to, or check them against what is recorded.

    A workdir without a checkpoint belongs to nobody: what a mistaken start has left does not bind the next one.

    Args:
      workdir: that of the job.
      job: name of the job, such as "sft".
      settings: those of this start.

    Raises:
      UserError: if the workdir is another job's, or a setting has changed that is not among `FREE`.
    """
    path = workdir / JOB_FILE
    now = {"job": job, "settings": flatten(json.loads(json.dumps(thaw(settings))))}
    if not path.exists() or not any((workdir / CHECKPOINT_FOLDER).glob("[0-9]*")):
        if jax.process_index() == 0:
            files.write_json(path, now)
        return
    before = json.loads(path.read_text())
    if before["job"] != job:
        raise UserError(f"--workdir = {str(workdir)!r}: expected one of {job}, found that of {before['job']}")
    for name, value in now["settings"].items():
        known = before["settings"].get(name, value)
        if value != known and not name.startswith(FREE):
            raise UserError(
                f"{name} = {value!r}: expected {known!r}, with which {workdir} was begun (other settings need another "
                "--workdir)"
            )


class MetricsWriter:
    """Writes one line a step to `metrics.jsonl`, and gives the same numbers to every sink.

    A resumed run cuts off the lines of steps that it repeats. Lines for which the disk has no room are kept and written
    with a later one.

    Args:
      workdir: an existing directory, of this process alone.
      first_step: the first step that will be written; older lines stay.
      open_sinks: opens the sinks for (workdir, first_step).
    """

    def __init__(
        self,
        workdir: pathlib.Path,
        *,
        first_step: int,
        open_sinks: metric_sinks.SinkOpener = metric_sinks.no_sinks,
    ) -> None:
        self._path = workdir / METRICS_FILE
        self._unwritten: list[str] = []
        kept = [line for line in self._lines() if _step_of(line) < first_step]
        self._path.write_text("".join(f"{line}\n" for line in kept))
        self._sinks = open_sinks(workdir, first_step)

    def write(self, step: int, values: dict[str, float]) -> None:
        """Write the figures of a step; a full disk is one warning in the log."""
        self._unwritten.append(json.dumps({"step": step, **values}) + "\n")
        self._flush()
        for sink in self._sinks:
            sink.write(step, values)

    def close(self) -> None:
        """Close every sink."""
        for sink in self._sinks:
            sink.close()

    def _flush(self) -> None:
        size = self._path.stat().st_size
        try:
            with self._path.open("a") as file:
                file.write("".join(self._unwritten))
        except OSError as error:
            # A line that is cut short would swallow the next one.
            os.truncate(self._path, size)
            _LOG.warning("%s: %d lines wait for room: %s", self._path.name, len(self._unwritten), error.strerror)
        else:
            self._unwritten.clear()

    def _lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []


class Stopwatch:
    """Measures the seconds of a job over all its starts; `before_s` are those of earlier ones."""

    def __init__(self, before_s: float) -> None:
        self._before_s = before_s
        self._started_s = time.monotonic()

    def wall_s(self) -> float:
        """Return the seconds of all starts so far."""
        return self._before_s + time.monotonic() - self._started_s


def write_summary(
    workdir: pathlib.Path, title: str, figures: dict[str, float], *, settings: settings_lib.Settings
) -> None:
    """Write the figures of a job, with its settings, to `summary.json` and print them as a table.

    Args:
      workdir: where the file goes; an older one is replaced.
      title: of the table.
      figures: numbers by name; one that is not finite is stored as null.
      settings: those of the job.
    """
    files.write_json(workdir / SUMMARY_FILE, {**figures, "settings": thaw(settings)})
    table = rich.table.Table(title=title)
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.4g}")
    rich.console.Console().print(table)


def _step_of(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError):
        # The last line of a killed run may be cut; the resumed run writes that step again.
        return float("inf")
