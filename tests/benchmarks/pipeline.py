"""Figures of the dataset pipeline, as one JSON line: `python -m tests.benchmarks.pipeline`.

`--only=key,...` measures the parts in which these keys are found; KEYS names them all.

- `overhead_share`: time of a build beyond its waiting for the sandbox, as a share of that waiting (real programs);
- `records_per_s`, `peak_memory_bytes`: by scale, on a synthetic corpus of the shape of the CodeContests sample (58
  problems, 80 solutions and 200 tests each) and its multiples, read from Parquet, with made-up executions;
- `paper_scale_filter_s`: the filter stages alone on 12,275 problems with 2 x 10^8 made-up executions;
- `layouts_read`: sources that read a problem in their publisher's layout; `resumed_executions`: what a second build
  with the store of the first executes; `store_answers_per_s`; `two_worker_dask_equal`: the same contents from two
  worker processes; `killed_build_equal`: a build that is killed at ten random moments gives the same bits;
  `problems_accounted_for`: kept and rejected add up at every stage.

Each part runs in a process of its own, so that its peak memory is its own. The first one says little beside other work
on the machine, the rates little more; the rest is not affected by it.
"""

import argparse
import dataclasses
import functools
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow
import pyarrow.parquet

from beam_pipelines import build_dataset, matrices, pipeline
from beam_pipelines.options import BuildOptions
from beam_pipelines.records import KEPT, Label, Problem, Solution, Test, count_stage
from beam_pipelines.sources import code_contests
from beam_pipelines.stages import classify, deduplicate, filter_tests, filterability, labels, non_empty
from beam_pipelines.stages.stage import Stage
from beam_pipelines.stages.thresholds import CORRECTNESS, OPTIMIZATION
from optimrl_jax.arrays import TestKind
from sandbox.protocol import Verdict
from tests.benchmarks import pipeline_promises

SAMPLE_PROBLEMS = 58
SCALES = (1, 4, 16)
PAPER_PROBLEMS = 12_275
PAPER_TESTS = {TestKind.ORIGINAL: 60, TestKind.ADDED: 50, TestKind.OPTIMIZATION: 50}
PAPER_SOLUTIONS = (60, 40)
SAMPLE_GENERATED_TESTS = 50
MINI_PROBLEMS = 6


def measured_apart(what: str, scale: int, root: pathlib.Path) -> dict[str, Any]:
    """Measures in a process of its own, so that its peak memory is its own."""
    flags = [f"--part={what}", f"--scale={scale}", f"--directory={root}"]
    command = [sys.executable, "-m", "tests.benchmarks.pipeline", *flags]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def overhead(scale: int, root: pathlib.Path) -> dict[str, float]:
    output = root / "overhead"
    build_dataset.main(["--source=mini", f"--limit={MINI_PROBLEMS}", f"--output={output}"])
    summary = json.loads((output / "summary.json").read_text())
    waited_s = summary["sandbox"]["waited_s"]
    return {"overhead_share": (summary["wall_s"] - waited_s) / waited_s}


def at_scale(scale: int, root: pathlib.Path) -> dict[str, float]:
    """Reads, decides and writes a synthetic corpus of `scale` samples, with executions made up on the way."""
    path = root / f"corpus_{scale}.parquet"
    write_corpus(path, problems=SAMPLE_PROBLEMS * scale)
    source = code_contests.read_code_contests(BuildOptions(source="code_contests", input=str(path)))
    steps = [
        deduplicate.deduplicate_stage(deduplicate.EvaluationSet(), similar=0.8),
        labels.labels_stage(max_solutions=0, max_original_tests=0, min_incorrect=1, seed=0),
        Stage("validated", with_originals),
        *filters(SAMPLE_GENERATED_TESTS),
    ]
    start, start_cpu_s = time.monotonic(), time.process_time()
    with beam.Pipeline("FnApiRunner") as runner:
        pipeline.assemble_pipeline(runner, source, steps=steps, directory=root / f"records_{scale}")
    wall_s = time.monotonic() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "records_per_s": SAMPLE_PROBLEMS * scale / wall_s,
        "peak_memory_bytes": peak,
        "cpu_share": (time.process_time() - start_cpu_s) / wall_s,
    }


