"""Edge: runs runners on this machine, without a container: for trusted code, tests and machines with no engine.

The runner is the same for every backend; only what surrounds it differs. Nothing here keeps a program from reading or
changing whatever the user of this process may.
"""

import logging
import os
import platform
import select
import subprocess
import sys
import tempfile
import time

from sandbox import bundle, host
from sandbox.backends.worker import SandboxWorker

_LOG = logging.getLogger(__name__)
STOP_S = 5.0


class LocalChannel:
    """Pipes to a runner process, pinned to one core where `cpu` names it; implements `worker.Channel`.

    The process is started by the constructor and ended by `close`.

    Attributes:
      process: the runner.
    """

    def __init__(self, *, cpu: int | None) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="runner-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            bundle.command(sys.executable, self._directory.name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=bundle.ENVIRONMENT,
            start_new_session=True,
        )
        assert self.process.stdin
        assert self.process.stdout
        self._sink, self._source = self.process.stdin, self.process.stdout
        if cpu is not None:
            os.sched_setaffinity(self.process.pid, {cpu})

    def send(self, message: bytes) -> None:
        """Write all of `message`; raise BrokenPipeError where the runner is gone."""
        view = memoryview(message)
        while view:
            view = view[os.write(self._sink.fileno(), view) :]

    def receive(self, size: int, *, timeout_s: float) -> bytes:
        """Read exactly `size` bytes of answers.

        Raises:
          TimeoutError: they had not all arrived after `timeout_s`.
          ConnectionError: the runner has ended.
        """
        deadline_s = time.monotonic() + timeout_s
        source = self._source.fileno()
        parts = []
        while size:
            if not select.select([source], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
                raise TimeoutError(f"no answer in {timeout_s:g} s")
            part = os.read(source, min(size, 1 << 20))
            if not part:
                raise ConnectionError("the runner has ended")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def hang_up(self) -> None:
        """Close the runner's input: it notices within 20 ms, kills what it runs and ends."""
        # The descriptor stays valid, so that another thread that is about to write hits nobody else's file.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._sink.fileno())
        os.close(nowhere)

    def close(self) -> None:
        """End the runner: close its input, give it STOP_S to leave, then kill it; remove its directory."""
        self._sink.close()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._source.close()
        self._directory.cleanup()


def local_workers(count: int) -> list[SandboxWorker]:
    """Make workers whose runners are processes of this machine; none is started before it is first used.

    Each is pinned to one of the cores that this process may use, in turn: with more workers than cores, workers share.

    Args:
      count: how many workers.
    """
    _LOG.info("local sandbox with %d workers: no container around programs, for trusted code", count)
    cores = sorted(os.sched_getaffinity(0))
    pins = [cores[n % len(cores)] for n in range(count)]
    return [
        SandboxWorker(f"local-{n}", open_channel=lambda cpu=cpu: LocalChannel(cpu=cpu)) for n, cpu in enumerate(pins)
    ]


def local_identity() -> dict[str, str]:
    """Describe what measures here, in enough detail to tell whether two durations came from comparable places.

    Returns:
      Service, backend, version of Python in place of an image, host, `calibration`, which is "identity" because
      durations are reported as measured, and what `host.identity` says.
    """
    return host.identity() | {
        "service": "local",
        "backend": "local",
        "image": f"python-{platform.python_version()}",
        "host": host_name(),
        "calibration": "identity",
    }


def host_name() -> str:
    """Name this kind of machine by architecture, cores and system: the same on all machines of one kind."""
    return f"{platform.machine()}-{os.cpu_count()}-cores-{sys.platform}"
