"""The runner outside a container: what it must never do there."""

import concurrent.futures
import subprocess
import sys
import threading
import time

import pytest

from sandbox import bundle, runner


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


def test_a_program_finds_no_module_of_ours():
    names = 'print([name for name in sys.modules if "sandbox" in name])'
    command = [sys.executable, "-I", "-c", bundle.text().replace('held["sandbox.runner"].main()', names)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "[]\n"
