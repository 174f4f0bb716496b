"""Edge: reaches sandbox servers over HTTP, spreads requests over them, and survives the loss of any of them.

Every request is answered once: it is sent again, to the next server, where a connection breaks or a server says that it
is full or failing, until its attempts are used up. The fallback policy decides what to report of a test that is not
settled then, or was timed by a degraded service.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import itertools
import logging
import pathlib
import random
import ssl
import threading
import typing
import uuid
from collections.abc import Collection, Sequence

import httpx

from sandbox import protocol
from sandbox.protocol import (
    TOKEN_VARIABLE,
    InvalidRequestError,
    RunRequest,
    RunResult,
    StoredInput,
    Suite,
    TestResult,
    Verdict,
)
from sandbox.service import fallback, health, pool
from sandbox.service.input_files import stored_input
from sandbox.service.suites import Suites

_LOG = logging.getLogger(__name__)
# A wrong address should be reported soon, but a server that restarts in the middle of a job is worth half a minute.
ATTEMPTS = 6
RUN_ATTEMPTS = 14
CANCEL_ATTEMPTS = 50
RUN_NAME = "Run-Name"
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
# A full server is worth a much longer wait than a broken one: it works, and says when to come back.
LONGEST_WAIT_S = 600.0
MARGIN_S = 120.0
SUITE_CHARACTERS = 4 << 30
LOCAL_SETTINGS = pool.PoolSettings(suite_characters=1 << 28)
NO_SERVER = "expected the address of a sandbox server"
REFUSALS = (400, 401, 403, 404, 405, 413, 422)


class Unanswered(OSError):
    """No server settled a request; the message holds the last reason."""


class _Job:
    """One request on its way to servers.

    Attributes:
      name: what servers know its run by.
      server: the one that was asked last.
      is_cancelled: whether nobody waits for it any more.
    """

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self.server: httpx.Client | None = None
        self.is_cancelled = False


class Remote:
    """Servers that answer requests, seen as one service; safe to use from several threads.

    Args:
      urls: addresses of the servers, `http(s)://host:port`.
      concurrency: requests under way at the same time, over all servers.
      token: their token; empty for none.
      ca: PEM file by which https:// servers are known; None for the usual authorities.
      policy: what becomes of tests that no server settles.
      suite_characters: characters of all suites that are held for upload; the oldest make room.

    Attributes:
      counts: events since the start: `requests`, `unsettled`, `recovered`, `unresolved`, `degraded`, `retried`, and the
        single tries that were refused as `full` or `failed`.
      windows: the same requests in windows.
      measured_under: what the first server to answer says of itself.

    Raises:
      Unanswered: no server answers.
      InvalidRequestError: the token is refused, or an address is not that of a sandbox server.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        concurrency: int,
        token: str = "",
        ca: str | pathlib.Path | None = None,
        policy: fallback.FallbackPolicy,
        suite_characters: int = SUITE_CHARACTERS,
    ) -> None:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        limits = httpx.Limits(max_connections=concurrency + 4)
        verify = _trust(ca) if ca else True
        self._servers = [
            httpx.Client(base_url=url, headers=headers, limits=limits, trust_env=False, verify=verify) for url in urls
        ]
        self._input_paths: dict[str, pathlib.Path] = {}
        self._turn = itertools.cycle(self._servers)
        self._policy = policy
        self._degraded: set[httpx.Client] = set()
        self._suites = Suites(characters=suite_characters)
        self._lock = threading.Lock()
        self._local: pool.Pool | None = None
        self._threads = concurrent.futures.ThreadPoolExecutor(concurrency, thread_name_prefix="sandbox-remote")
        self._cancels = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="sandbox-cancel")
        self._jobs: dict[concurrent.futures.Future[RunResult], _Job] = {}
        self.counts: collections.Counter[str] = collections.Counter()
        self.windows = health.Windows()
        self._is_closing = threading.Event()
        self.measured_under = self._identity()

    def _identity(self) -> dict[str, str]:
        server, response = self._send("GET", "/v1/health", timeout_s=30.0)
        try:
            return response.json()["measured_under"]
        except (ValueError, KeyError, TypeError):
            raise InvalidRequestError(f"{server.base_url}: {NO_SERVER}") from None

    def upload(self, suite: Suite) -> str:
        """Hold a suite and return its hash; a server gets it when it first says that it does not know it."""
        return self._suites.put(suite)

    def upload_input(self, path: str | pathlib.Path) -> StoredInput:
        """Remember a file as an input; a server gets it when it first says that it does not know it."""
        stored = stored_input(path)
        with self._lock:
            self._input_paths[stored.sha256] = pathlib.Path(path)
        return stored

    def suite_of(self, request: RunRequest) -> Suite:
        """Return the suite of a request; raise InvalidRequestError if it is not held or lacks a test."""
        return self._suites.of(request)

    def submit(self, request: RunRequest) -> concurrent.futures.Future[RunResult]:
        """Send a request and return a future of its answer; it raises InvalidRequestError where servers refuse it."""
        job = _Job()
        future = self._threads.submit(self._answer, request, self.suite_of(request), job)
        with self._lock:
            self._jobs[future] = job
        future.add_done_callback(lambda done: self._jobs.pop(done, None))
        return future

    def cancel(self, future: concurrent.futures.Future[RunResult]) -> None:
        """Drop a request that nobody waits for any more, on its server too; does not wait for that."""
        job = self._jobs.get(future)
        if future.cancel() or job is None:
            return
        job.is_cancelled = True
        self._cancels.submit(self._cancel, future, job)

    def _cancel(self, future: concurrent.futures.Future[RunResult], job: _Job) -> None:
        """Tell the server of a job to drop it; again after a moment where it has not heard of it yet."""
        for _ in range(CANCEL_ATTEMPTS):
            if future.done() or job.server is None or self._is_closing.is_set():
                return
            with contextlib.suppress(httpx.HTTPError):
                if job.server.delete(f"/v1/runs/{job.name}", timeout=5.0).is_success:
                    return
            self._is_closing.wait(FIRST_PAUSE_S)

    def close(self) -> None:
        """Wait for the requests that servers are running, drop all others, and close the connections."""
        self._is_closing.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._cancels.shutdown(wait=True, cancel_futures=True)
        for server in self._servers:
            server.close()
        if self._local:
            self._local.close()

    def _answer(self, request: RunRequest, suite: Suite, job: _Job) -> RunResult:
        result = self._asked(request, suite, job)
        if job.is_cancelled:
            raise pool.RunAbandoned("nobody waits for this request any more")
        pending = fallback.unsettled_tests(request, result)
        is_degraded = bool(health.degraded_by(result.measured_under))
        self._count(requests=1, unsettled=int(bool(pending)), degraded=int(is_degraded))
        with self._lock:
            self.windows = self.windows.after(bool(pending))
        local = self._run_here(request, suite, pending)
        results = fallback.reported(request, result, local, policy=self._policy)
        answer = dataclasses.replace(result, results=results)
        if local:
            answer = dataclasses.replace(
                answer, measured_under=result.measured_under | {"fallback": self._policy.backend}
            )
        if pending:
            self._count(**{"unresolved" if answer.is_faulted else "recovered": 1})
        return answer

    def _asked(self, request: RunRequest, suite: Suite, job: _Job) -> RunResult:
        """Return the best of the first answer and its retries; all tests are faults where no server answers."""
        best: RunResult | None = None
        avoided, body = set(), protocol.to_json(request)
        patience_s = _patience_s(request, len(request.tests or suite.inputs))
        for attempt in range(1 + self._policy.retries):
            try:
                server, response = self._send(
                    "POST",
                    "/v1/runs",
                    body=body,
                    suite=suite,
                    timeout_s=patience_s,
                    avoided=avoided,
                    attempts=RUN_ATTEMPTS,
                    job=job,
                )
            except Unanswered as error:
                _LOG.warning("no server settled a request: %s", error)
                return best or _faulted(request, suite, str(error))
            result = protocol.from_json(RunResult, response.content)
            self._count(retried=int(attempt > 0))
            best = result if best is None else min(best, result, key=_trouble)
            degraded = self._degraded_after(server, result)
            # Where every server is degraded, asking again would only add to their load.
            if not _trouble(best) or (not best.is_faulted and len(degraded) == len(self._servers)):
                break
            avoided = {server} | degraded
        assert best is not None  # At least one attempt is made, and each ends with an answer or returns.
        return best

    def _degraded_after(self, server: httpx.Client, result: RunResult) -> set[httpx.Client]:
        """Note a server's newest answer and return the servers that are degraded by their newest."""
        with self._lock:
            (self._degraded.add if health.degraded_by(result.measured_under) else self._degraded.discard)(server)
            return {*self._degraded}

    def _send(
        self,
        method: str,
        path: str,
        *,
        timeout_s: float,
        body: str = "",
        suite: Suite | None = None,
        avoided: Collection[httpx.Client] = (),
        attempts: int = ATTEMPTS,
        job: _Job | None = None,
    ) -> tuple[httpx.Client, httpx.Response]:
        """Send a request until a server answers it, first to one that is not in `avoided` if there is any.

        Returns:
          The server and its response, a success.

        Raises:
          Unanswered: the attempts or the time are used up, this service is closing, or the job was cancelled.
          InvalidRequestError: a server refuses the request.
        """
        reason, failures, waited_s, job = "", 0, 0.0, job or _Job()
        headers = {RUN_NAME: job.name}
        while failures < attempts and waited_s < LONGEST_WAIT_S and not self._is_closing.is_set():
            server = self._next(() if failures else avoided)
            job.server = server
            if job.is_cancelled:
                break
            try:
                response = server.request(method, path, content=body, timeout=timeout_s, headers=headers)
                if response.status_code == 404 and suite is not None:
                    response = self._give(server, suite, timeout_s=timeout_s)
                    if response.is_success:
                        response = server.request(method, path, content=body, timeout=timeout_s, headers=headers)
                if response.is_success:
                    return server, response
                if response.status_code in REFUSALS:
                    raise InvalidRequestError(_refusal(server, response))
                reason = f"{server.base_url}: status {response.status_code}"
            except httpx.HTTPError as error:
                response, reason = None, f"{server.base_url}: {error!r}"
            is_full = response is not None and response.status_code == 429
            failures += 0 if is_full else 1
            self._count(**{"full" if is_full else "failed": 1})
            pause_s = (
                float(response.headers.get("Retry-After", 1)) if response and is_full else FIRST_PAUSE_S * 2**failures
            )
            pause_s = min(LONGEST_PAUSE_S, pause_s) * random.uniform(0.5, 1.0)
            self._is_closing.wait(pause_s)
            waited_s += pause_s
        raise Unanswered(reason)

    def _give(self, server: httpx.Client, suite: Suite, *, timeout_s: float) -> httpx.Response:
        """Send a suite to a server, and before it the files that it names, where the server lacks them.

        Returns the server's answer, which may be that it does not take the suite, or one of the files. Raises
        InvalidRequestError where one of its files was never given to this client.
        """
        content, path = protocol.to_json(suite), f"/v1/suites/{suite.sha256}"
        response = server.put(path, content=content, timeout=timeout_s)
        if response.status_code == 404:
            for stored in suite.inputs:
                if isinstance(stored, StoredInput):
                    with open(self._path_of(stored), "rb") as file:
                        taken = server.put(f"/v1/inputs/{stored.sha256}", content=file, timeout=timeout_s)
                    if not taken.is_success:
                        return taken
            response = server.put(path, content=content, timeout=timeout_s)
        return response

    def _path_of(self, stored: StoredInput) -> pathlib.Path:
        path = self._input_paths.get(stored.sha256)
        protocol.require(path is not None, "suite.inputs", stored.sha256, "a file given to upload_input")
        return typing.cast(pathlib.Path, path)

    def _next(self, avoided: Collection[httpx.Client]) -> httpx.Client:
        with self._lock:
            turns = [next(self._turn) for _ in self._servers] if avoided else [next(self._turn)]
            return next((server for server in turns if server not in avoided), turns[0])

    def _run_here(self, request: RunRequest, suite: Suite, pending: tuple[int, ...]) -> dict[int, TestResult]:
        """Run on this machine the tests whose local verdict would count; return no results if it runs no programs."""
        tests = fallback.worth_running(request, pending, policy=self._policy)
        if not tests:
            return {}
        try:
            local = self._local_pool()
        except OSError as error:
            _LOG.warning("no fallback on this machine: %s", error)
            return {}
        for stored in suite.inputs:
            if isinstance(stored, StoredInput):
                local.upload_input(self._path_of(stored))
        local.upload(suite)
        answer = local.submit(_verdicts_only(request, tests)).result()
        return {item.test: item for item in answer.results}

    def _local_pool(self) -> pool.Pool:
        with self._lock:
            if self._local is None:
                self._local = pool.open_pool(self._policy.backend, workers=1, settings=LOCAL_SETTINGS)
            return self._local

    def _count(self, **changes: int) -> None:
        with self._lock:
            self.counts.update(changes)


