"""Edge: how everyone else reaches the sandbox. One interface whatever runs the programs.

`connect()` gives a client; `upload` a suite once, then `run_many` requests. A caller's mistake raises
InvalidRequestError, a program's failure is a verdict, and a fault of the sandbox is retried and then reported as
`sandbox_fault`, which is never a statement about the program.
"""

import asyncio
import concurrent.futures
import logging
import os
import pathlib
import platform
import queue
import sys
from collections.abc import Callable, Sequence

from sandbox import checkers, measurement
from sandbox.backends.local import LocalWorker, WorkerLost
from sandbox.protocol import InvalidRequestError, RunRequest, RunResult, Suite, TestResult, Verdict, require
from sandbox.store import Store

_LOG = logging.getLogger(__name__)
ATTEMPTS = 3
REUSE = ("always", "never")


def connect(
    address: str = "local", *, workers: int = 2, store: str | pathlib.Path | None = None, reuse: str = "always"
) -> "Client":
    """A client with `workers` runner processes of its own, closed by `close` or at the end of a `with`.

    `store` is a file of stored answers; with `reuse="always"` equal requests are answered from it, and equal requests
    of one batch are executed once. Raises InvalidRequestError for an address, a count or a mode that does not exist.
    """
    require(address == "local", "address", address, "local")
    require(isinstance(workers, int) and 1 <= workers <= 1024, "workers", workers, "a whole number in [1, 1024]")
    require(reuse in REUSE, "reuse", reuse, f"one of {', '.join(REUSE)}")
    _LOG.info("local sandbox with %d workers: no container around programs, for trusted code", workers)
    return Client(workers=workers, store=Store(store) if store and reuse == "always" else None, reuse=reuse)


class Client:
    """Runs requests on a fixed number of workers; safe to use from several threads."""

    def __init__(self, *, workers: int, store: Store | None, reuse: str) -> None:
        self._store = store
        self._reuse = reuse
        self._suites: dict[str, Suite] = {}
        self._workers = [LocalWorker(f"local-{n}", cpu=cpu) for n, cpu in enumerate(_cores(workers))]
        self._idle: queue.SimpleQueue[LocalWorker] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="sandbox")
        self.measured_under = _identity()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all workers; requests that have not started are dropped."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:
            worker.stop()
        if self._store:
            self._store.close()
            self._store = None

    def upload(self, suite: Suite) -> str:
        """Makes a suite known and returns the hash under which requests name it."""
        checkers.checker_named(suite.checker)
        self._suites[suite.sha256] = suite
        return suite.sha256

    def run(self, request: RunRequest) -> RunResult:
        """Runs one request and waits for its answer."""
        return self.run_many([request])[0]

    async def arun(self, request: RunRequest) -> RunResult:
        """Like `run`, without blocking the event loop."""
        return await asyncio.wrap_future(self._submit(request))

    def run_many(
        self, requests: Sequence[RunRequest], *, on_result: Callable[[RunResult], None] | None = None
    ) -> list[RunResult]:
        """Answers in the order of `requests`, at most one running on each worker; `on_result` sees each as it ends."""
        for request in requests:
            self._suite_of(request)
        futures: dict[str, concurrent.futures.Future[RunResult]] = {}
        asked = []
        for request in requests:
            if self._reuse == "never" or request.sha256 not in futures:
                futures[request.sha256] = self._submit(request)
            asked.append(futures[request.sha256])
        if on_result:
            for future in concurrent.futures.as_completed(asked):
                for _ in range(asked.count(future) if self._reuse == "always" else 1):
                    on_result(future.result())
        return [future.result() for future in asked]

    def _submit(self, request: RunRequest) -> concurrent.futures.Future[RunResult]:
        return self._threads.submit(self._answer, request, self._suite_of(request))

    def _suite_of(self, request: RunRequest) -> Suite:
        suite = self._suites.get(request.suite_sha256)
        require(suite is not None, "suite_sha256", request.suite_sha256, "the hash of an uploaded suite")
        require(request.language == "python3", "language", request.language, "python3")
        for test in request.tests or ():
            require(test < len(suite.inputs), "tests", test, f"indices below {len(suite.inputs)}")
        return suite

    def _answer(self, request: RunRequest, suite: Suite) -> RunResult:
        if self._store and (stored := self._store.get(request)):
            return stored
        worker = self._idle.get()
        try:
            results = _measured(worker, request, suite)
        finally:
            self._idle.put(worker)
        answer = RunResult(request.sha256, results, self.measured_under)
        if self._store:
            self._store.put(answer)
        return answer


def _measured(worker: LocalWorker, request: RunRequest, suite: Suite) -> tuple[TestResult, ...]:
    for attempt in range(ATTEMPTS):
        try:
            return measurement.measure(worker, request, suite)
        except WorkerLost as lost:
            _LOG.warning("%s (attempt %d of %d)", lost, attempt + 1, ATTEMPTS)
            reason = str(lost)
    tests = range(len(suite.inputs)) if request.tests is None else request.tests
    return tuple(TestResult(t, Verdict.SANDBOX_FAULT, 0.0, worker=worker.name, detail=reason) for t in tests)


def _cores(workers: int) -> list[int | None]:
    """One core for each worker while there are enough; beyond that nothing is pinned, the scheduler shares."""
    cores = sorted(os.sched_getaffinity(0))
    return list(cores[:workers]) if workers <= len(cores) else [None] * workers


def _identity() -> dict[str, str]:
    """What measures: enough to tell whether two durations came from comparable places."""
    return {
        "service": "local",
        "backend": LocalWorker.backend,
        "image": f"python-{platform.python_version()}",
        "host": f"{platform.machine()}-{os.cpu_count()}-cores-{sys.platform}",
        "calibration": "identity",
    }


__all__ = ["Client", "InvalidRequestError", "connect"]
