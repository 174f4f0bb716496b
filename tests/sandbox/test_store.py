"""Stored answers come back bit for bit, from other processes too, and faults are never kept."""

import dataclasses
import shutil
import sqlite3
import subprocess
import sys
import threading

from sandbox import client, protocol
from sandbox.protocol import RunRequest, RunResult, Suite, TestResult, Verdict
from sandbox.service.store import Store

SUITE = Suite(inputs=("3\n",), expected=("6\n",))
REQUEST = RunRequest("print(2 * int(input()))", SUITE.sha256)


def answer(verdict: Verdict = Verdict.SUCCESS, wall_s: float = 0.1 + 0.2) -> RunResult:
    return RunResult(REQUEST.sha256, (TestResult(0, verdict, wall_s, detail="é"),), {"host": "h"})


def test_an_answer_comes_back_bit_for_bit(tmp_path):
    store = Store(tmp_path / "s")
    store.put(answer())
    store.close()
    assert Store(tmp_path / "s").get(REQUEST) == answer()


def test_a_fault_is_not_kept(tmp_path):
    store = Store(tmp_path / "s")
    store.put(answer(Verdict.SANDBOX_FAULT))
    assert store.get(REQUEST) is None


def test_the_first_answer_stays(tmp_path):
    store = Store(tmp_path / "s")
    store.put(answer(wall_s=1.0))
    store.put(answer(wall_s=2.0))
    assert store.get(REQUEST).results[0].wall_s == 1.0


def test_any_change_of_the_question_is_another_question(tmp_path):
    store = Store(tmp_path / "s")
    store.put(answer())
    for change in ({"program": "print(6)"}, {"repeats": 2}, {"seed": 1}, {"limits": protocol.Limits(wall_s=1)}):
        assert store.get(dataclasses.replace(REQUEST, **change)) is None


def test_the_oldest_answers_make_room(tmp_path):
    path = tmp_path / "s"
    store = Store(path, most_bytes=1 << 20)
    for n in range(4_000):
        store.put(RunResult(f"{n:05d}", (TestResult(0, Verdict.SUCCESS, 0.1, output="x" * 500),)))
    store.close()
    with sqlite3.connect(path) as database:
        kept = sorted(int(row[0]) for row in database.execute("SELECT request FROM answers"))
    assert 100 < len(kept) < 3_000
    assert kept == list(range(kept[0], 4_000)), "the newest answers stay, without a gap"
    assert path.stat().st_size < 4 << 20


def test_a_file_that_is_no_database_is_put_aside(tmp_path, caplog):
    path = tmp_path / "s"
    path.write_bytes(b"garbage" * 1000)
    store = Store(path)
    store.put(answer())
    assert store.get(REQUEST) == answer()
    assert (tmp_path / "s.broken").exists()
    assert "put aside" in caplog.text


def test_an_answer_that_cannot_be_read_is_measured_again(tmp_path, caplog):
    path = tmp_path / "s"
    store = Store(path)
    store.put(answer())
    with sqlite3.connect(path) as database:
        database.execute("UPDATE answers SET answer = CAST(x'ff00fe' AS TEXT)")
    assert store.get(REQUEST) is None
    assert "measured again" in caplog.text


FULL_DISK = """
import resource, signal, sys
from sandbox.protocol import RunRequest, RunResult, TestResult, Verdict
from sandbox.service.store import Store
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store(sys.argv[1])
request = RunRequest("first", "0" * 64)
store.put(RunResult(request.sha256, ()))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for n in range(100):
    store.put(RunResult(f"{n}", (TestResult(0, Verdict.SUCCESS, 0.1, output="x" * 5_000),)))
print(store.get(request) is not None)
"""


def test_a_full_disk_ends_the_keeping_and_not_the_job(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL_DISK, tmp_path / "s"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
    assert done.stderr.count("cannot be kept") == 1


def test_a_second_client_replays_what_the_first_measured(tmp_path):
    path = tmp_path / "s"
    answers = []
    for _ in range(2):
        with client.connect("local", workers=1, store=path) as connected:
            connected.upload(SUITE)
            answers.append(connected.run(REQUEST))
    assert answers[0] == answers[1]


def test_never_reusing_measures_again(tmp_path):
    with client.connect("local", workers=1, store=tmp_path / "s", reuse="never") as connected:
        connected.upload(SUITE)
        first, second = connected.run_many([REQUEST, REQUEST])
    assert first.results[0].wall_s != second.results[0].wall_s


def test_threads_and_processes_write_together(tmp_path):
    path = tmp_path / "s"
    store = Store(path)
    script = (
        "import sys\nfrom sandbox.service.store import Store\nfrom sandbox.protocol import RunResult\n"
        "s = Store(sys.argv[1])\nfor n in range(100): s.put(RunResult(f'p{n}', ()))\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script, str(path)])
    threads = [
        threading.Thread(target=lambda t=t: [store.put(RunResult(f"t{t}-{n}", ())) for n in range(50)])
        for t in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert writer.wait(60) == 0
    found = store._database.execute("SELECT COUNT(*) FROM answers").fetchone()[0]
    assert found == 300


def test_the_last_of_a_disk_is_left_to_the_job(tmp_path, caplog):
    store = Store(tmp_path / "s", left_bytes=2 * shutil.disk_usage(tmp_path).free)
    for n in range(2):
        store.put(dataclasses.replace(answer(), request_sha256=f"{n}"))
    store.put(answer())
    assert store.get(REQUEST) is None
    assert caplog.text.count("the disk is nearly full") == 1
