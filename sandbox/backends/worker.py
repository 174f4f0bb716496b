"""Edge: speaks to one runner, wherever it runs, and knows what that runner already holds.

A backend gives a function that opens a channel to a fresh runner; everything else is the same for all backends.
"""

import base64
import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from sandbox import protocol, runner
from sandbox.inside import containment

# What a runner may take beyond the limit of a run before it counts as lost.
GRACE_S = 30.0
HELD_BYTES = 128 << 20


class WorkerLost(RuntimeError):
    """The runner went away in the middle of a request, or never started."""


class WorkerAbsent(WorkerLost):
    """No runner can be started at the moment: nothing has run, and waiting may help."""


class Channel(Protocol):
    """A byte stream to a runner; every method raises OSError where the runner is gone."""

    def send(self, message: bytes) -> None: ...

    def receive(self, size: int, *, timeout_s: float) -> bytes: ...

    def close(self) -> None: ...


class SandboxWorker:
    """One runner with the inputs and the program that it holds; started when first needed, replaced after `stop`."""

    def __init__(self, name: str, *, open_channel: Callable[[], Channel]) -> None:
        self.name = name
        self._open_channel = open_channel
        self._channel: Channel | None = None
        self._held: set[tuple[str, int]] = set()
        self._held_bytes = 0
        self._program: tuple[tuple[str, str], str | None] | None = None
        self.run_count = 0
        self.fastest_probe_s = 0.0
        self.is_layout_fixed = False
        self.conditions: dict[str, str] = {}

    def compile(self, program: str, *, language: str) -> str | None:
        """Makes `program` the current one; returns why it does not compile, or None.

        Raises InvalidRequestError where the image lacks what the language needs.
        """
        key = (program, language)
        if self._program is None or self._program[0] != key:
            answer = self._ask({"do": "program", "text": program, "language": language})
            protocol.require(
                "is_unavailable" not in answer, "language", language, f"one of this image ({answer['error']})"
            )
            self._program = (key, answer["error"])
            self.is_layout_fixed = answer.get("is_layout_fixed", self.is_layout_fixed)
            self.conditions |= {name: answer[name] for name in ("isolation", "accounting") if name in answer}
        return self._program[1]

    def run(
        self, suite: protocol.Suite, tests: Sequence[int], *, limits: protocol.Limits, probes: bool, ahead: int = 1
    ) -> Iterator[Mapping[str, object]]:
        """Runs the current program once on each test, one after the other; raises WorkerLost where the runner dies.

        Up to `ahead` runs are on their way, so that the runner need not wait for what stands between it and us. A
        caller that stops listening in between loses the runner with what is on its way: ask for 1 to stop for free.
        """
        request = {"do": "run", "suite": suite.sha256, "limits": limits_of_run(limits), "probes": probes}
        for group in _groups(suite, tests):
            self._hold(suite, group)
            on_their_way = 0
            try:
                for test in group:
                    self._send(request | {"test": test})
                    on_their_way += 1
                    if on_their_way == ahead:
                        on_their_way -= 1
                        yield self._report(limits)
                while on_their_way:
                    on_their_way -= 1
                    yield self._report(limits)
            finally:
                # A listener that left in the middle must not meet these answers again.
                if on_their_way:
                    self.stop()

    def stop(self) -> None:
        """Ends the runner; whatever it was running ends with it."""
        channel, self._channel = self._channel, None
        self._held.clear()
        self._held_bytes = 0
        self._program = None
        self.run_count = 0
        if channel is not None:
            channel.close()

    def _hold(self, suite: protocol.Suite, tests: Sequence[int]) -> None:
        """Sends the inputs that the runner lacks, all before the first answer is read."""
        lacking = [test for test in dict.fromkeys(tests) if (suite.sha256, test) not in self._held]
        lacking_bytes = _bytes_of(suite, lacking)
        if self._held and self._held_bytes + lacking_bytes > HELD_BYTES:
            self._ask({"do": "forget"})
            self._held.clear()
            lacking, lacking_bytes, self._held_bytes = [*dict.fromkeys(tests)], _bytes_of(suite, tests), 0
        for test in lacking:
            self._send({"do": "input", "suite": suite.sha256, "test": test, "text": suite.inputs[test]})
        refusals = [self._receive("input", timeout_s=GRACE_S).get("error") for _ in lacking]
        self._held |= {(suite.sha256, test) for test in lacking}
        if reason := next(filter(None, refusals), None):
            self.stop()
            raise protocol.InvalidRequestError(
                f"suite.inputs: expected inputs that this backend has room for: {reason}"
            )
        self._held_bytes += lacking_bytes

    def _report(self, limits: protocol.Limits) -> Mapping[str, object]:
        answer = self._receive("run", timeout_s=containment.MOST_EXTENSION * limits.wall_s + GRACE_S)
        answer["output"] = base64.b64decode(answer["output"])
        self.run_count += 1
        if answer["probe_s"] > 0:
            self.fastest_probe_s = min(self.fastest_probe_s or answer["probe_s"], answer["probe_s"])
        return answer

    def _ask(self, request: dict) -> dict:
        self._send(request)
        return self._receive(
            request["do"], timeout_s=containment.MOST_EXTENSION * runner.TOOL_LIMITS["wall_s"] + GRACE_S
        )

    def _send(self, request: dict) -> None:
        if self._channel is None:
            try:
                self._channel = self._open_channel()
            except OSError as error:
                raise WorkerAbsent(f"worker {self.name} cannot be started: {error}") from error
        with self._losses(request["do"]):
            body = json.dumps(request).encode()
            self._channel.send(runner.HEADER.pack(len(body)) + body)

    def _receive(self, what: str, *, timeout_s: float) -> dict:
        with self._losses(what):
            if self._channel is None:
                raise ConnectionError("the runner has ended")
            (size,) = runner.HEADER.unpack(self._channel.receive(runner.HEADER.size, timeout_s=timeout_s))
            return json.loads(self._channel.receive(size, timeout_s=timeout_s))

    @contextlib.contextmanager
    def _losses(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.stop()
            raise WorkerLost(f"worker {self.name} was lost during {what!r}: {error}") from error


def _groups(suite: protocol.Suite, tests: Sequence[int]) -> Iterator[list[int]]:
    """The tests in order, cut where the inputs of a group would not fit into a runner together."""
    group, held, held_bytes = [], set(), 0
    for test in tests:
        size = 0 if test in held else _bytes_of(suite, [test])
        if group and held_bytes + size > HELD_BYTES:
            yield group
            group, held, held_bytes, size = [], set(), 0, _bytes_of(suite, [test])
        group.append(test)
        held.add(test)
        held_bytes += size
    if group:
        yield group


def _bytes_of(suite: protocol.Suite, tests: Sequence[int]) -> int:
    return sum(len(suite.inputs[test].encode("utf-8", "surrogatepass")) for test in set(tests))


def limits_of_run(limits: protocol.Limits) -> dict[str, float | None]:
    """Limits as the runner takes them; without one of its own, processor time may be as long as wall time."""
    return dataclasses.asdict(limits) | {"cpu_s": limits.wall_s if limits.cpu_s is None else limits.cpu_s}
