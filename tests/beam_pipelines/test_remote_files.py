"""Inputs, generators, evaluation sets, records, executions and outputs in a bucket, by a store that lies in memory."""

import dataclasses
import functools
import json
import time

import fsspec
import pytest
from etils import epath
from etils.epath import backend

from beam_pipelines import build_dataset, sandbox_session, storage
from beam_pipelines.answer_files import AnswerFiles
from beam_pipelines.generators import generator_files
from beam_pipelines.remote_files import copy_files, files_below, local_directory
from beam_pipelines.runners import build_lock
from beam_pipelines.runners.build_lock import LOCK, leased_directory
from beam_pipelines.sources import evaluation_sets
from optimrl_jax.jobs.command_line import run_command
from optimrl_jax.jobs.errors import UserError
from sandbox.protocol import RunRequest, RunResult, TestResult, Verdict
from tests.beam_pipelines import planted
from tests.beam_pipelines.buckets import BucketFiles
from tests.beam_pipelines.corpora import read_records, read_rows, run_quietly, write_parquet
from tests.beam_pipelines.layouts import LATER, write_files

BUILD = ("--source=jsonl", "--calls=1", "--repeats=1", "--min_robust_cv=0")


@pytest.fixture
def bucket(monkeypatch):
    """An empty bucket, as `epath` reaches it."""
    monkeypatch.setattr(BucketFiles, "objects", {})
    systems = {"gcs": BucketFiles(), "file": fsspec.filesystem("file")}
    monkeypatch.setattr(backend._FileSystemSpecBackend, "_get_filesystem", lambda self, name: systems[name])
    # Nobody else begins a build at the same moment.
    at_once = functools.partial(leased_directory, settled_after_s=0.0)
    monkeypatch.setattr(build_lock, "leased_directory", at_once)
    return epath.Path("gs://bucket")


def put_corpus(bucket, problems):
    text = "".join(json.dumps(planted.as_object(one)) + "\n" for one in problems)
    (bucket / "in" / "problems.jsonl").write_text(text)
    return f"{bucket}/in/problems.jsonl"


def test_a_build_from_and_into_a_bucket_holds_what_a_local_one_holds(bucket, tmp_path):
    path = put_corpus(bucket, [planted.problem("x", generators=())])
    (bucket / "in" / "generators.json").write_text(json.dumps({"planted/x": [planted.SUM_GENERATOR]}))
    (bucket / "in" / "held_out.jsonl").write_text(json.dumps({"text": "Something else altogether."}) + "\n")
    more = (f"--generators={bucket}/in/generators.json", f"--evaluation_sets={bucket}/in/held_out.jsonl")
    run_quietly(*BUILD, *more, f"--input={path}", f"--output={bucket}/out")
    out = bucket / "out"
    assert {child.name for child in out.iterdir()} >= {"COMPLETE", "manifest.json", "dmc_optim", "executions"}
    assert not (out / "work").exists()
    assert not (out / LOCK).exists()
    assert set(json.loads((out / "manifest.json").read_text())["inputs"]) == {
        f"{bucket}/in/{name}" for name in ("problems.jsonl", "generators.json", "held_out.jsonl")
    }
    copy_files(out, epath.Path(tmp_path / "copy"))
    (row,) = read_rows(tmp_path / "copy").values()
    assert len(row["reference_id"]) == len(planted.CORRECT_SUMS)
    assert set(row["test_kind"].tolist()) == {0, 1, 2}


def test_a_build_that_is_started_again_elsewhere_executes_nothing_again(bucket, monkeypatch):
    path = put_corpus(bucket, [planted.problem("x")])
    run_quietly(*BUILD, f"--input={path}", f"--output={bucket}/out", "--until=validate")
    (problem,) = storage.read_problems(bucket / "out" / "until" / "validate")
    assert len(problem.correct) == len(planted.CORRECT_SUMS)
    asked = []

    def refuse(self, requests, **keywords):
        asked.extend(requests)
        raise AssertionError("nothing is left to execute")

    monkeypatch.setattr(sandbox_session.sandbox_client.Client, "run_many", refuse)
    run_quietly(*BUILD, f"--input={path}", f"--output={bucket}/out", "--until=validate")
    assert asked == []


def test_a_complete_output_in_a_bucket_is_not_built_again(bucket, capsys):
    path = put_corpus(bucket, [planted.problem("x")])
    flags = (*BUILD, f"--input={path}", f"--output={bucket}/out", "--tests_only")
    run_quietly(*flags)
    run_quietly(*flags)
    assert "already complete" in capsys.readouterr().err
    arguments = [*flags, "--trust_programs", "--limit=1"]
    assert run_command(build_dataset.main, arguments, name="build_dataset") == 2
    assert "this dataset has other limit" in capsys.readouterr().err


def as_texts(source, path):
    return [storage.record_to_json(record) for record in read_records(source, input=path)]


