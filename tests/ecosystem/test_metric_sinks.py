"""Each sink's own package stores what a job writes, offline, and goes on with the run after a restart."""

import json

import pytest

from optimrl_jax.training import metric_sinks
from tests.ecosystem import environments

EXPECTED = [[step, 2.0**-step] for step in range(5)]


@pytest.mark.parametrize("name", metric_sinks.SINKS)
def test_figures_are_stored_and_a_run_goes_on(name, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("TRACKIO_DIR", raising=False)
    # What shows TensorBoard's files does not write them.
    writer = ("tensorboardX>=2.6.2,<3",) if name == "tensorboard" else ()
    python = environments.python_with(name, *environments.packages_of(name), *writer)
    printed = environments.run_module(python, "tests.ecosystem.write_figures", name, str(tmp_path))
    # Trackio says good-bye after everything else.
    (points,) = (line for line in printed.splitlines() if line.startswith("[["))
    assert json.loads(points) == EXPECTED
