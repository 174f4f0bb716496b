"""The service over real HTTP: what it refuses, what it survives, and that every run is answered exactly once."""

import json
import signal
import threading
import time

import httpx
import pytest

from sandbox import client, protocol, server
from sandbox.protocol import Limits, RunRequest, Suite, Verdict
from sandbox.service import api, pool, probes, remote
from sandbox.service.admission import Bounds
from tests.sandbox.servers import free_port, serving, start_server

SUITE = Suite(inputs=("3\n", "4\n"), expected=("6\n", "8\n"))
DOUBLE = "print(2 * int(input()))"
TOKEN = "a-token"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def service():
    with serving(token=TOKEN, bounds=Bounds(body_bytes=1 << 20)) as (url, _):
        yield url


@pytest.fixture(scope="module")
def http(service):
    with httpx.Client(base_url=service, headers=JSON | {"Authorization": f"Bearer {TOKEN}"}) as connected:
        connected.put(f"/v1/suites/{SUITE.sha256}", content=protocol.to_json(SUITE)).raise_for_status()
        yield connected


def body(**change: object) -> str:
    return json.dumps({"program": DOUBLE, "suite_sha256": SUITE.sha256} | change)


def test_a_client_gets_the_verdicts_of_a_local_one(service):
    programs = [DOUBLE, "print(6)", "raise ValueError", "print("]
    requests = [RunRequest(program, SUITE.sha256) for program in programs]
    found = []
    for address, token in (("local", ""), (service, TOKEN)):
        with client.connect(address, token=token) as connected:
            connected.upload(SUITE)
            found.append([[r.verdict for r in answer.results] for answer in connected.run_many(requests)])
    assert found[0] == found[1]


REFUSALS = [
    ({"language": "cobol"}, 422, "language"),
    ({"repeats": 0}, 422, "repeats"),
    ({"tests": [9]}, 422, "tests"),
    ({"tests": []}, 422, "tests"),
    ({"limits": {"wall_s": -1}}, 422, "wall_s"),
    ({"limits": {"memory_bytes": 1 << 60}}, 422, "memory_bytes"),
    ({"program": "x" * (api.PROGRAM_CHARACTERS - 1000) + "y" * 2000}, 413, "expected at most"),
    ({"suite_sha256": "0" * 64}, 404, "suite_sha256"),
    ({"suite_sha256": "short"}, 422, "suite_sha256"),
]


@pytest.mark.parametrize(("change", "status", "text"), REFUSALS)
def test_a_mistake_is_refused_by_name(http, change, status, text):
    answer = http.post("/v1/runs", content=body(**change))
    assert (answer.status_code, text in answer.text) == (status, True), answer.text


@pytest.mark.parametrize("suite", [{"inputs": [], "expected": []}, {"inputs": ["1"], "expected": []}])
def test_an_empty_or_uneven_suite_is_refused(http, suite):
    answer = http.put(f"/v1/suites/{'0' * 64}", json=suite)
    assert answer.status_code == 422
    assert "suite" in answer.text


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eA=="}])
def test_only_the_token_lets_in(service, headers):
    assert httpx.post(f"{service}/v1/runs", content=body(), headers=JSON | headers).status_code == 401


def test_a_batch_streams_each_answer_once(http):
    requests = [json.loads(body(seed=n)) for n in range(5)]
    lines = [json.loads(line) for line in http.post("/v1/batches", json=requests).text.splitlines()]
    assert sorted(line["index"] for line in lines) == list(range(5))
    assert {r["verdict"] for line in lines for r in line["result"]["results"]} == {"success"}


def test_health_and_metrics_count_the_runs(http):
    http.post("/v1/runs", content=body(seed=77)).raise_for_status()
    health = http.get("/v1/health").json()
    assert health["counts"]["runs"] >= 2
    assert health["windows"]["asked"] == health["counts"]["requests"]
    assert health["drift"]["version"] == "identity"
    metrics = http.get("/metrics").text
    for name in ("runs_total", "unsettled_total", "burst_windows_total", "calibration_alarm", 'degraded{by="drift"}'):
        assert f"sandbox_{name} " in metrics


