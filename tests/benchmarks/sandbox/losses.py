"""Edge: what becomes of answers where the machine is loaded, and where the engine or the server goes away."""

import contextlib
import os
import pathlib
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import docker

from sandbox import client
from sandbox.protocol import Limits, RunRequest, RunResult, Verdict
from tests.benchmarks.sandbox import neighbours
from tests.benchmarks.sandbox.timing import ONE_MS_LOOP, PROGRAM, suite_of
from tests.sandbox.servers import free_port, start_server

LOADS_PERCENT = (0, 50, 100, 200)
ENGINE_AWAY_S, SERVER_AWAY_S = 5.0, 20.0
REQUESTS = 200
SOCKET = "/var/run/docker.sock"


def _lost(answers: list[RunResult]) -> int:
    return sum(any(result.verdict is not Verdict.SUCCESS for result in answer.results) for answer in answers)


def _requests(sandbox: client.Client, count: int, *, first_seed: int = 0) -> list[RunRequest]:
    suite = suite_of([ONE_MS_LOOP, 10 * ONE_MS_LOOP])
    sha256 = sandbox.upload(suite)
    limits = Limits(wall_s=10.0)
    return [RunRequest(PROGRAM, sha256, seed=first_seed + n, limits=limits) for n in range(count)]


def lost_jobs(sandbox: client.Client, *, jobs: int) -> dict[str, int]:
    """Jobs that did not come back as a success, by background load in percent of the cores."""
    cores = len(os.sched_getaffinity(0))
    lost = {}
    for percent in LOADS_PERCENT:
        requests = _requests(sandbox, jobs, first_seed=10_000 * percent)
        with neighbours.burners(cores * percent // 100):
            lost[str(percent)] = _lost(sandbox.run_many(requests))
    return lost


class EngineProxy:
    """Stands between a client and the engine's socket, and can be away: every connection ends, none is accepted."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listen()

    def _listen(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(SOCKET)
                with self._lock:
                    self._open |= {near, far}
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 16):
                sink.sendall(part)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def leave(self) -> None:
        """End all connections and accept no more."""
        self._path.unlink()
        with self._lock:
            ended, self._open = {*self._open, self._listener}, set()
        for connection in ended:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def come_back(self) -> None:
        self._listen()


@contextlib.contextmanager
def _engine_behind_a_proxy() -> Iterator[EngineProxy]:
    before = os.environ.get("DOCKER_HOST")
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "engine.sock"
        proxy = EngineProxy(path)
        os.environ["DOCKER_HOST"] = f"unix://{path}"
        try:
            yield proxy
        finally:
            os.environ.pop("DOCKER_HOST")
            if before is not None:
                os.environ["DOCKER_HOST"] = before
            proxy.leave()


def lost_answers_engine_away(workers: int = 2) -> int:
    """Answers lost where the engine goes away for ENGINE_AWAY_S in the middle of a batch."""
    with _engine_behind_a_proxy() as proxy, client.connect("docker", workers=workers) as sandbox:
        requests = _requests(sandbox, REQUESTS)
        sandbox.run(requests[0])
        proxy.leave()
        back = threading.Timer(ENGINE_AWAY_S, proxy.come_back)
        back.start()
        try:
            return _lost(sandbox.run_many(requests[1:]))
        except (OSError, docker.errors.DockerException) as error:
            print(f"an exception left the pool: {error!r}", file=sys.stderr)
            return len(requests)
        finally:
            back.join()


def lost_answers_server_away() -> int:
    """Answers lost where the server is killed in the middle of a batch and back after SERVER_AWAY_S."""
    port = free_port()
    running = [start_server(port)]

    def away() -> None:
        running[0].kill()
        running[0].wait()
        time.sleep(SERVER_AWAY_S)
        running[0] = start_server(port)

    try:
        with client.connect(f"http://127.0.0.1:{port}", workers=8) as sandbox:
            requests = _requests(sandbox, REQUESTS)
            sandbox.run(requests[0])
            leaving = threading.Timer(0.3, away)
            leaving.start()
            lost = _lost(sandbox.run_many(requests[1:]))
            leaving.join()
            return lost
    finally:
        running[0].terminate()
        running[0].wait()
