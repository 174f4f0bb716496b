"""What is asked of a container engine, and whether what it says of itself is enough for that. Pure.

Settings stand behind the name of a backend, as in a URL, wherever a backend is named: in `client.connect`, in
`sandbox.address` of a configuration, in `--backend` of the server and in `--sandbox_address` of a pipeline:
`docker?engine=unix:///run/podman/podman.sock&user_namespace=auto`.
"""

import dataclasses
import json
import re
import urllib.parse
from collections.abc import Mapping

from sandbox.protocol import INPUT_BYTES, MOST_INPUT_BYTES, require

SCHEMES = ("unix://", "tcp://", "ssh://", "npipe://")
USER_NAMESPACES = ("", "host", "auto")
RUNTIME_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True)
class EngineSettings:
    """Which engine makes the containers, and what it puts around programs.

    Attributes:
      engine: address of a socket that speaks the Docker engine's protocol, such as
        `unix:///run/user/1000/podman/podman.sock`; empty for what `DOCKER_HOST` names, or else the usual one.
      runtime: the OCI runtime by the name under which the engine knows it, such as runc, crun, runsc or kata; empty for
        the engine's own choice.
      user_namespace: `auto` gives every container users of its own (Podman), `host` those of the host even where the
        engine maps them by default, and empty is the engine's own choice.
      input_bytes: the largest input that is uploaded as a file, 0 to 1 TiB. It lies on the engine's disk, and the copy
        that a run reads in a container's memory, which grows by so much.

    Raises:
      InvalidRequestError: a value is out of its range.
    """

    engine: str = ""
    runtime: str = ""
    user_namespace: str = ""
    input_bytes: int = INPUT_BYTES

    def __post_init__(self) -> None:
        is_address = not self.engine or self.engine.startswith(SCHEMES)
        require(is_address, "engine", self.engine, f"an address that begins with {', '.join(SCHEMES)}")
        is_name = not self.runtime or RUNTIME_NAME.fullmatch(self.runtime) is not None
        require(is_name, "runtime", self.runtime, "the name of a runtime of the engine")
        kinds = ", ".join(filter(None, USER_NAMESPACES))
        is_kind = self.user_namespace in USER_NAMESPACES
        require(is_kind, "user_namespace", self.user_namespace, f"one of {kinds}, or nothing")
        is_size = 0 <= self.input_bytes <= MOST_INPUT_BYTES
        require(is_size, "input_bytes", self.input_bytes, f"a whole number in [0, {MOST_INPUT_BYTES}]")

    def __str__(self) -> str:
        """Return the settings that are not left to the engine, as `name = value`; "engine" where there are none."""
        given = {name: value for name, value in dataclasses.asdict(self).items() if value not in ("", INPUT_BYTES)}
        return ", ".join(f"{name} = {value!r}" for name, value in given.items()) or "engine"


SETTINGS = tuple(field.name for field in dataclasses.fields(EngineSettings))


def parse_backend(address: str) -> tuple[str, EngineSettings]:
    """Split the address of a backend, such as `docker?runtime=crun`, into its name and its settings.

    Raises:
      InvalidRequestError: a setting is unknown, given twice or out of its range.
    """
    name, _, query = address.partition("?")
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    given = dict(pairs)
    is_known = len(given) == len(pairs) == query.count("=") and given.keys() <= set(SETTINGS)
    require(
        is_known or not query, "backend", address, f"settings among {', '.join(SETTINGS)}, each once, as name=value"
    )
    size = given.pop("input_bytes", str(INPUT_BYTES))
    require(size.isascii() and size.isdigit(), "input_bytes", size, "a whole number of bytes")
    return name, EngineSettings(**given, input_bytes=int(size))


def is_podman(said: Mapping[str, object]) -> bool:
    """Tell from what an engine says of itself whether it is Podman, which speaks the same protocol."""
    return "podman" in json.dumps(said.get("Components")).lower()


def is_rootless(said: Mapping[str, object]) -> bool:
    """Tell from what an engine says of itself whether it runs as a user without root's rights."""
    options = said.get("SecurityOptions")
    return isinstance(options, list) and any("rootless" in str(option) for option in options)


def engine_name(said: Mapping[str, object]) -> str:
    """Name an engine by what it says of itself, with its version."""
    name = "podman" if is_podman(said) else "docker"
    return f"{name} {said.get('ServerVersion', '')}".strip() + (" (rootless)" if is_rootless(said) else "")


def require_offered(settings: EngineSettings, said: Mapping[str, object]) -> None:
    """Refuse settings that the engine does not offer.

    Args:
      settings: what is asked for.
      said: the engine's answer to `GET /info`, and the `Components` of `GET /version`.

    Raises:
      InvalidRequestError: with the setting, its value and what this engine offers instead.
    """
    runtimes = said.get("Runtimes")
    known = sorted(runtimes) if isinstance(runtimes, dict) else []
    if is_podman(said):
        # It takes no runtime with a container, and says nothing where one is asked for.
        known = [str(said.get("DefaultRuntime"))]
    expected = f"what {engine_name(said)} offers: {', '.join(known)}"
    require(settings.runtime in ("", *known), "runtime", settings.runtime, expected)
    room_bytes = int(str(said.get("MemTotal") or MOST_INPUT_BYTES))
    is_room = settings.input_bytes <= room_bytes
    require(is_room, "input_bytes", settings.input_bytes, f"at most {room_bytes}, the memory of the engine's host")
    is_offered = settings.user_namespace != "auto" or is_podman(said)
    expected = "nothing or host: a Docker engine maps the users of all its containers, or none (userns-remap)"
    require(is_offered, "user_namespace", settings.user_namespace, expected)