def test_a_drift_is_stamped_on_answers_and_its_alarm_ends_when_accepted(monkeypatch):
    states = []
    watching = probes.Sentinel.__init__

    def remembered(self, *arguments, **options):
        watching(self, *arguments, **options)
        states.append(self)

    monkeypatch.setattr(probes.Sentinel, "__init__", remembered)
    with serving() as (url, _), client.connect(url) as connected:
        connected.upload(SUITE)
        first_s = (0.001, 0.02, 0.04, 0.06, 0.08)
        for factor in (1.0, 1.0, 1.0, 2.0):
            states[0].note(tuple(factor * seconds for seconds in first_s))
        assert connected.run(RunRequest(DOUBLE, SUITE.sha256)).measured_under["degraded"] == "drift"
        assert 'sandbox_degraded{by="drift"} 1.0' in httpx.get(f"{url}/metrics").text
        for _ in range(2):
            states[0].note(tuple(2.0 * seconds for seconds in first_s))
        answer = connected.run(RunRequest(DOUBLE, SUITE.sha256, seed=1))
        assert client.map_of(answer) == pytest.approx((2.0, 0.0))
        version = httpx.get(f"{url}/v1/health").json()["drift"]["version"]
        assert answer.measured_under["calibration"] == version
        assert "sandbox_calibration_alarm 1.0" in httpx.get(f"{url}/metrics").text
        assert httpx.post(f"{url}/v1/calibration/accept", json={"version": "identity"}).status_code == 422
        assert httpx.post(f"{url}/v1/calibration/accept", json={"version": version}).status_code == 204
        assert "sandbox_calibration_alarm 0.0" in httpx.get(f"{url}/metrics").text


def test_a_batch_may_be_larger_than_the_queue():
    with serving(settings=pool.PoolSettings(queue_limit=2)) as (url, workers):
        httpx.put(f"{url}/v1/suites/{SUITE.sha256}", content=protocol.to_json(SUITE), headers=JSON)
        requests = [json.loads(body(seed=n)) for n in range(9)]
        lines = [json.loads(line) for line in httpx.post(f"{url}/v1/batches", json=requests).text.splitlines()]
        assert sorted(line["index"] for line in lines) == list(range(9))
        assert workers.counts["requests"] == 9


def test_the_environment_holds_the_token_and_errors_say_what_is_wrong(service, monkeypatch):
    monkeypatch.delenv(protocol.TOKEN_VARIABLE, raising=False)
    with pytest.raises(protocol.InvalidRequestError, match=protocol.TOKEN_VARIABLE):
        client.connect(service)
    with pytest.raises(protocol.InvalidRequestError, match="the address of a sandbox server"):
        client.connect(f"{service}/elsewhere", token=TOKEN)
    monkeypatch.setenv(protocol.TOKEN_VARIABLE, TOKEN)
    client.connect(service).close()


def test_a_full_queue_asks_to_come_back_and_nothing_is_lost():
    with serving(settings=pool.PoolSettings(queue_limit=2)) as (url, workers):
        with client.connect(url, workers=6) as connected:
            connected.upload(SUITE)
            program = "import time\ntime.sleep(0.05)\n" + DOUBLE
            answers = connected.run_many([RunRequest(program, SUITE.sha256, seed=n) for n in range(12)])
        assert workers.counts["refused"] > 0
        assert {r.verdict for answer in answers for r in answer.results} == {Verdict.SUCCESS}


