"""What a client reports for tests that a service did not settle, or timed in a bad moment, under each policy."""

import dataclasses
import itertools
import threading

import httpx
import pytest

from sandbox import client, protocol
from sandbox.protocol import InvalidRequestError, Limits, RunRequest, RunResult, Suite, TestResult, Verdict
from sandbox.service import fallback, remote
from sandbox.service.fallback import FallbackPolicy

SUITE = Suite(inputs=("3\n", "4\n"), expected=("6\n", "8\n"))
DOUBLE = "print(2 * int(input()))"
# Test 0 is a correctness test, test 1 an optimization test.
REQUEST = RunRequest(DOUBLE, SUITE.sha256, limits=Limits(wall_s=2.0), optimization_tests=(1,))
FAULT, SUCCESS, LATE, WRONG = Verdict.SANDBOX_FAULT, Verdict.SUCCESS, Verdict.TIME_LIMIT, Verdict.WRONG_OUTPUT
DEGRADED = {"degraded": "drift"}


def result(*verdicts: Verdict, **measured_under: str) -> RunResult:
    rows = tuple(TestResult(n, verdict, 0.25, cpu_s=0.25) for n, verdict in enumerate(verdicts))
    return RunResult(REQUEST.sha256, rows, measured_under)


def reported(
    served: RunResult, here: RunResult, policy: FallbackPolicy, request: RunRequest = REQUEST
) -> list[TestResult]:
    tests = fallback.worth_running(request, fallback.unsettled_tests(request, served), policy=policy)
    local = {item.test: item for item in here.results if item.test in tests}
    return [*fallback.reported(request, served, local, policy=policy)]


@pytest.mark.parametrize(
    ("policy", "verdicts"),
    [
        ("discard", [FAULT, FAULT]),
        ("conservative", [SUCCESS, LATE]),
        ("correctness_only", [SUCCESS, FAULT]),
        (FallbackPolicy(correctness="timeout"), [LATE, FAULT]),
        (FallbackPolicy(optimization="timeout"), [FAULT, LATE]),
    ],
)
def test_each_category_has_its_own_conversion_and_no_local_second_is_reported(policy, verdicts):
    found = reported(result(FAULT, FAULT), result(SUCCESS, SUCCESS), fallback.policy_of(policy))
    assert [item.verdict for item in found] == verdicts
    assert {(item.wall_s, item.cpu_s) for item in found if item.verdict is not FAULT} <= {(2.0, 2.0)}


def test_a_failure_on_this_machine_stays_a_failure():
    found = reported(result(FAULT, FAULT), result(WRONG, WRONG), fallback.POLICIES["conservative"])
    assert [item.verdict for item in found] == [WRONG, WRONG]


def test_a_fault_stays_where_this_machine_fails_too_or_nobody_said_which_seconds_matter():
    conservative = fallback.POLICIES["conservative"]
    served = result(SUCCESS, FAULT)
    assert reported(served, result(FAULT, FAULT), conservative)[1].verdict is FAULT
    unsaid = dataclasses.replace(REQUEST, optimization_tests=None)
    assert reported(served, result(SUCCESS, SUCCESS), conservative, unsaid)[1].verdict is FAULT


def test_a_definite_failure_spares_the_rest_of_an_early_stop():
    eager = dataclasses.replace(REQUEST, stops_early=True)
    conservative = fallback.POLICIES["conservative"]
    assert fallback.unsettled_tests(eager, result(WRONG, FAULT)) == ()
    assert [item.verdict for item in reported(result(WRONG, FAULT), result(), conservative, eager)] == [WRONG]
    # A timeout is no definite failure: the other test may still show a wrong output.
    assert fallback.unsettled_tests(eager, result(LATE, FAULT)) == (1,)
    assert fallback.unsettled_tests(REQUEST, result(WRONG, FAULT)) == (1,)


