"""A caller's mistake is one clear line and exit code 2, and leaves nothing that looks whole."""

import errno
import pathlib
import signal
import subprocess
import sys

import apache_beam as beam
import pytest

from beam_pipelines import build_dataset, pipeline
from beam_pipelines.commands import beam_options
from beam_pipelines.options import BuildOptions, sandbox_address
from optimrl_jax.jobs.command_line import run_command
from optimrl_jax.jobs.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_signal_handlers():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--source=nowhere"], "--source = 'nowhere': expected one of mini, "),
        (["--source=mini", "--output="], "--output = '': expected a directory for the dataset"),
        (["--unknown=1"], "unknown flag '--unknown=1': expected one of this job (--help) or of Apache Beam"),
        (["--calls=0"], "--calls = 0: expected a positive number (calls of each generator method"),
        (["--calls=many"], "argument --calls: invalid int value: 'many'"),
        (["--limit_s=nan"], "--limit_s = nan: expected a finite number"),
        (["--test_share=1"], "--test_share = 1.0: expected a share between 0 and 1"),
        (["--source=jsonl", "--input=absent.jsonl"], "--input = 'absent.jsonl': expected an existing file"),
        (["--source=code_contests", "--input=absent"], "--input = 'absent': expected an existing file or directory"),
        (["--sandbox_workers=2000"], "--sandbox_workers = 2000: expected a positive number, at most 1024"),
        (
            ["--source=jsonl", "--input={empty}", "--trust_programs"],
            "expected at least one problem that survives all st",
        ),
        (
            ["--source=jsonl", "--input={empty}", "--sandbox_address=local"],
            "--sandbox_address = 'local': expected docker or a service for programs of others; --trust_programs runs",
        ),
        (["--output={empty}"], "expected a directory that can be made (File exists)"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path, capsys, arguments, line):
    empty = tmp_path / "empty"
    empty.write_text("")
    output = tmp_path / "out"
    given = [argument.format(empty=empty) for argument in arguments]
    assert run_command(build_dataset.main, [f"--output={output}", *given], name="build_dataset") == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("build_dataset: ")
    assert line in last
    assert not (output / "COMPLETE").exists()


def test_programs_of_others_run_in_containers_unless_they_are_trusted():
    assert sandbox_address(BuildOptions(source="mini")) == "local"
    for source in set(pipeline.SOURCES) - {"mini"}:
        assert sandbox_address(BuildOptions(source=source)) == "docker"
        assert sandbox_address(BuildOptions(source=source, trust_programs=True)) == "local"
    assert sandbox_address(BuildOptions(source="jsonl", sandbox_address="https://h")) == "https://h"


def test_an_interrupt_ends_with_its_own_exit_code(capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    assert run_command(interrupted, [], name="job") == 130
    assert "start the same command again" in capsys.readouterr().err


def test_a_fault_of_our_own_keeps_its_traceback():
    def broken(arguments):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_command(broken, [], name="job")


def test_a_runners_own_options_are_known_where_it_is_asked_for(tmp_path):
    code = (
        "from beam_pipelines.commands import beam_options\n"
        "print(beam_options(['--runner=DaskRunner', '--dask_client_address=tcp://h:1']).get_all_options()['runner'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "DaskRunner"


def test_beam_options_pass_and_misspelt_ones_do_not():
    options = beam_options(["--direct_num_workers=2", "--runner=DirectRunner"])
    assert options.get_all_options()["direct_num_workers"] == 2
    with pytest.raises(UserError, match="unknown flag '--direct_num_worker=2'"):
        beam_options(["--direct_num_worker=2"])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_what_ends_a_job_in_one_line_is_not_logged_as_an_error_of_a_step(error, caplog):
    def fail(_: int) -> None:
        raise error

    with pytest.raises(RuntimeError), beam.Pipeline("FnApiRunner") as root:
        _ = root | beam.Create([1]) | beam.Map(fail)
    assert "Error" not in caplog.text
    assert "Interrupt" not in caplog.text


def test_a_process_of_a_build_starts_without_the_learners_library():
    code = "import sys, beam_pipelines.build_dataset; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False).returncode == 0
