"""What a killed owner leaves behind: no container, no process, and every answer that it stored."""

import signal
import subprocess
import sys
import time

import pytest

from sandbox import client
from sandbox.backends import docker, engine
from sandbox.protocol import RunRequest, Suite, Verdict
from tests.benchmarks.sandbox import losses
from tests.sandbox.engine import require_docker

SUITE = Suite(inputs=("3\n",), expected=("6\n",))
PROGRAM = "import time\ntime.sleep(0.1)\nprint(2 * int(input()))"
# What runs when the owner is killed has its core for longer than anybody waits here.
SPIN = "while True: pass"
OWNER = f"""
import sys
from sandbox import client
from sandbox.protocol import Limits, RunRequest, Suite
suite = Suite(inputs=("3\\n",), expected=("6\\n",))
with client.connect(sys.argv[1], workers=2, store=sys.argv[2]) as connected:
    connected.upload(suite)
    requests = [RunRequest({PROGRAM!r}, suite.sha256, seed=n) for n in range(6)]
    requests += [RunRequest({SPIN!r}, suite.sha256, limits=Limits(wall_s=300.0), seed=n) for n in range(2)]
    connected.run_many(requests, on_result=lambda answer: print(answer.request_sha256, flush=True))
"""


@pytest.mark.parametrize("backend", ["local", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_killed_client_leaves_its_answers_and_nothing_else(tmp_path, backend):
    if backend == "docker":
        require_docker()
    store = str(tmp_path / "store")
    owner = subprocess.Popen([sys.executable, "-c", OWNER, backend, store], stdout=subprocess.PIPE, text=True)
    seen = [owner.stdout.readline().strip() for _ in range(6)]
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    with client.connect(backend, workers=1, store=store) as connected:
        connected.upload(SUITE)
        requests = [RunRequest(PROGRAM, SUITE.sha256, seed=n) for n in range(6)]
        answered = [request for request in requests if request.sha256 in seen]
        assert len(answered) == 6
        answers = connected.run_many(answered)
        assert {answer.results[0].verdict for answer in answers} == {Verdict.SUCCESS}
        assert "requests" not in connected.service.counts
    if backend == "docker":
        assert left_behind(owner.pid) == []


@pytest.mark.docker
def test_an_engine_that_is_away_costs_no_answer(monkeypatch):
    require_docker()
    monkeypatch.setattr(losses, "ENGINE_AWAY_S", 1.0)
    monkeypatch.setattr(losses, "REQUESTS", 12)
    assert losses.lost_answers_engine_away() == 0


def left_behind(owner: int) -> list[str]:
    """Containers of a process that is gone, after a moment for the engine to notice."""
    for _ in range(100):
        wanted = {"label": f"{docker.LABEL}={owner}"}
        found = engine.engine().containers.list(all=True, filters=wanted, ignore_removed=True)
        if not found:
            return []
        time.sleep(0.1)
    return [container.name for container in found]
