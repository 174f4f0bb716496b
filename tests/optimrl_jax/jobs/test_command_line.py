"""Every mistake on a command line is one clear line on standard error and exit code 2."""

import errno
import logging
import os
import pathlib
import re
import runpy
import signal
import sys
import tomllib

import pytest

from optimrl_jax.jobs import command_line, scripts
from optimrl_jax.jobs.errors import EXIT_INTERRUPTED, EXIT_NO_READER, EXIT_USER_ERROR, UserError
from optimrl_jax.jobs.field_texts import field_texts
from optimrl_jax.settings import Settings
from sandbox import server
from sandbox.flags import FlagParser

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
    (["--conifg=x"], "did you mean '--config'?"),
    (["--worng=x"], "--config.FIELD=VALUE --workdir=DIRECTORY)\n"),
    (["--config=absent.py", "--workdir=w"], "absent.py"),
    (["--workdir=w"], "--config: expected"),
    ([CONFIG], "--workdir: expected"),
    ([CONFIG, "--workdir=w", "--config.grpo.stps=3"], "stps"),
    ([CONFIG, "--workdir=w", "--config.grpo.steps=0"], "grpo.steps = 0: expected a positive number"),
    ([CONFIG, "--workdir=w", "--config.grpo.steps=many"], "many"),
    ([CONFIG, "--workdir=w", "surplus"], "unexpected argument 'surplus'"),
    ([CONFIG, "--workdir=w", "--config.grpo.stps=3"], "did you mean 'steps'?"),
    ([CONFIG, "--workdir=w", "--config.grp.steps=3"], "did you mean 'grpo'?"),
    ([CONFIG, "--workdir=w", "--config.grpo=3"], "--config.grpo: expected one of its fields"),
    ([CONFIG, "--workdir=w", "--config.grpo.steps"], "--config.grpo.steps: expected a value"),
    ([CONFIG, "--workdir=w", "--config.data.shares_prompts=perhaps"], "= 'perhaps': expected true or false"),
    ([CONFIG, "--workdir=w", "--config.evaluation.ks=(1"], "= '(1': expected a tuple"),
    ([CONFIG, "--workdr=w"], "did you mean '--workdir'?"),
    (["--config=configs/quikstart.py", "--workdir=w"], "'configs/quikstart.py': expected an existing configuration"),
    ([f"{CONFIG[:-7]}quickstart.py:rlv", "--workdir=w"], "variant = 'rlv': expected one of ranked, rlvr"),
    ([CONFIG, "--workdir=/proc/absent/w"], "--workdir = '/proc/absent/w': expected a directory"),
    ([CONFIG, f"--workdir={__file__}"], "expected a directory that can be made (File exists)"),
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


def test_a_place_that_cannot_be_used_is_one_line_whoever_notices(capsys, tmp_path):
    """A directory where a file has to be, found by the job itself; other errors of the system stay faults."""
    (tmp_path / "metrics.jsonl").mkdir()
    assert run(CONFIG, f"--workdir={tmp_path}", job=lambda job: (job.workdir / "metrics.jsonl").open()) == 2
    error = capsys.readouterr().err
    assert error == f"train: {tmp_path}/metrics.jsonl: expected a place that can be used (Is a directory)\n"
    with pytest.raises(FileNotFoundError):
        run(CONFIG, f"--workdir={tmp_path}", job=lambda job: (job.workdir / "absent").open())


FULL = OSError(errno.ENOSPC, "No space left on device")


SMALLER = "--dry_run of train and sft counts what a step takes"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FULL, "No space left on device"),
        (RuntimeError(f"OSError: {FULL} [while running 'write']"), "No space left on device"),
        (MemoryError("2 TiB"), SMALLER),
        (RuntimeError("RESOURCE_EXHAUSTED: 2 TiB\nlong story"), SMALLER),
    ],
)
def test_a_full_disk_or_memory_is_one_line_whoever_wraps_it(error, expected, capsys, tmp_path):
    def job(_):
        raise error

    assert run(CONFIG, f"--workdir={tmp_path}", job=job) == EXIT_USER_ERROR
    (line,) = capsys.readouterr().err.splitlines()
    assert expected in line
    assert ("2 TiB" in line) == (expected == SMALLER)


