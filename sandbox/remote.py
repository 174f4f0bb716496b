"""Edge: reaches sandbox servers over HTTP, spreads requests over them, and outlives the loss of any.

Every request is answered once: it is sent again, to the next server, where a connection breaks or a server says
that it is full or failing, until its attempts are used up. Then it is a fault, and the
fallback policy decides what is reported.
"""

import collections
import concurrent.futures
import dataclasses
import itertools
import logging
import random
import threading
import time
from collections.abc import Sequence

import httpx

from sandbox import fallback, pool, protocol
from sandbox.protocol import InvalidRequestError, RunRequest, RunResult, Suite, TestResult, Verdict

_LOG = logging.getLogger(__name__)
ATTEMPTS = 6
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
# A full server is waited for much longer than a broken one: it works, and says when to come again.
LONGEST_WAIT_S = 600.0
MARGIN_S = 120.0


class Unanswered(OSError):
    """No server settled a request; the message holds the last reason."""


class Remote:
    """Servers that answer requests, seen as one service."""

    def __init__(
        self, urls: Sequence[str], *, concurrency: int, token: str = "", fallback_policy: str = "discard"
    ) -> None:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        limits = httpx.Limits(max_connections=concurrency + 4)
        self._servers = [httpx.Client(base_url=url, headers=headers, limits=limits, trust_env=False) for url in urls]
        self._turn = itertools.cycle(range(len(urls)))
        self._policy = fallback.POLICIES[fallback_policy]
        self._suites: dict[str, Suite] = {}
        self._lock = threading.Lock()
        self._local: pool.Pool | None = None
        self._threads = concurrent.futures.ThreadPoolExecutor(concurrency, thread_name_prefix="sandbox-remote")
        self.counts: collections.Counter[str] = collections.Counter()
        self.measured_under: dict[str, str] = self._send("GET", "/v1/health", timeout_s=30.0).json()["measured_under"]

    def upload(self, suite: Suite) -> str:
        """Remembers a suite; servers get it when they first say that they do not know it."""
        self._suites[suite.sha256] = suite
        return suite.sha256

    def suite_of(self, request: RunRequest) -> Suite:
        suite = self._suites.get(request.suite_sha256)
        protocol.require(suite is not None, "suite_sha256", request.suite_sha256, "the hash of an uploaded suite")
        protocol.require_fit(request, suite)
        return suite

    def submit(self, request: RunRequest) -> concurrent.futures.Future[RunResult]:
        return self._threads.submit(self._answer, request)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        for server in self._servers:
            server.close()
        if self._local:
            self._local.close()

    def _answer(self, request: RunRequest) -> RunResult:
        suite = self.suite_of(request)
        tests = len(request.tests or suite.inputs)
        try:
            body = protocol.to_json(request)
            answer = self._send("POST", "/v1/runs", body=body, suite=suite, timeout_s=_patience_s(request, tests))
            result = protocol.from_json(RunResult, answer.content)
        except Unanswered as error:
            _LOG.warning("no server settled a request: %s", error)
            result = _faulted(request, suite, str(error))
        self._count(requests=1, unsettled=int(result.is_faulted))
        return self._with_fallback(request, suite, result) if result.is_faulted else result

    def _send(
        self, method: str, path: str, *, timeout_s: float, body: str = "", suite: Suite | None = None
    ) -> httpx.Response:
        """Sends until a server answers; raises Unanswered, or InvalidRequestError for what every server refuses."""
        reason, failures, waited_s = "", 0, 0.0
        while failures < ATTEMPTS and waited_s < LONGEST_WAIT_S:
            server = self._servers[next(self._turn)]
            try:
                response = server.request(method, path, content=body, timeout=timeout_s)
                if response.status_code == 404 and suite is not None:
                    content = protocol.to_json(suite)
                    server.put(f"/v1/suites/{suite.sha256}", content=content, timeout=timeout_s).raise_for_status()
                    response = server.request(method, path, content=body, timeout=timeout_s)
                if response.is_success:
                    return response
                if response.status_code in (400, 401, 404, 413, 422):
                    raise InvalidRequestError(f"{server.base_url} refuses: {response.text}")
                reason = f"{server.base_url}: status {response.status_code}"
            except httpx.HTTPError as error:
                response, reason = None, f"{server.base_url}: {error!r}"
            is_full = response is not None and response.status_code == 429
            failures += 0 if is_full else 1
            self._count(**{"full" if is_full else "failed": 1})
            pause_s = float(response.headers.get("Retry-After", 1)) if is_full else FIRST_PAUSE_S * 2**failures
            pause_s = min(LONGEST_PAUSE_S, pause_s) * random.uniform(0.5, 1.0)
            time.sleep(pause_s)
            waited_s += pause_s
        raise Unanswered(reason)

    def _with_fallback(self, request: RunRequest, suite: Suite, result: RunResult) -> RunResult:
        if self._policy is fallback.discard or request.optimization_tests is None:
            return result
        local = self._local_pool()
        local.upload(suite)
        faulted = tuple(item.test for item in result.results if item.verdict is Verdict.SANDBOX_FAULT)
        recovered = {r.test: r for r in local.submit(dataclasses.replace(request, tests=faulted)).result().results}
        results = tuple(
            fallback.settle(request, item, recovered[item.test], policy=self._policy)
            if item.verdict is Verdict.SANDBOX_FAULT and item.test in recovered
            else item
            for item in result.results
        )
        settled = RunResult(result.request_sha256, results, result.measured_under | {"fallback": "local"})
        self._count(**{"unresolved" if settled.is_faulted else "recovered": 1})
        return settled

    def _local_pool(self) -> pool.Pool:
        with self._lock:
            if self._local is None:
                self._local = pool.open_pool("local", workers=1)
            return self._local

    def _count(self, **changes: int) -> None:
        with self._lock:
            self.counts.update(changes)


def _patience_s(request: RunRequest, tests: int) -> float:
    """Long enough for every run of a request to reach its limit, and for the queue before it."""
    return tests * request.repeats * request.limits.wall_s + MARGIN_S


def _faulted(request: RunRequest, suite: Suite, reason: str) -> RunResult:
    tests = range(len(suite.inputs)) if request.tests is None else request.tests
    return RunResult(request.sha256, tuple(TestResult(t, Verdict.SANDBOX_FAULT, 0.0, detail=reason) for t in tests))
