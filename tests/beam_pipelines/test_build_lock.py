"""One build at a time in a directory; a killed one leaves the directory free."""

import subprocess
import sys

import pytest

from beam_pipelines.runners.build_lock import locked_directory
from optimrl_jax.jobs.errors import UserError

HOLDER = """
import pathlib, sys, time
from beam_pipelines.runners.build_lock import locked_directory
with locked_directory(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_build_is_refused_with_the_name_of_the_first_until_that_is_gone(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        found = f"no other build runs, found process {holder.pid} on "
        with pytest.raises(UserError, match=found), locked_directory(tmp_path):
            pass
    finally:
        holder.kill()
        holder.wait()
    with locked_directory(tmp_path):
        pass


def test_a_build_may_follow_another(tmp_path):
    finished = []
    for build in range(2):
        with locked_directory(tmp_path):
            finished.append(build)
    assert finished == [0, 1]
