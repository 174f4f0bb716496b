"""Edge: one runner process on this machine, without a container: for trusted code, tests and machines with no engine.

The same runner serves every backend; what differs is only what stands around it.
"""

import base64
import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Mapping

from sandbox import protocol, runner

RUNNER = pathlib.Path(runner.__file__)
STOP_S = 5.0


class WorkerLost(RuntimeError):
    """The runner went away in the middle of a request."""


class LocalWorker:
    """A runner process pinned to one core, with the suites and the program that it already knows."""

    backend = "local"

    def __init__(self, name: str, *, cpu: int | None) -> None:
        self.name = name
        self._cpu = cpu
        self._process: subprocess.Popen | None = None
        self._known: set[tuple[str, int]] = set()
        self._program: tuple[str, str | None] | None = None

    def compile(self, program: str) -> str | None:
        """Makes `program` the current one; returns why it does not compile, or None."""
        if self._program is None or self._program[0] != program:
            answer = self._ask({"do": "program", "text": program})
            self._program = (program, answer["error"])
        return self._program[1]

    def run(self, suite: protocol.Suite, test: int, *, limits: protocol.Limits) -> Mapping[str, object]:
        """Runs the current program once on one test; raises WorkerLost where the runner dies."""
        place = {"suite": suite.sha256, "test": test}
        if (suite.sha256, test) not in self._known:
            self._ask({"do": "input", "text": suite.inputs[test], **place})
            self._known.add((suite.sha256, test))
        answer = self._ask({"do": "run", "limits": dataclasses.asdict(limits), **place})
        answer["output"] = base64.b64decode(answer["output"])
        return answer

    def stop(self) -> None:
        """Ends the runner; whatever it was running ends with it."""
        process, self._process = self._process, None
        self._known.clear()
        self._program = None
        if process is None:
            return
        process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _start(self) -> None:
        # -I keeps the caller's environment and directory out of the programs' view of the world.
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(RUNNER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            start_new_session=True,
        )
        if self._cpu is not None:
            self._ask({"do": "pin", "cpu": self._cpu})

    def _ask(self, request: dict) -> dict:
        if self._process is None:
            self._start()
        try:
            runner.send(self._process.stdin.fileno(), request)
            answer = runner.receive(self._process.stdout.fileno())
        except OSError:
            answer = None
        if answer is None:
            self.stop()
            raise WorkerLost(f"worker {self.name} was lost during {request['do']!r}")
        return answer