def paper_scale(scale: int, root: pathlib.Path) -> dict[str, float]:
    """The filter stages on made-up matrices; the time to make these up is measured alone and taken off."""
    start = time.monotonic()
    for index in range(PAPER_PROBLEMS):
        problem = synthetic(index)
        for kind in (TestKind.ADDED, TestKind.OPTIMIZATION):
            with_generated(problem, kind=int(kind), count=PAPER_TESTS[kind])
    made_s = time.monotonic() - start
    start = time.monotonic()
    with beam.Pipeline("FnApiRunner") as runner:
        problems = runner | beam.Create(range(PAPER_PROBLEMS)) | beam.Map(synthetic)
        for step in filters(PAPER_TESTS[TestKind.ADDED]):
            problems = (problems | step)[KEPT]
    return {"paper_scale_filter_s": time.monotonic() - start - made_s}


def filters(tests: int) -> list[Stage]:
    """Both rounds as the pipeline has them; each first makes up its own generated tests with their executions."""
    steps = []
    for thresholds in (CORRECTNESS, OPTIMIZATION):
        make = functools.partial(with_generated, kind=thresholds.kind, count=tests)
        steps += [
            Stage(f"made up {thresholds.name}", make),
            filter_tests.filter_tests_stage(thresholds),
            classify.classify_stage(thresholds),
        ]
    return [
        *steps,
        non_empty.non_empty_stage(),
        Stage("timed", with_timings),
        filterability.filterability_stage(min_robust_cv=0.3, seed=0),
    ]


def synthetic(index: int) -> Problem:
    """A problem of the paper's size with original tests that its correct solutions pass."""
    correct, incorrect = PAPER_SOLUTIONS
    labels_of = [Label.CORRECT] * correct + [Label.INCORRECT] * incorrect
    solutions = tuple(Solution(f"{n}", "", label) for n, label in enumerate(labels_of))
    problem = Problem(f"synthetic/{index}", "synthetic", "", "", 0, 0, 2.0, 1 << 28, solutions, ())
    return with_generated(problem, kind=int(TestKind.ORIGINAL), count=PAPER_TESTS[TestKind.ORIGINAL])


def with_generated(problem: Problem, *, kind: int, count: int) -> Problem:
    """The problem with `count` tests of a kind: 2 % of the generated ones slow, 2 % invalid, the others sound."""
    tests = tuple(Test(kind, f"{kind} {n}\n", "7\n", "g") for n in range(count))
    made = made_up(len(problem.correct), len(problem.incorrect), tests=count, seed=f"{problem.id}/{kind}")
    if kind != TestKind.ORIGINAL:
        spoil(made, correct=len(problem.correct))
    executions = matrices.concatenate_tests(problem.executions, made) if problem.executions else made
    return count_stage(dataclasses.replace(problem, tests=problem.tests + tests, executions=executions), "made up")


def made_up(correct: int, incorrect: int, *, tests: int, seed: str) -> matrices.Executions:
    """Successes of exponentially distributed durations; incorrect solutions fail one test in five."""
    draw = np.random.default_rng(zlib.crc32(seed.encode()))
    made = matrices.not_run(tests, correct + incorrect)
    made.verdict[:] = matrices.verdict_code(Verdict.SUCCESS)
    made.verdict[:, correct:][draw.random((tests, incorrect)) < 0.2] = matrices.verdict_code(Verdict.WRONG_OUTPUT)
    made.wall_s[:] = draw.exponential(0.05, (tests, 1)) * draw.uniform(0.5, 2, made.wall_s.shape)
    made.runs[:] = 1
    return made


def spoil(made: matrices.Executions, *, correct: int) -> None:
    """Makes every fiftieth test too slow for the correct solutions and another fiftieth invalid."""
    for first, verdict in ((0, Verdict.TIME_LIMIT), (1, Verdict.WRONG_OUTPUT)):
        made.verdict[first::50, :correct] = matrices.verdict_code(verdict)


def with_originals(problem: Problem) -> Problem:
    made = made_up(len(problem.correct), len(problem.incorrect), tests=len(problem.tests), seed=problem.id)
    return count_stage(dataclasses.replace(problem, executions=made), "validated")


def with_timings(problem: Problem) -> Problem:
    first = problem.executions.take(range(len(problem.correct)), axis=1)
    return count_stage(
        dataclasses.replace(problem, timings=matrices.combine_rounds([first] * 3), executions=None), "timed"
    )