def _trust(ca: str | pathlib.Path) -> ssl.SSLContext:
    """Trust the certificates in a file, and nobody else."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise InvalidRequestError(f"ca = {str(ca)!r}: expected a PEM file of certificates ({error})") from None


def _verdicts_only(request: RunRequest, tests: tuple[int, ...]) -> RunRequest:
    """Return the request for these tests only, once each and without all that is about seconds."""
    return RunRequest(
        request.program,
        request.suite_sha256,
        tests=tests,
        limits=request.limits,
        test_limits=tuple(map(request.unscaled_limits_of, tests)) if request.test_limits else None,
        language=request.language,
        files=request.files,
        scales_limits=request.scales_limits,
        seed=request.seed,
        returns_output=request.returns_output,
        stops_early=request.stops_early,
        optimization_tests=request.optimization_tests,
    )


def _patience_s(request: RunRequest, tests: int) -> float:
    """Compute a timeout that lets every run reach its limit, with a margin for the queue before it."""
    longest_s = max(limits.wall_s for limits in (request.limits, *filter(None, request.test_limits or ())))
    return tests * request.repeats * request.limits_factor * longest_s + MARGIN_S


def _trouble(result: RunResult) -> int:
    """Rank a result: 0 for one of a healthy service, 1 for one of a degraded service, 2 for one with a fault."""
    return 2 if result.is_unsettled else int(bool(health.degraded_by(result.measured_under)))


def _refusal(server: httpx.Client, response: httpx.Response) -> str:
    if response.status_code == 401:
        return f"{server.base_url} refuses: expected its token (set {TOKEN_VARIABLE})"
    if response.status_code in (404, 405) and "suite_sha256" not in response.text:
        return f"{server.base_url} answers {response.status_code}: {NO_SERVER}"
    return f"{server.base_url} refuses: {response.text}"


def _faulted(request: RunRequest, suite: Suite, reason: str) -> RunResult:
    tests = range(len(suite.inputs)) if request.tests is None else request.tests
    return RunResult(request.sha256, tuple(TestResult(t, Verdict.SANDBOX_FAULT, 0.0, detail=reason) for t in tests))
