"""One job at a time in a directory; a killed one leaves the directory free."""

import logging
import subprocess
import sys

import pytest

from optimrl_jax import evaluate, judge, sft, simulate, train
from optimrl_jax.jobs import locks
from optimrl_jax.jobs.command_line import run_job
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.jobs.locks import locked_directory
from optimrl_jax.simulator.settings import SimulatorSettings
from optimrl_jax.study import __main__ as study

HOLDER = """
import pathlib, sys, time
from optimrl_jax.jobs.locks import locked_directory
with locked_directory(pathlib.Path(sys.argv[1]), field="--output", work="build"):
    print("held", flush=True)
    time.sleep(60)
"""
JOBS = {"sft": sft.main, "train": train.main, "evaluate": evaluate.main, "judge": judge.main}


def start(name, directory):
    """Start a job in a directory; return its exit code."""
    if name == "study":
        return study.main([f"--output={directory}"])
    if name == "simulate":
        arguments = [name, "--config=configs/simulator.py", f"--workdir={directory}"]
        return run_job(simulate.main, arguments, kind=SimulatorSettings)
    return run_job(JOBS[name], [name, "--config=configs/quickstart.py", f"--workdir={directory}"])


def test_a_second_job_is_refused_with_the_name_of_the_first_until_that_is_gone(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], stdout=subprocess.PIPE, text=True)
    lock = locked_directory(tmp_path, field="--output", work="build")
    try:
        assert holder.stdout.readline() == "held\n"
        found = f"--output = .* no other build runs, found process {holder.pid} on "
        with pytest.raises(UserError, match=found), lock:
            pass
    finally:
        holder.kill()
        holder.wait()
    with locked_directory(tmp_path, field="--output", work="build"):
        pass


def test_a_job_may_follow_another(tmp_path):
    finished = []
    for job in range(2):
        with locked_directory(tmp_path, field="--workdir"):
            finished.append(job)
    assert finished == [0, 1]


def test_a_file_system_without_locks_is_used_after_a_warning(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    with caplog.at_level(logging.WARNING), locked_directory(tmp_path, field="--workdir"):
        assert "a second job would not be noticed" in caplog.text


@pytest.mark.parametrize("name", [*JOBS, "simulate", "study"])
def test_every_job_refuses_a_directory_in_which_one_is_at_work(name, tmp_path, capsys):
    output = tmp_path / "evaluation" if name == "evaluate" else tmp_path
    output.mkdir(exist_ok=True)
    with locked_directory(output, field="--workdir"):
        assert start(name, tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{name}: --")
    assert f"dir = '{output}': expected" in line or f"output = '{output}': expected" in line
    assert "a directory in which no other job runs, found process " in line
