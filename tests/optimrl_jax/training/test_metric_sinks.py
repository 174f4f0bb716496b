"""Figures reach every sink that is set, add to the runs that a job began, and never end it."""

import importlib
import json
import logging
import sys

import pytest

from optimrl_jax.jobs import user_code
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.settings import MetricsSettings, ProcessSettings, Settings
from optimrl_jax.training import metric_sinks
from optimrl_jax.training.workdir import MetricsWriter

# Stand-ins with the names and signatures that sinks call; each writes down what it was asked.
WANDB = """
asked = []

class Run:
    def log(self, data, step=None, commit=None):
        asked.append(("log", step, data))
    def finish(self, exit_code=None, quiet=None):
        asked.append(("finish",))

def init(entity=None, project=None, dir=None, id=None, name=None, config=None, resume=None, mode=None):
    asked.append(("init", project, name, id, resume, dir, config["grpo.steps"]))
    return Run()
"""
MLFLOW = """
import types
asked = []
entities = types.SimpleNamespace(
    Metric=lambda key, value, timestamp, step: (key, value, step), Param=lambda key, value: (key, value)
)

class MlflowClient:
    def __init__(self, tracking_uri=None, registry_uri=None):
        asked.append(("client", tracking_uri))
    def get_experiment_by_name(self, name):
        return None
    def create_experiment(self, name):
        asked.append(("experiment", name))
        return "7"
    def create_run(self, experiment_id, start_time=None, tags=None, run_name=None):
        asked.append(("run", experiment_id, run_name))
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=f"run{len(asked)}"))
    def log_batch(self, run_id, metrics=(), params=(), tags=()):
        assert len(params) <= 100
        asked.append(("batch", run_id, list(metrics), list(params)))
    def set_terminated(self, run_id, status=None, end_time=None):
        asked.append(("end", run_id))
"""
TRACKIO = """
import os
asked = []

class Run:
    def log(self, metrics, step=None):
        asked.append(("log", step, metrics))
    def finish(self):
        asked.append(("finish",))

def init(project, name=None, config=None, resume="never", embed=True):
    asked.append(("init", project, name, resume, os.environ["TRACKIO_DIR"], config["grpo.steps"]))
    return Run()
"""
STAND_INS = {"wandb": WANDB, "mlflow": MLFLOW, "trackio": TRACKIO}


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Return the stand-in of a package by its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for variable in ("WANDB_DIR", "MLFLOW_TRACKING_URI", "TRACKIO_DIR"):
        # Set, so that what the code under test sets is undone as well.
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)

    def found(name):
        (tmp_path / f"{name}.py").write_text(STAND_INS[name])
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield found
    for name in STAND_INS:
        sys.modules.pop(name, None)


def write(directory, *sinks, first_step=0, steps=2, process=0):
    metrics = MetricsSettings(sinks=sinks, project="p", name="n")
    metric_sinks.check_sinks(metrics)
    processes = ProcessSettings(count=process + 1, index=process)
    opened = metric_sinks.sink_opener(Settings(metrics=metrics, processes=processes))
    writer = MetricsWriter(directory, first_step=first_step, open_sinks=opened)
    for step in range(first_step, first_step + steps):
        writer.write(step, {"loss": step / 2})
    writer.close()
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("name", "folder"), [("wandb", ""), ("trackio", "trackio")])
def test_a_run_is_begun_fed_ended_and_gone_on_with(name, folder, tmp_path, stand_in):
    asked = stand_in(name).asked
    job = tmp_path / "job"
    job.mkdir()
    assert write(job, name) == [{"step": 0, "loss": 0.0}, {"step": 1, "loss": 0.5}]
    write(job, name, first_step=1, steps=1)
    begun, again = (entry for entry in asked if entry[0] == "init")
    assert begun == again
    assert {"p", "allow", str(job / folder) if folder else str(job), Settings().grpo.steps} <= set(begun)
    logged = [entry for entry in asked if entry[0] == "log"]
    assert logged == [("log", 0, {"loss": 0.0}), ("log", 1, {"loss": 0.5}), ("log", 1, {"loss": 0.5})]
    assert asked.count(("finish",)) == 2
    # A job that begins anew is another run.
    write(job, name)
    assert [entry for entry in asked if entry[0] == "init"][-1] != begun