def test_a_reader_that_has_seen_enough_ends_a_job_without_a_word(capsys, tmp_path, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert run(CONFIG, f"--workdir={tmp_path}", job=print) == EXIT_NO_READER
    assert capsys.readouterr().err == ""


def test_a_workdir_is_writable_unless_the_job_only_reads(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert run(CONFIG, f"--workdir={tmp_path}") == EXIT_USER_ERROR
    assert "expected a directory that can be written" in capsys.readouterr().err
    reader = ["serve", CONFIG, f"--workdir={tmp_path / 'absent'}"]
    assert command_line.run_job(lambda job: None, reader, only_reads=True) == 0
    assert not (tmp_path / "absent").exists()


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


WRONG_FILES = [
    ("def get_config(:", "own.py, line 1: invalid syntax"),
    ("x = 1", "own.py': expected a file with a function get_config()"),
    ("def get_config():\n    return 1 / 0", "own.py, line 2: ZeroDivisionError: division by zero"),
    ("import absent_package", "own.py, line 1: ModuleNotFoundError: No module named 'absent_package'"),
    (
        "from configs import base\n\ndef get_config():\n    config = base.get_config()\n    config.grpo.stps = 3\n",
        "own.py, line 5: AttributeError",
    ),
    ("def get_config():\n    return {'grpo': {'steps': 0}}", "grpo.steps = 0: expected a positive number"),
]


@pytest.mark.parametrize(("text", "names"), WRONG_FILES)
def test_a_mistake_in_a_file_of_ones_own_keeps_its_line_and_message(text, names, capsys, tmp_path):
    (tmp_path / "own.py").write_text(text)
    assert run(f"--config={tmp_path / 'own.py'}", f"--workdir={tmp_path}") == EXIT_USER_ERROR
    assert names in capsys.readouterr().err


def test_flags_come_in_any_order_and_with_or_without_an_equals_sign(tmp_path):
    seen = []
    changes = ["--config.grpo.steps", "7", "--config.grpo.steps=8", "--config.data.stop=('a', 'b')"]
    switches = ["--config.model.has_qkv_bias=false", "--config.data.shares_prompts"]
    assert run(*changes, *switches, CONFIG, "--workdir", str(tmp_path), job=seen.append) == 0
    settings = seen[0].settings
    assert (settings.grpo.steps, settings.data.stop) == (8, ("a", "b"))
    assert (settings.model.has_qkv_bias, settings.data.shares_prompts) == (False, True)


def test_help_lists_every_field_with_default_meaning_and_range(capsys):
    assert run("--help") == 0
    shown = capsys.readouterr().out
    for field in field_texts(Settings):
        assert f"--config.{field.name}={field.default}" in shown
        assert field.meaning in shown
    assert "upper clip of the ratio (a number that is not negative)" in shown


def test_help_beside_a_configuration_lists_its_rows_and_shows_what_it_sets(capsys):
    assert run("--help", f"--config={ROOT / 'configs' / 'qwen7b.py'}:ranked_p30") == 0
    shown = capsys.readouterr().out
    assert "ranked_p30" in shown.partition("for --config=FILE:ROW:")[2].partition("\n")[0]
    assert "--config.environment.threshold=0.3\n" in shown
    assert "--config.grpo.steps=10000\n" in shown
    assert run("--help", f"--config={ROOT / 'configs' / 'qwen7b.py'}:ranked_p31") == EXIT_USER_ERROR
    assert "ranked_p31" in capsys.readouterr().err


# Every command that a wheel installs, without `optimrl-`.
COMMANDS = [
    target.rpartition(":")[2]
    for target in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"].values()
]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_does_and_what_each_flag_means(name, capsys, monkeypatch):
    """Run the module's own entry point in this process: nineteen new ones would take a minute."""
    module = getattr(scripts, name).args[0]
    monkeypatch.setattr(sys, "argv", [f"{module.rpartition('.')[2]}.py", "--help"])
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert ended.value.code in (0, None)
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: python -m {module} ")
    assert "Edge: " not in shown
    about = shown.partition("\n\n")[2].partition("\n\n")[0]
    assert len(about.split()) >= 4, "expected a sentence on what the command does"
    flags = re.findall(r"^  (?:-h, )?(--\w+)[^\n]*?(?:  (\S.*)|\n +(\S.*))?$", shown, flags=re.MULTILINE)
    assert flags
    assert [flag for flag, beside, below in flags if not (beside or below)] == []


@pytest.mark.parametrize("build", [command_line.ArgumentParser, lambda: FlagParser("sandbox.host", "")])
def test_usage_of_a_console_command_is_what_was_typed(build, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["/venv/bin/python", "/venv/bin/optimrl-something", "--help"])
    assert build().format_usage().startswith("usage: optimrl-something")


def test_a_mistake_in_the_flags_of_a_service_is_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        server.main(["--port=many"])
    assert ended.value.code == EXIT_USER_ERROR
    assert capsys.readouterr().err.splitlines() == [
        "sandbox.server: argument --port: invalid int value: 'many' (--help lists all flags)"
    ]
