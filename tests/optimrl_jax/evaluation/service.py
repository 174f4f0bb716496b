"""A stand-in for the sandbox: answers requests at a speed that a test sets, and can be killed after some answers."""

import collections
import concurrent.futures

from sandbox.client import Client
from sandbox.protocol import RunRequest, RunResult, Suite, TestResult, Verdict
from sandbox.service import health
from sandbox.service.store import Store


class Killed(BaseException):
    """What ends a job in the middle of a pass."""


def right_and_quick(_: str) -> tuple[Verdict, float]:
    """Every program is right and takes the service's seconds once."""
    return Verdict.SUCCESS, 1.0


class StandInService:
    """A program takes `seconds` times its own factor on every test; counts what it executes."""

    measured_under: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, seconds: float, *, dies_after: int | None = None, judges=right_and_quick) -> None:
        self.seconds, self.dies_after, self.executed, self.judges = seconds, dies_after, 0, judges
        self.suites: dict[str, Suite] = {}
        self.counts: collections.Counter[str] = collections.Counter()
        self.windows = health.Windows()

    def upload(self, suite: Suite) -> str:
        self.suites[suite.sha256] = suite
        return suite.sha256

    def suite_of(self, request: RunRequest) -> Suite:
        return self.suites[request.suite_sha256]

    def submit(self, request: RunRequest) -> concurrent.futures.Future[RunResult]:
        if self.dies_after is not None and self.executed >= self.dies_after:
            raise Killed
        self.executed += 1
        verdict, factor = self.judges(request.program)
        results = tuple(TestResult(test=t, verdict=verdict, wall_s=factor * self.seconds) for t in request.tests or ())
        answer = RunResult(request_sha256=request.sha256, results=results, measured_under={})
        future: concurrent.futures.Future[RunResult] = concurrent.futures.Future()
        future.set_result(answer)
        return future

    def close(self) -> None:
        pass

    def client(self, *, pass_store: str) -> Client:
        """Connect as `execution.connect_sandbox` would: with the store of a pass where one is given."""
        return Client(self, store=Store(pass_store) if pass_store else None, reuse="always", threads=1)
