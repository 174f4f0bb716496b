"""Calls fail at random at every layer: answers may become faults, never wrong."""

import random

import httpx
import pytest

from sandbox.backends import local
from sandbox.backends.worker import SandboxWorker, WorkerLost
from sandbox.protocol import RunRequest, Suite, Verdict
from sandbox.service import fallback, pool, remote
from tests.sandbox.servers import serving

FAILURE_SHARE = 0.02
TESTS = 4
REQUESTS = 500
SUITE = Suite(inputs=tuple(f"{n}\n" for n in range(TESTS)), expected=tuple(f"{2 * n}\n" for n in range(TESTS)))


class FlakyWorker(SandboxWorker):
    """Loses its runner in one of fifty requests, before or after a program has run."""

    chance = random.Random(1)

    def run(self, *arguments, **options):
        for report in super().run(*arguments, **options):
            fate = self.chance.random()
            if fate < FAILURE_SHARE / TESTS / 2:
                self.stop()
                raise WorkerLost("between two runs")
            yield report
            if fate > 1 - FAILURE_SHARE / TESTS / 2:
                self.stop()
                raise WorkerLost("after a report was taken")


@pytest.fixture
def flaky_http(monkeypatch):
    chance = random.Random(2)
    send = httpx.Client.request

    def request(self, *arguments, **options):
        fate = chance.random()
        if fate < FAILURE_SHARE / 2:
            raise httpx.ConnectError("before the request")
        answer = send(self, *arguments, **options)
        if fate > 1 - FAILURE_SHARE / 2:
            raise httpx.ReadError("after the request")
        return answer

    monkeypatch.setattr(httpx.Client, "request", request)
    monkeypatch.setattr(remote, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(remote, "LONGEST_PAUSE_S", 0.01)


def test_no_correct_program_is_called_wrong(monkeypatch, flaky_http):
    monkeypatch.setattr(local, "SandboxWorker", FlakyWorker)
    monkeypatch.setattr(pool, "QUARANTINE_S", 0.01)
    with serving() as (url, workers):
        service = remote.Remote([url], concurrency=4, policy=fallback.FallbackPolicy())
        service.upload(SUITE)
        requests = [RunRequest("print(2 * int(input()))", SUITE.sha256, seed=n) for n in range(REQUESTS)]
        answers = [future.result() for future in [service.submit(request) for request in requests]]
        service.close()
        assert workers.counts["lost_workers"] > 0
    assert service.counts["failed"] > 0
    assert [answer.request_sha256 for answer in answers] == [request.sha256 for request in requests]
    verdicts = {result.verdict for answer in answers for result in answer.results}
    assert verdicts <= {Verdict.SUCCESS, Verdict.SANDBOX_FAULT}
    assert sum(answer.is_faulted for answer in answers) <= 1
