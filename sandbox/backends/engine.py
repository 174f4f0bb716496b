"""Edge: the container engine (Docker, Podman): which one, what it is, and whether it has the sandbox's image."""

import atexit
import contextlib
import functools
import os
import pathlib
import shutil
import tempfile
import typing

import docker

from sandbox import host
from sandbox.backends import syscalls
from sandbox.backends.engine_settings import EngineSettings, engine_name, is_podman, require_offered
from sandbox.backends.local import host_name

IMAGE = "optimrl-sandbox:1"
# An engine repeats the whole request before it says what is wrong with it.
MOST_CHARACTERS = 400
NO_ENGINE = "no Docker engine answers ({}): start one, or use the local backend for trusted code"


class DockerUnavailable(OSError):
    """The engine or the image is missing, or a container does not start; the message says what to do."""


class Engine:
    """An engine that has answered, and what it said of itself.

    Attributes:
      settings: which engine it is, and what it is to put around programs.
      said: its answer to `GET /info`, and the `Components` of `GET /version`.
    """

    def __init__(self, settings: EngineSettings | None = None) -> None:
        """Ask an engine what it is.

        Args:
          settings: None leaves everything to the environment and the engine.

        Raises:
          DockerUnavailable: none answers.
          InvalidRequestError: it does not offer what the settings ask for.
        """
        self.settings = settings or EngineSettings()
        try:
            # One question, because Podman takes seconds to answer it, and so would each new connection.
            with contextlib.closing(
                engine(self.settings, version=docker.constants.DEFAULT_DOCKER_API_VERSION)
            ) as asked:
                about = asked.api.version(False)
            self._version = str(about["ApiVersion"])
            with contextlib.closing(self.connect()) as asked:
                self.said: dict[str, typing.Any] = asked.info() | {"Components": about.get("Components")}
        except (docker.errors.DockerException, OSError) as error:
            raise DockerUnavailable(NO_ENGINE.format(error)) from None
        require_offered(self.settings, self.said)

    def connect(self) -> docker.DockerClient:
        """Connect once more: connections are not for several threads. Whoever asked closes it.

        Raises:
          DockerUnavailable: it does not answer any more.
        """
        return engine(self.settings, version=self._version)

    @functools.cached_property
    def profile(self) -> str:
        """The system-call profile in the form that the engine takes: the text itself, or for Podman a file's name.

        The file can be read by an engine of this machine that runs as another user, and goes with this process.
        """
        if not is_podman(self.said):
            return syscalls.profile()
        folder = tempfile.mkdtemp(prefix="optimrl-sandbox-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.chmod(folder, 0o755)
        path = pathlib.Path(folder, "seccomp.json")
        path.write_text(syscalls.profile())
        path.chmod(0o644)
        return str(path)

    def identity(self, image: str = IMAGE) -> dict[str, str]:
        """Describe what measures here, with the image by its content, so that durations can be compared.

        Returns:
          The same fields as `local_identity`, the engine, and the settings that are not left to it. Kernel and version
          of control groups are the engine's, the rest is of this host, even where the engine is on another.

        Raises:
          DockerUnavailable: no engine answers or the image is missing.
        """
        chosen = {"runtime": self.settings.runtime, "user_namespace": self.settings.user_namespace}
        return (
            host.identity()
            | {
                "kernel": str(self.said.get("KernelVersion", "unknown")),
                "cgroup": f"v{self.said.get('CgroupVersion', '?')}",
                "engine": engine_name(self.said),
                "service": "local",
                "backend": "docker",
                "image": require_image(image, self.settings),
                "host": host_name(),
                "calibration": "identity",
            }
            | {name: value for name, value in chosen.items() if value}
        )


def engine(settings: EngineSettings | None = None, *, version: str | None = None) -> docker.DockerClient:
    """Connect to the engine that the settings, or else the environment (`DOCKER_HOST`), name.

    Args:
      settings: None for those of the environment.
      version: of the protocol; None asks the engine.

    Raises:
      DockerUnavailable: none answers; the message says what to do instead.
    """
    address = settings.engine if settings else ""
    environment = os.environ | ({"DOCKER_HOST": address} if address else {})
    try:
        return docker.from_env(timeout=60, version=version, environment=environment)
    except docker.errors.DockerException as error:
        raise DockerUnavailable(NO_ENGINE.format(error)) from None


def require_image(image: str = IMAGE, settings: EngineSettings | None = None) -> str:
    """Return the identity (content digest) of an image that must have been built.

    Raises:
      DockerUnavailable: the image is missing or no engine answers; the message says how to build or start it.
    """
    try:
        with contextlib.closing(engine(settings)) as asked:
            return str(asked.images.get(image).id)
    except docker.errors.ImageNotFound:
        raise DockerUnavailable(f"image {image} is missing: build it with `make sandbox-image`") from None


def in_short(error: Exception) -> str:
    """Return the end of an error's text, where an engine says what is wrong."""
    text = str(error)
    return text if len(text) <= MOST_CHARACTERS else f"… {text[-MOST_CHARACTERS:]}"
