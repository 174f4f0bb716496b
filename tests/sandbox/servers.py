"""Edge: servers for tests, in a thread of this process or as a process of their own."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import httpx
import uvicorn

from sandbox import server
from sandbox.service import pool
from sandbox.service.admission import Admission, Bounds
from sandbox.service.gate import bounded_connections


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serving(
    *, settings: pool.PoolSettings | None = None, token: str = "", bounds: Bounds | None = None, **options: object
) -> Iterator[tuple[str, pool.Pool]]:
    """A server in a thread of this process; yields its URL and its pool."""
    admission = Admission(bounds or Bounds())
    workers = pool.open_pool("local", workers=2, settings=settings)
    port = free_port()
    app = server.create_app(workers, token=token, admission=admission, **options)
    running = uvicorn.Server(uvicorn.Config(app, port=port, http=bounded_connections(admission), log_level="warning"))
    thread = threading.Thread(target=running.run)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}", workers
    finally:
        running.should_exit = True
        thread.join()


def start_server(port: int, *flags: str, scheme: str = "http") -> subprocess.Popen:
    command = [sys.executable, "-m", "sandbox.server", "--backend=local", "--workers=2", f"--port={port}"]
    started = subprocess.Popen([*command, "--probe_every_s=0", *flags], stderr=subprocess.DEVNULL)
    for _ in range(300):
        with contextlib.suppress(httpx.HTTPError):
            httpx.get(f"{scheme}://127.0.0.1:{port}/healthz", verify=False)
            return started
        time.sleep(0.05)
    raise AssertionError("the server did not start")