def test_quarantine_masks_seconds_of_a_degraded_service_and_keeps_verdicts():
    degraded = result(SUCCESS, SUCCESS, **DEGRADED)
    marked = reported(degraded, result(), FallbackPolicy())
    assert [item.verdict for item in marked] == [SUCCESS, SUCCESS]
    strict = FallbackPolicy(correctness="keep", optimization="timeout", quarantine="discard")
    masked = reported(degraded, result(), strict)
    assert [item.verdict for item in masked] == [SUCCESS, FAULT]
    assert "degraded (drift)" in masked[1].detail
    assert [item.verdict for item in reported(result(LATE, WRONG, **DEGRADED), result(), strict)] == [LATE, WRONG]
    unsaid = dataclasses.replace(REQUEST, optimization_tests=None)
    assert [item.verdict for item in reported(degraded, result(), strict, unsaid)] == [FAULT, FAULT]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"optimization": "keep"}, "fallback_policy.optimization = 'keep': expected one of discard, timeout"),
        ({"correctness": "skip"}, "fallback_policy.correctness = 'skip': expected one of"),
        ({"quarantine": True}, "fallback_policy.quarantine = True: expected one of mark, discard"),
        ({"retries": -1}, "fallback_policy.retries = -1: expected a whole number"),
        ({"retries": 1.0}, "fallback_policy.retries = 1.0: expected a whole number"),
    ],
)
def test_a_policy_that_is_none_is_refused_by_name(change, text):
    with pytest.raises(InvalidRequestError) as refused:
        FallbackPolicy(**change)
    assert text in str(refused.value)
    with pytest.raises(InvalidRequestError, match="fallback_policy = 'best'"):
        client.connect("http://127.0.0.1:1", fallback_policy="best")


@pytest.fixture
def answering(monkeypatch):
    """A client of two servers that give the answers listed for them, one after the other; and who was asked."""
    asked, clients = [], []

    def connect(
        left: list[RunResult], right: list[RunResult], policy: FallbackPolicy
    ) -> tuple[remote.Remote, list[str]]:
        answers = {"left": iter(left), "right": iter(right)}

        def request(self, method, path, **_):
            if path == "/v1/health":
                return httpx.Response(200, json={"measured_under": {}})
            asked.append(self.base_url.host)
            return httpx.Response(200, content=protocol.to_json(next(answers[self.base_url.host])))

        monkeypatch.setattr(httpx.Client, "request", request)
        clients.append(remote.Remote(["http://left", "http://right"], concurrency=1, policy=policy))
        clients[-1].upload(SUITE)
        return clients[-1], asked

    yield connect
    for one in clients:
        one.close()


@pytest.mark.parametrize("bad", [result(FAULT, FAULT), result(SUCCESS, SUCCESS, **DEGRADED)])
def test_a_bad_answer_is_asked_for_again_at_the_other_server(answering, bad):
    service, asked = answering([bad, bad], [result(SUCCESS, SUCCESS)] * 2, FallbackPolicy(retries=1))
    answers = [service.submit(REQUEST).result() for _ in range(2)]
    assert [item.verdict for answer in answers for item in answer.results] == [SUCCESS] * 4
    assert asked == ["right", "left", "right"] or asked == ["left", "right", "left", "right"]
    assert (service.counts["unsettled"], service.counts["degraded"]) == (0, 0)


def test_a_retry_comes_back_where_the_other_server_is_gone(answering, monkeypatch):
    monkeypatch.setattr(remote, "FIRST_PAUSE_S", 0.001)
    service, asked = answering([result(FAULT, FAULT), result(SUCCESS, SUCCESS)], [], FallbackPolicy(retries=1))
    left, right = service._servers
    service._turn = itertools.cycle([left, right])

    def gone(*_, **__):
        asked.append("gone")
        raise httpx.ConnectError("gone")

    monkeypatch.setattr(right, "request", gone)
    assert not service.submit(REQUEST).result().is_faulted
    assert asked[0] == asked[-1] == "left"
    assert 1 <= asked.count("gone") <= 2


def test_a_service_that_is_degraded_as_a_whole_is_not_asked_twice(answering):
    bad = result(SUCCESS, SUCCESS, **DEGRADED)
    service, asked = answering([bad] * 8, [bad] * 8, FallbackPolicy(retries=1))
    for seed in range(8):
        service.submit(dataclasses.replace(REQUEST, seed=seed)).result()
    # The first answer is a surprise, no later one is.
    assert len(asked) == 9


