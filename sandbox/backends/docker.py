"""Edge: runs one long-lived container per worker, with nothing in it that a program could use against its neighbours.

No network, a read-only root, small memory file systems for what must be writable, no capabilities for programs, no new
privileges, our own seccomp profile, one core, and limits on memory and processes. The runner inside is root without
most of root's powers and gives every program an unprivileged user. A container ends with its connection, so that a
killed server leaves none behind.
"""

import contextlib
import logging
import os
import socket
import struct
import time
import typing
import uuid

import docker

from sandbox import bundle, protocol, runner
from sandbox.backends.engine import IMAGE, NO_ENGINE, DockerUnavailable, Engine, in_short, require_image
from sandbox.backends.engine_settings import engine_name
from sandbox.backends.worker import SandboxWorker, WorkerLost

_LOG = logging.getLogger(__name__)

LABEL = "optimrl.sandbox"
# A program may have this much; the container has more, for the runner and the inputs that it holds, and beside that for
# the copy of an input that a run reads.
PROGRAM_BYTES = 2 << 30
MEMORY_BYTES = PROGRAM_BYTES + (512 << 20)
PIDS = 512
SCRATCH_BYTES = 64 << 20
# The largest limits that can be given; to ask for more is the caller's mistake. A file of a program lies in its scratch
# file system, its output in memory.
MOST = {
    "memory_bytes": PROGRAM_BYTES,
    "processes": PIDS - 64,
    "file_bytes": SCRATCH_BYTES,
    "output_bytes": 256 << 20,
}
FIRST_UID = 20_000
MOST_WORKERS = 1024
# The engine sends a container's streams interleaved: number of the stream, then length of the part that follows.
FRAME = struct.Struct(">BxxxL")
STDERR = 2
# What the runner itself needs: to become a program's user, to kill it, to empty its directories, to notice at once when
# it ends, to make worlds and a control group, and to enter a world's mounts (SYS_CHROOT). Programs have no capabilities
# at all.
CAPABILITIES = ["SETUID", "SETGID", "KILL", "DAC_OVERRIDE", "FOWNER", "SYS_NICE", "SYS_ADMIN", "SYS_CHROOT"]
INPUT_BYTES = 256 << 20
# Bounds on the number of files are the runner's: not every engine passes them on.
WRITABLE = {
    "/inputs": f"size={INPUT_BYTES},mode=0700",
    "/program": "size=32m,mode=0755",
    "/interactor": "size=32m,mode=0755",
    "/tmp": "size=64m,mode=1777",
    "/dev/shm": "size=64m,mode=1777",
}
# Engines set more than an unprivileged one, or one in a machine of few rights, may give.
ULIMITS = {"nofile": 1024, "nproc": 4096}
ISOLATIONS = ("world", "clean")
EMPTY = protocol.Suite(("",), (None,))


