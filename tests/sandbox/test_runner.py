"""The runner outside a container: what it must never do there."""

import concurrent.futures
import subprocess
import sys
import threading
import time

import pytest

from sandbox import bundle, runner

# On a busy host a process that has told its answer may keep on living for a while.
SLOW_TO_END = """
import os, sys, time
from sandbox.inside import kernel, languages, spawner, zygote
kernel.adopt_orphans()
ends = os._exit
os._exit = lambda status: (time.sleep(0.2), ends(status))
home = zygote.Home(sys.argv[1], sys.argv[1], None)
try:
    forks = spawner.Spawner(home)
    tool = forks.fork_zygote("python3", "tool", languages.Prepared("program.py"), home=home, is_isolated=False)
    forks.close_zygote(tool)
    forks.close()
    print("reaped", forks.living == {forks.process})
except zygote.Born as born:
    born.zygote.serve()
"""


def test_a_runner_that_empties_shared_directories_starts_nowhere_but_in_a_container(tmp_path):
    with pytest.raises(SystemExit, match="first process of a container"):
        runner.Runner(str(tmp_path), uid=20_000)


def test_workers_that_start_at_once_share_one_building_of_the_bundle(monkeypatch):
    built, busy = [], threading.Lock()

    def bare(source):
        assert busy.acquire(blocking=False), "two threads parse at once"
        time.sleep(0.001)
        built.append(source)
        busy.release()
        return source

    monkeypatch.setattr(bundle, "_bare", bare)
    bundle._program_text.cache_clear()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        texts = set(pool.map(lambda _: bundle.text(), range(8)))
    bundle._program_text.cache_clear()
    assert (len(texts), len(built)) == (1, len(bundle.MODULES))


def test_the_bundle_refuses_as_well(tmp_path):
    command = bundle.command(sys.executable, str(tmp_path), "--uid", "20000")
    ended = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=60)
    assert ended.returncode != 0
    assert b"first process of a container" in ended.stderr


def test_a_program_finds_no_module_of_ours(monkeypatch):
    names = 'print([name for name in sys.modules if "sandbox" in name])'
    monkeypatch.setattr(bundle, "_LOADER", bundle._LOADER.replace('held["sandbox.runner"].main()', names))
    command = [sys.executable, "-I", "-c", bundle._program_text.__wrapped__()]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "[]\n"


def test_a_zygote_is_a_child_of_the_runner_as_soon_as_it_is_known(tmp_path):
    command = [sys.executable, "-c", SLOW_TO_END, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "reaped True\n"


def test_an_answer_waits_only_behind_runs_that_are_there_and_end_in_time():
    def run(wall_s):
        return {"do": "run", "limits": {"wall_s": wall_s}}

    now_s = time.monotonic()
    assert runner.may_wait(run(2.0), run(2.0), waits_since_s=now_s)
    assert not runner.may_wait(run(2.0), run(3.0), waits_since_s=now_s)
    assert not runner.may_wait(run(2.0), run(2.0), waits_since_s=now_s - 2 * runner.GATHER_S)
    assert not runner.may_wait(run(2.0), None, waits_since_s=now_s)
    assert not runner.may_wait(run(2.0), {"do": "program"}, waits_since_s=now_s)
    assert not runner.may_wait({"do": "input"}, run(2.0), waits_since_s=now_s)