def write_corpus(path: pathlib.Path, *, problems: int) -> None:
    """A Parquet file in the layout of CodeContests, one row group a sample."""
    writer = None
    for batch in _batches(problems):
        table = pyarrow.Table.from_pylist(batch)
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def _batches(problems: int) -> Iterator[list[dict]]:
    for first in range(0, problems, SAMPLE_PROBLEMS):
        yield [_row(index) for index in range(first, first + SAMPLE_PROBLEMS)]


def _row(index: int) -> dict:
    draw = np.random.default_rng(index)
    words = [f"word{n}" for n in draw.integers(0, 5000, 400)]
    programs = [f"n = int(input())\nprint(n + {n})\n" + f"x = {n}\n" * 40 for n in range(80)]
    texts = [f"{n} {index}\n" + "5 " * 40 for n in range(200)]
    empty: dict[str, list[str]] = {"input": [], "output": []}
    return {
        "name": f"p{index}",
        "description": " ".join(words),
        "solutions": {"language": [3] * 75, "solution": programs[:75]},
        "incorrect_solutions": {"language": [3] * 5, "solution": programs[75:]},
        "public_tests": empty,
        "private_tests": empty,
        "generated_tests": {"input": texts, "output": texts},
    }


def layouts(scale: int, root: pathlib.Path) -> dict[str, list[str]]:
    return {"layouts_read": pipeline_promises.layouts_read(root)}


def resumed(scale: int, root: pathlib.Path) -> dict[str, int]:
    return {"resumed_executions": pipeline_promises.resumed_executions(root)}


def store(scale: int, root: pathlib.Path) -> dict[str, float]:
    return {"store_answers_per_s": pipeline_promises.store_answers_per_s(root)}


def dask(scale: int, root: pathlib.Path) -> dict[str, bool]:
    is_equal = pipeline_promises.two_worker_dask_equal(root)
    return {
        "two_worker_dask_equal": is_equal,
        "problems_accounted_for": pipeline_promises.problems_accounted_for(root / "two"),
    }


def killed(scale: int, root: pathlib.Path) -> dict[str, bool]:
    return {"killed_build_equal": pipeline_promises.killed_build_equal(root)}


# What a part measures, and how; one that is asked for at several scales gives a figure for each.
PARTS: dict[tuple[str, ...], Callable[[int, pathlib.Path], Mapping[str, object]]] = {
    ("overhead_share",): overhead,
    ("records_per_s", "peak_memory_bytes"): at_scale,
    ("paper_scale_filter_s",): paper_scale,
    ("layouts_read",): layouts,
    ("resumed_executions",): resumed,
    ("store_answers_per_s",): store,
    ("two_worker_dask_equal", "problems_accounted_for"): dask,
    ("killed_build_equal",): killed,
}
BY_NAME = {part.__name__: part for part in PARTS.values()}
KEYS = [key for keys in PARTS for key in keys]


def measure(only: Sequence[str]) -> dict[str, object]:
    """All figures of the parts that hold the keys of `only`; of every part where that is empty."""
    figures: dict[str, object] = {}
    for keys, part in PARTS.items():
        if only and not set(only) & set(keys):
            continue
        start_s = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            root, name = pathlib.Path(directory), part.__name__
            if part is at_scale:
                found = {str(scale): measured_apart(name, scale, root) for scale in SCALES}
                figures |= {key: {scale: one[key] for scale, one in found.items()} for key in keys}
            else:
                figures |= measured_apart(name, 0, root)
        print(f"{ {key: figures[key] for key in keys} } in {time.monotonic() - start_s:.0f} s", file=sys.stderr)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.pipeline", description=__doc__)
    parser.add_argument("--only", default="", help="keys to be measured, with commas between them; all by default")
    parser.add_argument("--part", choices=[*BY_NAME], help="measure one part in this process, in --directory")
    parser.add_argument("--scale", type=int, default=0, help="of the part, in samples")
    parser.add_argument("--directory", type=pathlib.Path, help="where the part writes")
    flags = parser.parse_args()
    only = [key for key in flags.only.split(",") if key]
    if unknown := sorted(set(only) - set(KEYS)):
        parser.error(f"--only={','.join(unknown)}: expected keys among {', '.join(KEYS)}")
    print(json.dumps(BY_NAME[flags.part](flags.scale, flags.directory) if flags.part else measure(only)))


if __name__ == "__main__":
    main()
