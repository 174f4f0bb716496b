"""Edge: runs one long-lived container per worker, with nothing in it that a program could use against its neighbours.

No network, a read-only root, small memory file systems for what must be writable, no capabilities for programs, no new
privileges, our own seccomp profile, one core, and limits on memory and processes. The runner inside is root without
most of root's powers and gives every program an unprivileged user. A container ends with its connection, so that a
killed server leaves none behind.
"""

import contextlib
import json
import os
import socket
import struct
import time
import typing
import uuid

import docker

from sandbox import bundle, host, protocol, runner
from sandbox.backends import syscalls
from sandbox.backends.local import host_name
from sandbox.backends.worker import SandboxWorker

IMAGE = "optimrl-sandbox:1"
LABEL = "optimrl.sandbox"
# A program may have this much; the container has more, for the runner, the inputs that it holds and the copy that a run
# reads.
PROGRAM_BYTES = 2 << 30
MEMORY_BYTES = PROGRAM_BYTES + (512 << 20) + protocol.MOST_INPUT_BYTES
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
WRITABLE = {
    "/inputs": f"size={INPUT_BYTES},mode=0700,noatime",
    "/program": "size=32m,mode=0755,nr_inodes=1024",
    "/interactor": "size=32m,mode=0755,nr_inodes=1024",
    "/tmp": "size=64m,mode=1777,nr_inodes=8192",
    "/dev/shm": "size=64m,mode=1777,nr_inodes=8192",
}
ISOLATIONS = ("world", "clean")


class DockerUnavailable(OSError):
    """The engine or the image is missing, or a container does not start; the message says what to do."""


class DockerChannel:
    """The standard streams of a container whose first process is the runner; implements `worker.Channel`.

    The constructor creates and starts the container; `close` removes it.

    Attributes:
      container: the engine's handle of the container.
    """

    def __init__(self, *, cpu: int | None, uid: int, image: str, isolation: str = "world") -> None:
        """Create a container, attach to its streams and start it.

        Args:
          cpu: the core to pin it to; None leaves it every core.
          uid: the user that programs become. Containers running at the same time need different ones: the kernel
            bounds some things per user, across containers.
          image: name or identity of the image.
          isolation: "world" (a fresh world for each run) or "clean" (the known places are cleaned after each).

        Raises:
          DockerUnavailable: no engine answers, or it did not start the container.
        """
        self._buffer = bytearray()
        try:
            self.container = self._create(cpu=cpu, uid=uid, image=image, isolation=isolation)
            stream = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            self._stream = self.container.attach_socket(params=stream)
            self._socket = typing.cast(socket.socket, getattr(self._stream, "_sock", self._stream))
            self.container.start()
        except docker.errors.DockerException as error:
            raise DockerUnavailable(f"the container did not start: {error}") from error

    def _create(self, *, cpu: int | None, uid: int, image: str, isolation: str) -> docker.models.containers.Container:
        return engine().containers.create(
            image,
            # The runner travels as text: the engine may be on another machine.
            bundle.command("python3", "/inputs", "--uid", str(uid), f"--{isolation}"),
            name=f"optimrl-sandbox-{uuid.uuid4().hex[:12]}",
            labels={LABEL: str(os.getpid())},
            stdin_open=True,
            detach=False,
            auto_remove=True,
            network_mode="none",
            read_only=True,
            tmpfs=WRITABLE,
            # On the engine's disk; it goes with the container.
            volumes=[runner.LARGE],
            cap_drop=["ALL"],
            cap_add=CAPABILITIES,
            security_opt=["no-new-privileges", f"seccomp={syscalls.profile()}"],
            pids_limit=PIDS,
            mem_limit=MEMORY_BYTES,
            memswap_limit=MEMORY_BYTES,
            cpuset_cpus=None if cpu is None else str(cpu),
            log_config=docker.types.LogConfig(type="none"),
            environment=bundle.ENVIRONMENT,
            user="0:0",
        )

    def send(self, message: bytes) -> None:
        """Write all of `message`, however long that takes; raise OSError where the container is gone."""
        self._socket.settimeout(None)
        self._socket.sendall(message)

    def receive(self, size: int, *, timeout_s: float) -> bytes:
        """Read exactly `size` bytes of the runner's standard output; what it prints on standard error is dropped.

        Raises:
          TimeoutError: they had not all arrived after `timeout_s`.
          ConnectionError: the container has ended.
        """
        deadline_s = time.monotonic() + timeout_s
        while len(self._buffer) < size:
            kind, length = FRAME.unpack(self._exactly(FRAME.size, deadline_s))
            part = self._exactly(length, deadline_s)
            if kind != STDERR:
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
                raise ConnectionError("the container has ended")
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