def test_retries_end_and_the_better_answer_stays(answering):
    fault, degraded = result(FAULT, FAULT), result(SUCCESS, SUCCESS, **DEGRADED)
    service, asked = answering([fault, fault], [degraded, degraded], FallbackPolicy(retries=2, quarantine="discard"))
    answer = service.submit(REQUEST).result()
    assert [item.verdict for item in answer.results] == [SUCCESS, FAULT]
    assert len(asked) == 3
    assert service.counts["degraded"] == 1


def test_a_client_tells_the_papers_rates_and_its_bursts(answering):
    service, _ = answering(
        [result(FAULT, FAULT)] * 3, [result(SUCCESS, SUCCESS)] * 3, FallbackPolicy("keep", retries=0)
    )
    with client.Client(service, store=None, reuse="never", threads=1) as connected:
        requests = [REQUEST, dataclasses.replace(REQUEST, optimization_tests=())] * 2
        connected.run_many([dataclasses.replace(request, seed=n) for n, request in enumerate(requests)])
        assert connected.rates.service_only == pytest.approx(0.5)
        assert sum(connected.rates) == pytest.approx(1.0)
        assert connected.windows.unsettled == 2


def test_another_service_at_the_address_is_one_clear_line(monkeypatch):
    monkeypatch.setattr(httpx.Client, "request", lambda *_, **__: httpx.Response(200, text="<html>"))
    with pytest.raises(InvalidRequestError, match="http://elsewhere: expected the address of a sandbox server"):
        client.connect("http://elsewhere")


def test_closing_waits_for_no_server_that_is_gone(monkeypatch, answering):
    service, _ = answering([], [], FallbackPolicy(retries=0))
    tried = threading.Event()

    def gone(*_, **__):
        tried.set()
        raise httpx.ConnectError("gone")

    monkeypatch.setattr(httpx.Client, "request", gone)
    monkeypatch.setattr(remote, "FIRST_PAUSE_S", 1000.0)
    monkeypatch.setattr(remote, "LONGEST_PAUSE_S", 1000.0)
    connected = client.Client(service, store=None, reuse="never", threads=1)
    future = connected._submit(REQUEST)
    tried.wait()
    connected.close()
    assert future.result().is_faulted
    assert service.counts["failed"] == 1


@pytest.mark.parametrize("bad", [result(SUCCESS, SUCCESS, **DEGRADED), result(FAULT, FAULT)])
def test_answers_of_a_degraded_service_or_a_fallback_are_not_kept_for_later(answering, tmp_path, bad):
    service, asked = answering([bad] * 2, [], dataclasses.replace(fallback.POLICIES["conservative"], retries=0))
    service._servers.pop()
    service._turn = iter([service._servers[0]] * 2)
    with client.connect("local", workers=1, store=tmp_path / "s") as connected:
        local, connected.service = connected.service, service
        answers = [connected.run(REQUEST) for _ in range(2)]
        connected.service = local
    assert not any(answer.is_faulted for answer in answers)
    assert asked == ["left", "left"]


def test_an_engine_that_is_missing_leaves_the_fault(answering, monkeypatch):
    def missing(*_, **__):
        raise OSError("no Docker engine answers")

    monkeypatch.setattr(remote.pool, "open_pool", missing)
    service, _ = answering(
        [result(FAULT, FAULT)], [result(FAULT, FAULT)], FallbackPolicy("keep", retries=0, backend="docker")
    )
    assert service.submit(REQUEST).result().is_faulted
    assert service.counts["unresolved"] == 1


def test_a_client_forgets_the_oldest_suites_and_says_so(answering):
    service, _ = answering([], [], FallbackPolicy())
    service._suites._most_characters = 10
    service.upload(Suite(inputs=("12345678",), expected=("9",)))
    with pytest.raises(InvalidRequestError, match="upload it again"):
        service.submit(REQUEST)
    service.upload(SUITE)
    assert isinstance(service.suite_of(REQUEST), Suite)
