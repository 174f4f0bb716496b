"""What an earlier run of a build left is not done again, on any runner and with any sandbox."""

import dataclasses

import apache_beam as beam
import pytest

from beam_pipelines import storage
from beam_pipelines.options import BuildOptions
from beam_pipelines.records import KEPT, Problem, Rejection, count_stage
from beam_pipelines.sandbox_session import Connection
from beam_pipelines.sources import jsonl
from beam_pipelines.stages import stage
from tests.beam_pipelines import planted
from tests.beam_pipelines.corpora import write_corpus

LEFT = []


def collect(problem):
    LEFT.append(problem)
    return problem


@pytest.fixture(autouse=True)
def _nothing_left():
    LEFT.clear()


def run(*steps, source):
    with beam.Pipeline("FnApiRunner") as root:
        problems = (root | source)[KEPT]
        for step in steps:
            problems = (problems | step)[KEPT]
        problems | "collect" >> beam.Map(collect)


def test_records_that_are_finished_are_not_read_into_the_pipeline_again(tmp_path):
    corpus = write_corpus(tmp_path / "c.jsonl", [planted.problem(name) for name in "abc"])
    options = BuildOptions(source="jsonl", input=str(corpus))
    assert jsonl.read_jsonl(options).expected_records == 3
    run(source=jsonl.read_jsonl(options))
    assert len({problem.key for problem in LEFT}) == 3
    done = tmp_path / "records"
    storage.write_record(LEFT[0], directory=str(done))
    storage.write_record(Rejection(LEFT[1].id, "labels", "correct_only", key=LEFT[1].key), directory=str(done))
    remaining = LEFT[2].id
    LEFT.clear()
    run(source=jsonl.read_jsonl(options).resumed_from(str(done)))
    assert [problem.id for problem in LEFT] == [remaining]


def test_a_stage_that_took_long_is_taken_from_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "CHECKPOINT_AFTER_S", 0.0)
    connection = Connection("local", 1, "", 1.0, 1 << 28, checkpoints=str(tmp_path / "checkpoints"))
    calls = []

    def decide(problem: Problem, session: object) -> Problem:
        calls.append(problem.id)
        return count_stage(dataclasses.replace(problem, rating=len(calls)), "slow")

    corpus = write_corpus(tmp_path / "c.jsonl", [planted.problem("a")])
    for _ in range(2):
        source = jsonl.read_jsonl(BuildOptions(source="jsonl", input=str(corpus)))
        run(stage.Stage("slow", decide, connection=connection), source=source)
    assert len(calls) <= 1, "the second try, in whatever process, decides nothing"
    assert [problem.rating for problem in LEFT] == [1, 1]
