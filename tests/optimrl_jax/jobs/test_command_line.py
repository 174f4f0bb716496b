"""Every mistake on a command line is one clear line on standard error and exit code 2."""

import pathlib
import signal

import pytest

from optimrl_jax.errors import EXIT_INTERRUPTED, EXIT_USER_ERROR, UserError
from optimrl_jax.jobs import command_line

ROOT = pathlib.Path(__file__).parents[3]
CONFIG = f"--config={ROOT / 'configs' / 'base.py'}"


@pytest.fixture(autouse=True)
def _signal_handler():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def run(*arguments, job=lambda job: None):
    return command_line.run_job(job, ["train", *arguments])


MISTAKES = [
    (["--conifg=x"], "conifg"),
    (["--config=absent.py", "--workdir=w"], "absent.py"),
    (["--workdir=w"], "--config: expected"),
    ([CONFIG], "--workdir: expected"),
    ([CONFIG, "--workdir=w", "--config.grpo.stps=3"], "stps"),
    ([CONFIG, "--workdir=w", "--config.grpo.steps=0"], "grpo.steps = 0: expected a positive number"),
    ([CONFIG, "--workdir=w", "--config.grpo.steps=many"], "many"),
    ([CONFIG, "--workdir=w", "surplus"], "unexpected argument 'surplus'"),
    ([CONFIG, "--workdir=/proc/absent/w"], "--workdir = '/proc/absent/w': expected a directory"),
]


@pytest.mark.parametrize(("arguments", "names"), MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, names, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == EXIT_USER_ERROR
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert names in error
    assert "Traceback" not in error


def test_a_jobs_own_user_error_is_one_line_too(capsys, tmp_path):
    def job(_):
        raise UserError("data.directory = 'x': expected\n a directory")

    assert run(CONFIG, f"--workdir={tmp_path}", job=job) == EXIT_USER_ERROR
    assert capsys.readouterr().err == "train: data.directory = 'x': expected a directory\n"


def test_a_fault_of_our_own_keeps_its_traceback(tmp_path):
    def job(_):
        raise RuntimeError("broken invariant")

    with pytest.raises(RuntimeError, match="broken invariant"):
        run(CONFIG, f"--workdir={tmp_path}", job=job)


def test_an_interrupt_says_how_to_go_on(capsys, tmp_path):
    def job(_):
        raise KeyboardInterrupt

    assert run(CONFIG, f"--workdir={tmp_path}", job=job) == EXIT_INTERRUPTED
    assert "same command" in capsys.readouterr().err


def test_flags_change_fields_and_the_workdir_is_made(tmp_path):
    seen = []
    workdir = tmp_path / "a" / "b"
    assert run(CONFIG, f"--workdir={workdir}", "--config.grpo.steps=7", job=seen.append) == 0
    assert seen[0].settings.grpo.steps == 7
    assert seen[0].workdir == workdir
    assert workdir.is_dir()