class DockerChannel:
    """The standard streams of a container whose first process is the runner; implements `worker.Channel`.

    The constructor creates and starts the container; `close` removes it.

    Attributes:
      container: the engine's handle of the container.
    """

    def __init__(self, where: Engine, *, cpu: int | None, uid: int, image: str, isolation: str = "world") -> None:
        """Create a container, attach to its streams and start it.

        Args:
          where: the engine.
          cpu: the core to pin it to; None leaves it every core.
          uid: the user that programs become. Containers running at the same time need different ones: the kernel
            bounds some things per user, across containers.
          image: name or identity of the image.
          isolation: "world" (a fresh world for each run) or "clean" (the known places are cleaned after each).

        Raises:
          DockerUnavailable: no engine answers, or it did not start the container.
        """
        self._buffer = bytearray()
        self._complaint = ""
        # Held until the end: what it has open would otherwise be closed whenever Python next collects cycles.
        self._client = where.connect()
        try:
            self.container = self._client.containers.get(_create(where, self._client, cpu, uid, image, isolation))
            stream = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            self._stream = self.container.attach_socket(params=stream)
            self._socket = typing.cast(socket.socket, getattr(self._stream, "_sock", self._stream))
            self.container.start()
        except docker.errors.DockerException as error:
            self._client.close()
            raise DockerUnavailable(f"the container did not start: {in_short(error)}") from error
        except OSError as error:
            self._client.close()
            raise DockerUnavailable(NO_ENGINE.format(error)) from error

    def send(self, message: bytes) -> None:
        """Write all of `message`, however long that takes; raise OSError where the container is gone."""
        self._socket.settimeout(None)
        self._socket.sendall(message)

    def receive(self, size: int, *, timeout_s: float) -> bytes:
        """Read exactly `size` bytes of the runner's standard output.

        Raises:
          TimeoutError: they had not all arrived after `timeout_s`.
          ConnectionError: the container has ended.
        """
        deadline_s = time.monotonic() + timeout_s
        while len(self._buffer) < size:
            kind, length = FRAME.unpack(self._exactly(FRAME.size, deadline_s))
            part = self._exactly(length, deadline_s)
            if kind == STDERR:
                self._complaint = part.decode("utf-8", "replace").strip()
            else:
                self._buffer += part
        part = bytes(self._buffer[:size])
        del self._buffer[:size]
        return part

    def _exactly(self, size: int, deadline_s: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._socket.settimeout(max(0.001, deadline_s - time.monotonic()))
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionError(": ".join(filter(None, ("the container has ended", self._complaint))))
            parts += part
        return bytes(parts)

    def hang_up(self) -> None:
        """Shut the connection down: the runner notices within 20 ms, kills what it runs and ends its container."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection and remove the container, running or not; never raises where it is gone already."""
        self._stream.close()
        self._socket.close()
        try:
            self.container.remove(force=True, v=True)
        except (docker.errors.DockerException, OSError):
            # Gone already, being removed, or the engine is away: it ends with its standard input, which is closed now.
            return
        finally:
            self._client.close()


def _create(where: Engine, client: docker.DockerClient, cpu: int | None, uid: int, image: str, isolation: str) -> str:
    """Create a container as `DockerChannel` wants it and return its identity."""
    options = client.api.create_host_config(
        auto_remove=True,
        network_mode="none",
        read_only=True,
        tmpfs=WRITABLE,
        cap_drop=["ALL"],
        cap_add=CAPABILITIES,
        security_opt=["no-new-privileges", f"seccomp={where.profile}"],
        pids_limit=PIDS,
        mem_limit=MEMORY_BYTES + where.settings.input_bytes,
        memswap_limit=MEMORY_BYTES + where.settings.input_bytes,
        cpuset_cpus=None if cpu is None else str(cpu),
        log_config=docker.types.LogConfig(type="none"),
        ulimits=[docker.types.Ulimit(name=name, soft=value, hard=value) for name, value in ULIMITS.items()],
        runtime=where.settings.runtime or None,
    )
    # The SDK knows "host" alone.
    options["UsernsMode"] = where.settings.user_namespace
    made = client.api.create_container(
        image,
        # The runner travels as text: the engine may be on another machine.
        bundle.command("python3", "/inputs", "--uid", str(uid), f"--{isolation}"),
        name=f"optimrl-sandbox-{uuid.uuid4().hex[:12]}",
        labels={LABEL: str(os.getpid())},
        stdin_open=True,
        detach=False,
        # On the engine's disk; it goes with the container.
        volumes=[runner.LARGE],
        environment=bundle.ENVIRONMENT,
        user="0:0",
        host_config=options,
    )
    return str(made["Id"])


def docker_workers(
    count: int, *, image: str = IMAGE, isolation: str = "world", where: Engine | None = None
) -> list[SandboxWorker]:
    """Make workers whose runners live in containers, and try the first; the others start when they are first used.

    Each worker is pinned to one of the cores that this process may use, in turn, and has a user number of its own.

    Args:
      count: how many workers; beyond the number of cores, workers share cores.
      image: name of the image to run.
      isolation: one of ISOLATIONS: "world" gives every run a fresh world, "clean" cleans up after each.
      where: the engine; None for that of the environment.

    Raises:
      DockerUnavailable: no engine answers, the image is missing, or containers of this engine cannot run programs.
      InvalidRequestError: `isolation` is not one of ISOLATIONS, or the engine's settings are not in force.
    """
    where = where or Engine()
    require_image(image, where.settings)
    protocol.require(isolation in ISOLATIONS, "isolation", isolation, f"one of {', '.join(ISOLATIONS)}")
    cores = sorted(os.sched_getaffinity(0))
    # Always pinned: seconds on several cores are not comparable with seconds on one.
    pins = [cores[n % len(cores)] for n in range(count)]
    workers = [
        SandboxWorker(
            f"docker-{n}",
            open_channel=lambda cpu=cpu, uid=FIRST_UID + n: DockerChannel(
                where, cpu=cpu, uid=uid, image=image, isolation=isolation
            ),
            open_judge=lambda cpu=cpu, uid=FIRST_UID + MOST_WORKERS + n: DockerChannel(
                where, cpu=cpu, uid=uid, image=image, isolation=isolation
            ),
        )
        for n, cpu in enumerate(pins)
    ]
    _try(workers[0], where, isolation=isolation)
    return workers


def _try(worker: SandboxWorker, where: Engine, *, isolation: str) -> None:
    """Run an empty program, so that what containers cannot do here is said at the start, in one line."""
    settings, name = where.settings, engine_name(where.said)
    try:
        worker.compile("", language="python3")
        (_,) = worker.run(EMPTY, [0], limits=lambda _: protocol.Limits(), probes=False)
    except WorkerLost as lost:
        hint = "; docker_clean needs no namespaces inside them, for trusted code" if isolation == "world" else ""
        raise DockerUnavailable(
            f"{settings}: expected containers of {name} that can run programs ({lost}){hint}"
        ) from None
    said = worker.conditions
    is_mapped = settings.user_namespace != "auto" or said["users"] == "mapped"
    protocol.require(is_mapped, "user_namespace", "auto", f"an engine that maps users: {name} did not")
    if said["accounting"] == "leader":
        _LOG.warning(
            "%s: no control groups in these containers: memory and processor time are those of the processes that the "
            "runner sees, and waits are not taken off",
            settings,
        )
