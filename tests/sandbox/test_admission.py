"""What a service takes on: who may ask, how much, and what becomes of work that nobody waits for."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import httpx
import pytest

from sandbox import client, protocol
from sandbox.protocol import InvalidRequestError, RunRequest, Suite, Verdict
from sandbox.service.admission import Admission, Bounds, ClientFull, Work
from tests.sandbox.servers import free_port, serving, start_server

SUITE = Suite(inputs=("3\n", "4\n"), expected=("6\n", "8\n"))
DOUBLE = "print(2 * int(input()))"
LONG = {"program": "import time\ntime.sleep(60)", "limits": {"wall_s": 60.0}}
TOKEN = "a-token"
WAIT_S = 20.0
CURL_KNOWS_NO_AUTHORITY = 60


@pytest.fixture(scope="module")
def service():
    bounds = Bounds(
        body_bytes=1 << 20, request_executions=20, client_executions=20, client_connections=8, silence_s=0.5
    )
    with serving(token=TOKEN, bounds=bounds) as (url, workers):
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=url, headers=headers, timeout=WAIT_S) as http:
            http.put(f"/v1/suites/{SUITE.sha256}", content=protocol.to_json(SUITE)).raise_for_status()
            yield http, workers


def asked(**fields: object) -> dict:
    return {"program": DOUBLE, "suite_sha256": SUITE.sha256} | fields


def wait_until(condition) -> bool:
    deadline_s = time.monotonic() + WAIT_S
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return condition()


def ask_in_vain(url: str, body: dict, *, timeout: float) -> None:
    """Send a request whose answer does not matter, if any comes."""
    with contextlib.suppress(httpx.HTTPError):
        httpx.post(url, json=body, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=timeout)


@contextlib.contextmanager
def raw(http: httpx.Client, text: str):
    with socket.create_connection((http.base_url.host, http.base_url.port), WAIT_S) as connection:
        connection.sendall(text.encode())
        yield connection


@pytest.mark.parametrize(("head", "status"), [("", 401), (f"Authorization: Bearer {TOKEN}\r\n", 413)])
def test_head_alone_decides_before_any_of_a_large_body_is_sent(service, head, status):
    request = f"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n{head}\r\n"
    with raw(service[0], request) as connection:
        assert connection.recv(4096).startswith(f"HTTP/1.1 {status}".encode())


@pytest.mark.parametrize("path", ["/metrics", "/docs", "/openapi.json", "/v1/health"])
def test_nothing_but_the_sign_of_life_is_open(service, path):
    url = str(service[0].base_url)
    assert httpx.get(f"{url}{path}").status_code == 401
    assert httpx.get(f"{url}/healthz").status_code == 200


MISTAKES = [
    ({"repeat": 5}, "repeat = 5: expected only the fields program, "),
    ({"limits": {"memory": 1}}, "limits.memory = 1: expected only the fields wall_s, "),
    ({"limits": {"wall_s": True}}, "limits.wall_s = True: expected a number"),
    ({"limits": {"processes": 1.0}}, "limits.processes = 1.0: expected a whole number"),
    ({"repeats": True}, "repeats = True: expected a whole number"),
    ({"tests": [True]}, "tests[0] = True: expected a whole number"),
    ({"tests": [0.0]}, "tests[0] = 0.0: expected a whole number"),
    ({"tests": 0}, "tests = 0: expected a list"),
    ({"optimization_tests": [99]}, "optimization_tests = 99: expected indices below 2"),
    ({"program": None}, "program = None: expected a text"),
    ({"stops_early": 1}, "stops_early = 1: expected true or false"),
    ({"precision": "0.1"}, "precision = '0.1': expected a number"),
]


@pytest.mark.parametrize(("change", "text"), MISTAKES)
def test_client_and_server_refuse_the_same_mistake_with_the_same_words(service, change, text):
    answer = service[0].post("/v1/runs", json=asked(**change))
    assert answer.status_code == 422
    assert text in answer.json()["detail"]
    with pytest.raises(InvalidRequestError) as refused:
        protocol.require_fit(protocol.from_dict(RunRequest, asked(**change)), SUITE)
    assert str(refused.value) == answer.json()["detail"]


def test_a_missing_field_and_a_body_that_is_no_json_are_named(service):
    http, _ = service
    assert "suite_sha256 = None: expected a value" in http.post("/v1/runs", json={"program": "1"}).text
    for body in ("{", "[" * 100_000, "7", "NaN"):
        answer = http.post("/v1/runs", content=body)
        assert (answer.status_code, "expected" in answer.text) == (422, True), body[:10]


def test_a_request_of_too_many_executions_is_refused_by_name(service):
    answer = service[0].post("/v1/runs", json=asked(repeats=11))
    assert (answer.status_code, "tests x repeats = 22" in answer.text) == (422, True)


def test_what_a_client_has_under_way_is_bounded_and_one_thing_always_goes():
    admission = Admission(Bounds(client_executions=10, client_seconds=100.0))
    admission.enter("a", Work(50, 1.0))
    with pytest.raises(ClientFull, match="executions of this client"):
        admission.enter("a", Work(1, 1.0))
    admission.enter("b", Work(1, 99.0))
    with pytest.raises(ClientFull, match="seconds of this client"):
        admission.enter("b", Work(1, 2.0))
    admission.leave("a", Work(50, 1.0))
    admission.enter("a", Work(1, 1.0))


def test_work_of_a_client_that_left_is_dropped_and_its_worker_free_again(service):
    http, workers = service
    before = workers.counts["cancelled"]
    with pytest.raises(httpx.ReadTimeout):
        http.post("/v1/runs", json=asked(**LONG, repeats=5), timeout=0.3)
    assert wait_until(lambda: workers.counts["queued"] == 0)
    assert workers.counts["cancelled"] == before + 1
    assert http.post("/v1/runs", json=asked(seed=3)).json()["results"][0]["verdict"] == "success"


def test_a_full_client_is_told_to_come_back(service):
    http, workers = service
    url = f"{str(http.base_url).rstrip('/')}/v1/runs"
    holder = threading.Thread(target=lambda: ask_in_vain(url, asked(**LONG, repeats=9), timeout=2.0))
    holder.start()
    assert wait_until(lambda: workers.counts["queued"] > 0)
    answer = http.post("/v1/runs", json=asked(repeats=2))
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    holder.join()
    assert wait_until(lambda: workers.counts["queued"] == 0)


def test_a_client_has_so_many_connections_and_silent_ones_are_closed(service):
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(raw(service[0], "GET / HTTP/1.1\r\nX: ")) for _ in range(12)]
        heard = [connection.recv(64) for connection in connections]
    assert 4 <= len([text for text in heard if text.startswith(b"HTTP/1.1 429")]) <= 5
    assert heard.count(b"") >= 7
    assert wait_until(lambda: service[0].get("/healthz").status_code == 200)


def test_a_terminated_server_ends_in_seconds_whatever_it_runs():
    port = free_port()
    running = start_server(port, "--drain_s=1")
    url = f"http://127.0.0.1:{port}"
    httpx.put(f"{url}/v1/suites/{SUITE.sha256}", content=protocol.to_json(SUITE)).raise_for_status()
    asking = threading.Thread(target=lambda: ask_in_vain(f"{url}/v1/runs", asked(**LONG), timeout=WAIT_S))
    asking.start()
    time.sleep(0.5)
    running.terminate()
    assert running.wait(15) == -signal.SIGTERM
    asking.join(WAIT_S)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("openssl, which makes a certificate, is not here")
    folder = tmp_path_factory.mktemp("tls")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    made = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-nodes", "-days", "2"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", *made, *subject], check=True, capture_output=True)
    return folder


def test_two_options_encrypt_and_a_client_trusts_the_authority_it_is_given(certificate, monkeypatch):
    port, ca = free_port(), certificate / "cert.pem"
    flags = [f"--tls_certificate={ca}", f"--tls_key={certificate / 'key.pem'}"]
    running = start_server(port, *flags, scheme="https")
    try:
        with client.connect(f"https://127.0.0.1:{port}", ca=ca) as connected:
            connected.upload(SUITE)
            answer = connected.run(RunRequest(DOUBLE, SUITE.sha256))
        assert {result.verdict for result in answer.results} == {Verdict.SUCCESS}
        if shutil.which("curl"):
            curl = ["curl", "--silent", "--fail", "--output", os.devnull, f"https://127.0.0.1:{port}/healthz"]
            assert subprocess.run([*curl, "--cacert", ca], check=False).returncode == 0
            assert subprocess.run(curl, check=False).returncode == CURL_KNOWS_NO_AUTHORITY
        monkeypatch.setattr("sandbox.service.remote.FIRST_PAUSE_S", 0.001)
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            client.connect(f"https://127.0.0.1:{port}")
    finally:
        running.terminate()
        running.wait(15)


def test_the_curl_examples_of_the_documentation_run_as_they_stand(service):
    if not shutil.which("curl"):
        pytest.skip("curl is not here")
    page = (pathlib.Path(__file__).parents[2] / "docs" / "judges.md").read_text()
    examples = [text for text in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "curl" in text]
    assert len(examples) == 2
    environment = os.environ | {"SANDBOX": str(service[0].base_url).rstrip("/"), "TOKEN": TOKEN}
    for text in examples:
        ended = subprocess.run(["bash", "-euc", text], env=environment, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert ended.stdout.count('"verdict":"success"') == 2
