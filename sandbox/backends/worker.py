"""Edge: speaks to one runner, wherever it runs, and knows what that runner already holds.

A backend gives a function that opens a channel to a fresh runner; everything else is the same for all backends.
"""

import base64
import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Protocol

from sandbox import protocol, runner

# What a runner may take beyond the limit of a run before it counts as lost.
GRACE_S = 30.0
HELD_BYTES = 128 << 20


class WorkerLost(RuntimeError):
    """The runner went away in the middle of a request, or never started."""


class Channel(Protocol):
    """A byte stream to a runner; every method raises OSError where the runner is gone."""

    def send(self, message: bytes) -> None: ...

    def receive(self, size: int, *, timeout_s: float) -> bytes: ...

    def close(self) -> None: ...


class Worker:
    """One runner with the inputs and the program that it holds; started when first needed, replaced after `stop`."""

    def __init__(self, name: str, *, open_channel: Callable[[], Channel]) -> None:
        self.name = name
        self._open_channel = open_channel
        self._channel: Channel | None = None
        self._held: set[tuple[str, int]] = set()
        self._held_bytes = 0
        self._program: tuple[tuple[str, str], str | None] | None = None
        self.runs = 0

    def compile(self, program: str, *, language: str) -> str | None:
        """Makes `program` the current one; returns why it does not compile, or None."""
        key = (program, language)
        if self._program is None or self._program[0] != key:
            answer = self._ask({"do": "program", "text": program, "language": language})
            self._program = (key, answer["error"])
        return self._program[1]

    def run(
        self, suite: protocol.Suite, test: int, *, limits: protocol.Limits, probes: bool = False
    ) -> Mapping[str, object]:
        """Runs the current program once on one test; raises WorkerLost where the runner dies."""
        place = {"suite": suite.sha256, "test": test}
        if (suite.sha256, test) not in self._held:
            self._hold(suite, test, place)
        request = {"do": "run", "limits": dataclasses.asdict(limits), "probes": probes, **place}
        answer = self._ask(request, timeout_s=limits.wall_s + GRACE_S)
        answer["output"] = base64.b64decode(answer["output"])
        self.runs += 1
        return answer

    def stop(self) -> None:
        """Ends the runner; whatever it was running ends with it."""
        channel, self._channel = self._channel, None
        self._held.clear()
        self._held_bytes = 0
        self._program = None
        self.runs = 0
        if channel is not None:
            channel.close()

    def _hold(self, suite: protocol.Suite, test: int, place: dict) -> None:
        text = suite.inputs[test]
        if self._held_bytes + len(text) > HELD_BYTES:
            self._ask({"do": "forget"})
            self._held.clear()
            self._held_bytes = 0
        self._ask({"do": "input", "text": text, **place})
        self._held.add((suite.sha256, test))
        self._held_bytes += len(text)

    def _ask(self, request: dict, *, timeout_s: float = GRACE_S) -> dict:
        try:
            if self._channel is None:
                self._channel = self._open_channel()
            body = json.dumps(request).encode()
            self._channel.send(runner.HEADER.pack(len(body)) + body)
            (size,) = runner.HEADER.unpack(self._channel.receive(runner.HEADER.size, timeout_s=timeout_s))
            return json.loads(self._channel.receive(size, timeout_s=timeout_s))
        except OSError as error:
            self.stop()
            raise WorkerLost(f"worker {self.name} was lost during {request['do']!r}: {error}") from error
