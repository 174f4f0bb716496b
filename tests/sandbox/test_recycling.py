"""What a pool holds open does not grow with the containers that it replaces."""

import collections
import os
import pathlib
import tempfile
import threading

import pytest

from sandbox.protocol import RunRequest, Suite
from sandbox.service import pool
from tests.sandbox.engine import require_docker

SUITE = Suite(inputs=("1\n",), expected=("2\n",))
DOUBLE = "print(2 * int(input()))"
# Runs of a runner before it is replaced, requests between two looks at what is held, and looks.
EVERY, BATCH, BATCHES = 6, 36, 3


def _held(folder: pathlib.Path) -> dict[str, int]:
    """Count descriptors of this process by their kind, its threads, its children and the files that it keeps."""
    kinds: collections.Counter[str] = collections.Counter()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            kinds[os.readlink(f"/proc/self/fd/{descriptor}").partition(":")[0]] += 1
        except FileNotFoundError:
            # The one through which the directory was read.
            continue
    children = sum(len((task / "children").read_text().split()) for task in pathlib.Path("/proc/self/task").iterdir())
    return dict(kinds) | {
        "threads": threading.active_count(),
        "children": children,
        "files": sum(1 for _ in folder.rglob("*")),
    }


@pytest.mark.parametrize("backend", ["local", pytest.param("docker", marks=pytest.mark.docker)])
def test_descriptors_threads_and_files_stay_the_same_while_runners_are_replaced(backend, tmp_path, monkeypatch):
    if backend == "docker":
        require_docker()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    workers = pool.open_pool(backend, workers=2, settings=pool.PoolSettings(recycle_after=EVERY))
    try:
        workers.upload(SUITE)
        seen = []
        for batch in range(BATCHES):
            requests = [RunRequest(DOUBLE, SUITE.sha256, seed=BATCH * batch + n) for n in range(BATCH)]
            answers = [future.result() for future in [workers.submit(request) for request in requests]]
            assert {str(answer.results[0].verdict) for answer in answers} == {"success"}
            # Some runners have just been stopped and others not: without any, what is held does not depend on chance.
            for worker in workers.workers:
                worker.stop()
            seen.append(_held(tmp_path))
        assert workers.counts["recycled_workers"] >= BATCHES * (BATCH // EVERY - 2)
    finally:
        workers.close()
    assert seen[1:] == seen[:1] * (BATCHES - 1)
    assert seen[0]["children"] == seen[0]["files"] == 0
