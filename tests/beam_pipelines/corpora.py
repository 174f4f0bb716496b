"""Corpora on disk, builds of them in this process, and the rows of what was built."""

import json
import signal

import pyarrow
import pyarrow.parquet
import tensorflow_datasets as tfds

from beam_pipelines import build_dataset, pipeline
from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Problem, Rejection
from optimrl_jax.jobs.command_line import run_command
from tests.beam_pipelines import planted


def run_quietly(*arguments):
    """Builds a dataset in this process and leaves its signal handlers as they were."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert run_command(build_dataset.main, ["--trust_programs", *arguments], name="build_dataset") == 0
    finally:
        signal.signal(signal.SIGTERM, before)


def write_corpus(path, problems):
    path.write_text("".join(json.dumps(planted.as_object(one)) + "\n" for one in problems))
    return path


def read_rows(output, split="cleaned"):
    (info,) = output.glob("dmc_optim/*/dataset_info.json")
    found = tfds.builder_from_directory(info.parent).as_data_source(split=split)
    return {row["id"].decode(): row for row in found}


def code_contests_rows(problems):
    """The problems in the columns of CodeContests."""
    return [
        {
            "name": one.id,
            "description": one.statement,
            "source": 2,
            "difficulty": one.difficulty,
            "cf_rating": one.rating,
            "cf_tags": list(one.tags) or ["greedy"],
            "solutions": {
                "language": [3] * len(one.correct) + [2],
                "solution": [s.program for s in one.correct] + ["int main() {}"],
            },
            "incorrect_solutions": {
                "language": [3] * len(one.incorrect),
                "solution": [s.program for s in one.incorrect],
            },
            "public_tests": {"input": [t.input for t in one.tests[:1]], "output": [t.output for t in one.tests[:1]]},
            "private_tests": {"input": [t.input for t in one.tests[1:]], "output": [t.output for t in one.tests[1:]]},
            "generated_tests": {"input": [], "output": []},
            "time_limit": {"seconds": 1, "nanos": 500_000_000},
            "memory_limit_bytes": 64_000_000,
        }
        for one in problems
    ]


def write_parquet(path, problems, *, row_group_size=64):
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(code_contests_rows(problems)), path, row_group_size=row_group_size
    )
    return path


def read_records(source: str, **options: object) -> list[Problem | Rejection]:
    """All records of a source, in order."""
    return list(pipeline.SOURCES[source](BuildOptions(source=source, **options)).records())