def test_mlflow_gets_settings_once_and_figures_of_every_step(tmp_path, stand_in):
    asked = stand_in("mlflow").asked
    write(tmp_path, "mlflow")
    write(tmp_path, "mlflow", first_step=2, steps=1)
    assert [entry for entry in asked if entry[0] in ("experiment", "run")] == [("experiment", "p"), ("run", "7", "n")]
    assert {entry[1] for entry in asked if entry[0] == "client"} == {f"sqlite:///{tmp_path / 'mlflow.db'}"}
    batches = [entry for entry in asked if entry[0] == "batch"]
    assert [metrics for *_, metrics, params in batches if metrics] == [[("loss", n / 2, n)] for n in range(3)]
    params = dict(pair for *_, params in batches for pair in params)
    assert params["grpo.steps"] == str(Settings().grpo.steps)
    assert len({entry[1] for entry in batches} | {entry[1] for entry in asked if entry[0] == "end"}) == 1


def test_a_sink_of_the_users_own_is_told_of_the_run(tmp_path):
    own = tmp_path / "own.py"
    own.write_text(
        "class Lines:\n    def __init__(self, run):\n"
        "        self.file = (run.directory / f'{run.name}.txt').open('a')\n"
        "    def write(self, step, values):\n        print(step, values['loss'], file=self.file)\n"
        "    def close(self):\n        self.file.close()\n"
    )
    write(tmp_path, f"{own}:Lines")
    assert (tmp_path / "n.txt").read_text() == "0 0.0\n1 0.5\n"
    user_code.load_function.cache_clear()


def test_figures_that_cannot_be_sent_are_a_warning_and_stay_in_the_workdir(tmp_path, stand_in, caplog):
    wandb = stand_in("wandb")

    def unreachable(self, data, step=None):
        raise ConnectionError("no route")

    wandb.Run.log = unreachable
    with caplog.at_level(logging.WARNING):
        assert len(write(tmp_path, "wandb", steps=3)) == 3
    assert caplog.messages == [
        "metrics.sinks: wandb: ConnectionError: no route", "metrics.sinks: wandb failed 3 times",
    ]  # fmt: skip


def test_tensorboard_has_files_without_being_asked_for(tmp_path):
    opened = metric_sinks.sink_opener(Settings())
    writer = MetricsWriter(tmp_path, first_step=0, open_sinks=opened)
    writer.write(0, {"loss": 1.0})
    writer.close()
    assert list((tmp_path / "tensorboard").glob("events.out.*"))


def test_of_several_processes_the_first_alone_has_a_run_elsewhere(tmp_path, stand_in):
    asked = stand_in("wandb").asked
    write(tmp_path, "tensorboard", "wandb", process=1)
    assert not asked
    assert (tmp_path / "tensorboard").is_dir()


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        (
            "wandbb",
            "metrics.sinks = 'wandbb': expected some of tensorboard, wandb, mlflow, trackio, or FILE.py:FUNCTION",
        ),
        ("wandbb", "did you mean 'wandb'?"),
        ("absent.py:Sink", "expected an existing file absent.py"),
        ("trackio", "metrics.sinks = 'trackio': expected `pip install 'optimrl-jax[trackio]'`"),
    ],
)
def test_a_sink_that_is_not_there_is_refused_in_one_line(sink, message, monkeypatch):
    monkeypatch.setattr(metric_sinks.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError) as raised:
        metric_sinks.check_sinks(MetricsSettings(sinks=(sink,)))
    assert message in str(raised.value)


def test_a_sink_that_asks_for_something_is_refused_with_its_words(tmp_path, stand_in):
    def no_key(**_):
        raise RuntimeError("no key")

    stand_in("wandb").init = no_key
    with pytest.raises(UserError, match=r"metrics\.sinks = 'wandb': RuntimeError: no key"):
        write(tmp_path, "wandb")