def test_parquet_and_packages_are_read_from_a_bucket(bucket, tmp_path):
    local = write_parquet(tmp_path / "a.parquet", [planted.problem("x")])
    (bucket / "data" / "train-0.parquet").write_bytes(local.read_bytes())
    assert as_texts("code_contests", str(bucket)) == as_texts("code_contests", str(local))
    copy_files(epath.Path(write_files(tmp_path / "packages" / "sum", LATER).parent), bucket / "packages")
    remote = as_texts("packages", f"{bucket}/packages")
    assert remote == as_texts("packages", str(tmp_path / "packages"))
    assert remote == as_texts("packages", f"{bucket}/packages/sum")


def test_one_build_at_a_time_holds_a_lease_and_a_dead_ones_lease_ends(bucket):
    lease = {"lease_s": 0.4, "settled_after_s": 0.01}
    with leased_directory(bucket / "out", **lease):
        time.sleep(0.6)
        with (
            pytest.raises(UserError, match=r"no other build runs, found process [0-9]+ on "),
            leased_directory(bucket / "out", **lease),
        ):
            pass
    abandoned = {"host": "gone", "process": 1, "start": "then", "renewed_s": time.time() - 1}
    (bucket / "out" / LOCK).write_text(json.dumps(abandoned))
    with leased_directory(bucket / "out", **lease):
        assert json.loads((bucket / "out" / LOCK).read_text())["host"] != "gone"
    assert not (bucket / "out" / LOCK).exists()


def test_a_build_that_stood_still_leaves_its_successor_the_lease(bucket):
    lease = {"lease_s": 0.4, "settled_after_s": 0.01}
    successor = {"host": "next", "process": 2, "start": "later", "token": "t", "renewed_s": time.time()}
    with leased_directory(bucket / "out", **lease) as require_lease:
        require_lease()
        (bucket / "out" / LOCK).write_text(json.dumps(successor))
        time.sleep(0.3)
        with pytest.raises(UserError, match="found process 2 on next, started later"):
            require_lease()
    assert json.loads((bucket / "out" / LOCK).read_text()) == successor


def test_answers_are_kept_by_the_requests_that_were_asked_together(bucket, caplog):
    files = AnswerFiles(f"{bucket}/executions")
    requests = [RunRequest(f"program {n}", "0" * 64) for n in range(2)]
    answers = [RunResult(one.sha256, (TestResult(0, Verdict.SUCCESS, 0.1),), {"host": "h"}) for one in requests]
    assert files.get(requests) is None
    files.put(requests, answers)
    assert files.get(requests) == answers
    assert files.get(requests[:1]) is None
    (path,) = files_below(bucket / "executions")
    path.write_bytes(b"broken")
    assert files.get(requests) is None
    assert "measured again" in caplog.text


def test_answers_of_a_sandbox_that_failed_are_not_kept(bucket):
    files = AnswerFiles(f"{bucket}/executions")
    request = RunRequest("program", "0" * 64)
    fault = TestResult(0, Verdict.SANDBOX_FAULT, 0.0)
    files.put([request], [RunResult(request.sha256, (fault,), {})])
    assert files.get([request]) is None


def test_an_address_that_nothing_reaches_is_one_line(tmp_path, capsys):
    for flag, line in (
        ("--output=ftp://host/out", "--output = 'ftp://host/out': expected a local path or one that begins with gs://"),
        ("--input=s3://bucket/in", "--input = 's3://bucket/in': expected the package that reaches it ("),
    ):
        arguments = [*BUILD, f"--output={tmp_path}", "--trust_programs", flag]
        assert run_command(build_dataset.main, arguments, name="build_dataset") == 2
        assert line in capsys.readouterr().err.strip().splitlines()[-1]


def test_a_remote_directory_is_lent_as_a_local_copy(bucket, tmp_path):
    (bucket / "a" / "b" / "c.txt").write_text("here")
    with local_directory(f"{bucket}/a") as copy:
        assert (copy.name, (copy / "b" / "c.txt").read_text()) == ("a", "here")
    assert not copy.exists()
    with local_directory(tmp_path) as same:
        assert same == tmp_path


def test_records_and_other_files_are_read_from_a_bucket(bucket):
    problem = dataclasses.replace(planted.problem("x"), key="1")
    storage.write_record(problem, directory=f"{bucket}/records")
    (stored,) = storage.read_records(bucket / "records")
    assert storage.record_to_json(stored) == storage.record_to_json(problem)
    assert storage.is_stored(problem, f"{bucket}/records")
    (bucket / "g.jsonl").write_text(json.dumps({"problem": "x", "program": "a"}) + "\n")
    assert generator_files.read_generators(f"{bucket}/g.jsonl")["x"][0].program == "a"
    (bucket / "sets" / "s.jsonl").write_text(json.dumps({"text": "Add."}) + "\n")
    assert list(evaluation_sets.read_evaluation_sets(f"{bucket}/sets").values()) == ["Add."]