def engine() -> docker.DockerClient:
    """Connect to the engine that the environment (`DOCKER_HOST`) names.

    Raises:
      DockerUnavailable: none answers; the message says what to do instead.
    """
    try:
        return docker.from_env(timeout=60)
    except docker.errors.DockerException as error:
        raise DockerUnavailable(
            f"no Docker engine answers ({error}): start one, or use the local backend for trusted code"
        ) from None


def require_image(image: str = IMAGE) -> str:
    """Return the identity (content digest) of an image that must have been built.

    Raises:
      DockerUnavailable: the image is missing or no engine answers; the message says how to build or start it.
    """
    try:
        return str(engine().images.get(image).id)
    except docker.errors.ImageNotFound:
        raise DockerUnavailable(f"image {image} is missing: build it with `make sandbox-image`") from None


def docker_workers(count: int, *, image: str = IMAGE, isolation: str = "world") -> list[SandboxWorker]:
    """Make workers whose runners live in containers; none is started before it is first used.

    Each worker is pinned to one of the cores that this process may use, in turn, and has a user number of its own.

    Args:
      count: how many workers; beyond the number of cores, workers share cores.
      image: name of the image to run.
      isolation: one of ISOLATIONS: "world" gives every run a fresh world, "clean" cleans up after each.

    Raises:
      DockerUnavailable: no engine answers or the image is missing.
      InvalidRequestError: `isolation` is not one of ISOLATIONS.
    """
    require_image(image)
    protocol.require(isolation in ISOLATIONS, "isolation", isolation, f"one of {', '.join(ISOLATIONS)}")
    cores = sorted(os.sched_getaffinity(0))
    # Always pinned: seconds on several cores are not comparable with seconds on one.
    pins = [cores[n % len(cores)] for n in range(count)]
    return [
        SandboxWorker(
            f"docker-{n}",
            open_channel=lambda cpu=cpu, uid=FIRST_UID + n: DockerChannel(
                cpu=cpu, uid=uid, image=image, isolation=isolation
            ),
            open_judge=lambda cpu=cpu, uid=FIRST_UID + MOST_WORKERS + n: DockerChannel(
                cpu=cpu, uid=uid, image=image, isolation=isolation
            ),
        )
        for n, cpu in enumerate(pins)
    ]


def docker_identity(image: str = IMAGE) -> dict[str, str]:
    """Describe what measures here, with the image by its content, so that durations can be compared.

    Returns:
      The same fields as `local_identity`, and the engine. Kernel and version of control groups are the engine's, the
      rest is of this host, even where the engine is on another.

    Raises:
      DockerUnavailable: no engine answers or the image is missing.
    """
    try:
        said = engine().info()
    except docker.errors.DockerException as error:
        raise DockerUnavailable(f"the engine does not say what it is: {error}") from error
    return host.identity() | {
        "kernel": str(said.get("KernelVersion", "unknown")),
        "cgroup": f"v{said.get('CgroupVersion', '?')}",
        "engine": f"{_engine_name(said)} {said.get('ServerVersion', '')}".strip(),
        "service": "local",
        "backend": "docker",
        "image": require_image(image),
        "host": host_name(),
        "calibration": "identity",
    }


def _engine_name(said: dict[str, typing.Any]) -> str:
    """Tell engines that speak the same protocol apart."""
    is_rootless = any("rootless" in option for option in said.get("SecurityOptions") or ())
    name = "podman" if "podman" in json.dumps(said).lower() else "docker"
    return f"{name} (rootless)" if is_rootless else name
