"""The runner outside a container: what it must never do there."""

import subprocess
import sys

import pytest

from sandbox import bundle, runner


def test_a_runner_that_empties_shared_directories_starts_nowhere_but_in_a_container(tmp_path):
    with pytest.raises(SystemExit, match="first process of a container"):
        runner.Runner(str(tmp_path), uid=20_000)


def test_the_bundle_refuses_as_well(tmp_path):
    command = bundle.command(sys.executable, str(tmp_path), "--uid", "20000")
    ended = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=60)
    assert ended.returncode != 0
    assert b"first process of a container" in ended.stderr


def test_a_program_finds_no_module_of_ours():
    names = 'print([name for name in sys.modules if "sandbox" in name])'
    command = [sys.executable, "-I", "-c", bundle.text().replace('held["sandbox.runner"].main()', names)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "[]\n"
