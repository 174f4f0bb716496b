"""Inputs that are files: streamed from client to server to container, read by programs, bounded on the way."""

import hashlib
import pathlib
import resource
import subprocess
import sys

import httpx
import pytest

from sandbox import client
from sandbox.backends import docker
from sandbox.protocol import Call, InvalidRequestError, RunRequest, StoredInput, Suite, Verdict
from sandbox.service.admission import Bounds
from sandbox.service.input_files import InputFiles
from sandbox.service.suites import UnknownSuite
from tests.sandbox import servers
from tests.sandbox.engine import require_docker

MEBIBYTE = 1 << 20
# A file larger than one message of the services here may be, and one that memory would show.
SIZE_BYTES, LARGE_BYTES = 5 * MEBIBYTE, 32 * MEBIBYTE
BOUNDS = Bounds(body_bytes=4 * MEBIBYTE)
DIGEST = "import hashlib, sys\nprint(hashlib.file_digest(sys.stdin.buffer, 'sha256').hexdigest())"


def written(path, *, size_bytes=SIZE_BYTES):
    """A file of all bytes, and its digest."""
    block = bytes(range(256)) * 4096
    with path.open("wb") as file:
        for _ in range(size_bytes // len(block)):
            file.write(block)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("place", ["local", pytest.param("docker", marks=pytest.mark.docker), "server"])
def test_a_program_reads_a_file_of_any_bytes_in_every_place(place, tmp_path):
    path, digest = written(tmp_path / "input")
    if place == "docker":
        require_docker()
    with (
        servers.serving(bounds=BOUNDS) as (url, _),
        client.connect(url if place == "server" else place, workers=1) as connected,
    ):
        stored = connected.upload_input(path)
        assert stored == StoredInput(digest, SIZE_BYTES)
        suite = connected.upload(Suite((stored, "", stored), (digest, hashlib.sha256(b"").hexdigest(), digest)))
        results = connected.run(RunRequest(DIGEST, suite, repeats=2)).results
        assert [result.verdict for result in results] == [Verdict.SUCCESS] * 3, results


@pytest.mark.docker
def test_a_text_that_a_container_has_no_room_for_is_the_callers_mistake(monkeypatch):
    require_docker()
    monkeypatch.setitem(docker.WRITABLE, "/inputs", "size=1m,mode=0700")
    with client.connect("docker", workers=1) as connected:
        suite = connected.upload(Suite(("x" * 2 * MEBIBYTE, ""), (None, None)))
        with pytest.raises(InvalidRequestError, match=r"suite\.inputs: expected inputs that this backend has room for"):
            connected.run(RunRequest("print(6)", suite))
        (result,) = connected.run(RunRequest("print(6)", suite, tests=(1,))).results
        assert result.verdict is Verdict.SUCCESS
        assert connected.service.counts["lost_workers"] == 0


SEND = """
import resource, sys
from sandbox import client
with client.connect(sys.argv[1], workers=1) as connected:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    from sandbox.protocol import RunRequest, Suite, StoredInput
    suite = connected.upload(Suite((connected.upload_input(sys.argv[2]),), (None,)))
    connected.run(RunRequest("", suite))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_neither_side_holds_a_file_in_memory(tmp_path):
    path, _ = written(tmp_path / "input", size_bytes=LARGE_BYTES)
    with servers.serving(bounds=BOUNDS) as (url, _):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sent = subprocess.run([sys.executable, "-c", SEND, url, str(path)], capture_output=True, text=True, check=True)
        # In KiB: far less than the 32 MiB of the file, on the client's side and on the server's, which is this process.
        assert int(sent.stdout) < 20 * 1024
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024


def test_what_a_server_refuses_is_said_in_one_line(tmp_path):
    path, digest = written(tmp_path / "input")
    with servers.serving(bounds=Bounds(input_bytes=MEBIBYTE)) as (url, _):
        with path.open("rb") as file:
            answer = httpx.put(f"{url}/v1/inputs/{digest}", content=file)
        assert answer.status_code == 413
        expected = f"expected at most {MEBIBYTE} (--input_bytes of the server)"
        assert answer.json()["detail"] == f"body of {SIZE_BYTES} bytes: {expected}"
        wrong = httpx.put(f"{url}/v1/inputs/{'0' * 64}", content=b"abc")
        assert wrong.status_code == 422
        assert "the digest of what was sent" in wrong.json()["detail"]
        named = {"inputs": [{"sha256": "0" * 64, "size_bytes": 3}], "expected": [None]}
        unknown = httpx.post(f"{url}/v1/suites", json=named)
        assert unknown.status_code == 404
        assert "upload it first" in unknown.json()["detail"]


def test_the_oldest_files_make_room_and_uploading_again_keeps_one(tmp_path):
    files, stored = InputFiles(most_bytes=25, largest_bytes=10), []
    for n in range(3):
        (tmp_path / str(n)).write_bytes(b"%d" % n * 10)
        stored.append(files.put(tmp_path / str(n)))
        files.put(tmp_path / "0")
    with pytest.raises(UnknownSuite):
        files.path_of(stored[1])
    assert [pathlib.Path(files.path_of(one)).read_text() for one in stored[::2]] == ["0" * 10, "2" * 10]
    files.close()


def test_mistakes_are_named(tmp_path):
    with pytest.raises(InvalidRequestError, match=r"suite\.inputs\.size_bytes = .*: expected a whole number in \[0, 1"):
        StoredInput("0" * 64, 1 << 50)
    with pytest.raises(InvalidRequestError, match=r"suite\.inputs = 'a stored input': expected texts"):
        Suite((StoredInput("0" * 64, 1),), ("1",), call=Call("f"))
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate((8 << 30) + 1)
    with (
        client.connect("local", workers=1) as connected,
        pytest.raises(InvalidRequestError, match=r"input = '8589934593 bytes': expected at most 8589934592 bytes"),
    ):
        connected.upload_input(tmp_path / "sparse")


@pytest.mark.parametrize(
    ("bounds", "flag"), [(Bounds(body_bytes=4096), "--body_bytes"), (Bounds(input_bytes=4096), "--input_bytes")]
)
def test_tests_that_a_server_does_not_take_are_the_callers_mistake_and_not_sent_again(tmp_path, bounds, flag):
    path, _ = written(tmp_path / "input")
    with servers.serving(bounds=bounds) as (url, _), client.connect(url, workers=1) as sandbox:
        large = "x" * 8192 if flag == "--body_bytes" else sandbox.upload_input(path)
        suite = sandbox.upload(Suite((large,), (None,)))
        with pytest.raises(InvalidRequestError, match=rf"expected at most 4096 \({flag} of the server\)"):
            sandbox.run(RunRequest("", suite))
        assert sandbox.service.counts["failed"] == 0
