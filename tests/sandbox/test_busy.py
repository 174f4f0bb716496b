"""A host that others keep busy is named in every answer, whatever the backend."""

import contextlib
import os

import pytest

from sandbox import client
from sandbox.protocol import RunRequest, Suite
from tests.benchmarks.sandbox import neighbours
from tests.sandbox.engine import require_docker
from tests.sandbox.servers import free_port, start_server

SUITE = Suite(inputs=("3\n",), expected=("6\n",))
# Long enough to be switched off its core many times where it has to share it.
PROGRAM = "import time\nwhile time.thread_time() < 0.05: pass\nprint(2 * int(input()))"


@contextlib.contextmanager
def connected(backend):
    """A sandbox with one worker, on the first core that this process may use."""
    if backend == "docker":
        require_docker()
    if backend != "remote":
        with client.connect(backend, workers=1) as sandbox:
            yield sandbox
        return
    port = free_port()
    server = start_server(port)
    try:
        with client.connect(f"http://127.0.0.1:{port}", workers=1) as sandbox:
            yield sandbox
    finally:
        server.terminate()
        server.wait()


@pytest.mark.parametrize("backend", ["local", "remote", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_busy_neighbour_is_named_in_the_answer(backend):
    with connected(backend) as sandbox, contextlib.ExitStack() as neighbourhood:
        sandbox.upload(SUITE)
        for core in sorted(os.sched_getaffinity(0)):
            neighbourhood.enter_context(neighbours.burners(1, cpu=core))
        answer = sandbox.run(RunRequest(PROGRAM, SUITE.sha256))
    assert answer.measured_under["busy"] == "yes"