def test_no_server_is_an_error_and_a_lost_one_a_fault(monkeypatch):
    monkeypatch.setattr(remote, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(remote, "LONGEST_PAUSE_S", 0.01)
    with pytest.raises(remote.Unanswered):
        client.connect(f"http://127.0.0.1:{free_port()}")
    with serving() as (url, _):
        connected = client.connect(url)
        connected.upload(SUITE)
    with connected:
        assert connected.run(RunRequest(DOUBLE, SUITE.sha256)).is_faulted


@pytest.mark.parametrize(
    ("policy", "verdicts"),
    [
        ("discard", [Verdict.SANDBOX_FAULT, Verdict.SANDBOX_FAULT]),
        ("conservative", [Verdict.SUCCESS, Verdict.TIME_LIMIT]),
        ("correctness_only", [Verdict.SUCCESS, Verdict.SANDBOX_FAULT]),
    ],
)
def test_a_fallback_never_reports_seconds_of_this_machine_as_speed(monkeypatch, policy, verdicts):
    monkeypatch.setattr(remote, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(remote, "LONGEST_PAUSE_S", 0.01)
    with serving() as (url, _):
        connected = client.connect(url, fallback_policy=policy)
        connected.upload(SUITE)
    with connected:
        limits = Limits(wall_s=2.0)
        answer = connected.run(RunRequest(DOUBLE, SUITE.sha256, limits=limits, optimization_tests=(1,)))
        assert [r.verdict for r in answer.results] == verdicts
        if policy == "conservative":
            assert answer.results[1].wall_s == 2.0
        assert connected.service.counts["unsettled"] == 1


def test_a_server_killed_in_a_batch_costs_no_answer():
    port = free_port()
    first = start_server(port)
    program = "import time\ntime.sleep(0.05)\n" + DOUBLE
    requests = [RunRequest(program, SUITE.sha256, seed=n) for n in range(16)]
    answered = []
    with client.connect(f"http://127.0.0.1:{port}", workers=4) as connected:
        connected.upload(SUITE)
        batch = threading.Thread(target=lambda: connected.run_many(requests, on_result=answered.append))
        batch.start()
        time.sleep(0.2)
        first.send_signal(signal.SIGKILL)
        first.wait()
        second = start_server(port)
        batch.join(60)
    second.terminate()
    assert second.wait(30) == -signal.SIGTERM
    assert sorted(a.request_sha256 for a in answered) == sorted(r.sha256 for r in requests)
    assert {r.verdict for answer in answered for r in answer.results} == {Verdict.SUCCESS}


def test_a_server_that_is_away_for_20_s_is_waited_for(monkeypatch):
    paused_s = []
    with serving() as (url, _):
        connected = client.connect(url, workers=1)
        connected.upload(SUITE)
    # Pauses are random; these are the shortest that they can be.
    monkeypatch.setattr(remote.random, "uniform", lambda low, high: low)
    monkeypatch.setattr(connected.service._is_closing, "wait", paused_s.append)
    assert connected.run(RunRequest(DOUBLE, SUITE.sha256)).is_faulted
    assert sum(paused_s) >= 20
    connected.close()


def test_a_terminated_server_finishes_what_it_holds():
    port = free_port()
    running = start_server(port)
    url = f"http://127.0.0.1:{port}"
    httpx.put(f"{url}/v1/suites/{SUITE.sha256}", content=protocol.to_json(SUITE), headers=JSON).raise_for_status()
    found = []
    slow = body(program="import time\ntime.sleep(0.5)\n" + DOUBLE)
    asking = threading.Thread(
        target=lambda: found.append(httpx.post(f"{url}/v1/runs", content=slow, timeout=30, headers=JSON))
    )
    asking.start()
    time.sleep(0.3)
    running.terminate()
    asking.join()
    assert running.wait(30) == -signal.SIGTERM
    assert [r["verdict"] for r in found[0].json()["results"]] == ["success", "success"]


def test_two_servers_share_the_requests_and_one_may_die():
    with serving() as (left, left_pool), serving() as (right, right_pool):
        with client.connect(f"{left},{right}") as connected:
            connected.upload(SUITE)
            answers = connected.run_many([RunRequest(DOUBLE, SUITE.sha256, seed=n) for n in range(8)])
        assert min(left_pool.counts["requests"], right_pool.counts["requests"]) > 0
    assert not any(answer.is_faulted for answer in answers)


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--workers=0", "workers = 0"),
        ("--port=0", "port = 0"),
        ("--probe_every_s=-1", "probe_every_s = -1.0"),
        ("--address=203.0.113.1", "address = '203.0.113.1'"),
        (f"--baseline={__file__}", "expected a file that a server wrote"),
    ],
)
def test_a_wrong_flag_is_one_line_and_exit_code_2(capsys, flag, text):
    assert server.main(["--backend=local", f"--port={free_port()}", flag]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


def test_a_port_that_is_taken_is_said_before_anything_starts(capsys, service):
    assert server.main(["--backend=local", f"--port={service.rpartition(':')[2]}"]) == 2
    assert "expected a free one" in capsys.readouterr().err
