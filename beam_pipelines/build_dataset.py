"""Edge: `python -m beam_pipelines.build_dataset`: raw problems -> DMC-Optim (ArrayRecord through TFDS).

Runs the pipeline, decides the split, writes the dataset, the summary and, last of all, the completion marker. Options
that are not ours go to Apache Beam. A build that was stopped is started again with the same command: what the store
in the output directory already knows is not executed again.
"""

import dataclasses
import json
import pathlib
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence

import apache_beam as beam
from rich.console import Console
from rich.table import Table

from beam_pipelines import execution, pipeline, report, similarity, storage
from beam_pipelines.commands import Parser, UserError, beam_options, require, run_job
from beam_pipelines.dmc_optim import dmc_optim_dataset_builder as dmc_optim
from beam_pipelines.options import BuildOptions, check
from beam_pipelines.records import Problem
from beam_pipelines.stages import filterability, split

COMPLETE = "COMPLETE"
STORE = "executions.sqlite"
TRACES = "traces.jsonl"
WORK = "work"
# The embedded corpus is small, and its statements differ in a few words on purpose: only equal ones are duplicates.
MINI_DEFAULTS = {"calls": 3, "similar": 1.0}


def main(arguments: Sequence[str]) -> None:
    start = time.monotonic()
    options, beam_arguments = parse(arguments)
    output = pathlib.Path(options.output)
    if is_complete(output, options):
        print(f"{output}: this dataset is already complete", file=sys.stderr)
        return
    _make(output)
    (output / "options.json").write_text(json.dumps(dataclasses.asdict(options), indent=2))
    work = output / WORK
    for directory in (pipeline.PROBLEMS, pipeline.REJECTIONS):
        shutil.rmtree(work / directory, ignore_errors=True)
    names, sandbox_wait_s = run(options, beam_arguments, work=work)
    rows, splits = _decided(options, names, work=work)
    _print_table(rows)
    require(bool(splits), "--output", options.output, "at least one problem that survives all stages, found none")
    dmc_optim.prepare(output, records_directory=work / pipeline.PROBLEMS, splits=splits)
    summary = {
        "wall_s": round(time.monotonic() - start, 3),
        "sandbox_wait_s": sandbox_wait_s,
        "splits": dict(sorted(Counter(splits.values()).items())),
        "stages": [dataclasses.asdict(row) for row in rows],
    }
    (output / "summary.json").write_text(json.dumps(summary, indent=2))
    _write_traces(output / TRACES, work, splits)
    shutil.rmtree(work)
    (output / COMPLETE).write_text("complete\n")
    _print_splits(summary)


def parse(arguments: Sequence[str]) -> tuple[BuildOptions, list[str]]:
    """Our options, checked, and the arguments that are Beam's."""
    parser = Parser(prog="build_dataset", description="Builds DMC-Optim from raw problems.", allow_abbrev=False)
    for field in dataclasses.fields(BuildOptions):
        parser.add_argument(
            f"--{field.name}", type=field.type, default=field.default, help=field.metadata["meaning"].replace("%", "%%")
        )
    known, rest = parser.parse_known_args(arguments)
    values = vars(known)
    if values["source"] == "mini":
        values |= {name: value for name, value in MINI_DEFAULTS.items() if not _is_given(name, arguments)}
    options = BuildOptions(**values)
    require(options.source in pipeline.SOURCES, "--source", options.source, f"one of {', '.join(pipeline.SOURCES)}")
    require(bool(options.output), "--output", options.output, "a directory for the dataset")
    if mistake := check(options):
        raise UserError(mistake)
    beam_options(rest)
    return options, rest


def is_complete(output: pathlib.Path, options: BuildOptions) -> bool:
    """True where the same build already ended there; raises UserError where another one did."""
    if not (output / COMPLETE).exists():
        return False
    before = json.loads((output / "options.json").read_text())
    now = dataclasses.asdict(options)
    free = ("output", "sandbox_workers")
    changed = sorted(name for name in now if name not in free and before.get(name) != now[name])
    require(not changed, "--output", options.output, f"a new directory: this dataset has other {', '.join(changed)}")
    return True


def run(options: BuildOptions, beam_arguments: Sequence[str], *, work: pathlib.Path) -> tuple[list[str], float]:
    """Runs the pipeline; returns the names of its stages and the seconds that they waited for the sandbox."""
    sandbox = pipeline.connection(options, store=str(work.parent / STORE))
    source = pipeline.SOURCES[options.source](options)
    steps = pipeline.stages(options, sandbox)
    try:
        root = beam.Pipeline(runner=runner(beam_arguments), options=beam_options(beam_arguments))
        pipeline.build(root, source, steps, directory=work)
        result = root.run()
        result.wait_until_finish()
    finally:
        execution.release_all()
    return ["read", *(step.label for step in steps)], _sandbox_wait_s(result)


def runner(beam_arguments: Sequence[str]) -> str | None:
    """The runner to use; DirectRunner means the in-memory one.

    Beam's own DirectRunner first looks for Prism, which it would have to download.
    """
    chosen = beam_options(beam_arguments).view_as(beam.options.pipeline_options.StandardOptions).runner
    return "FnApiRunner" if chosen in (None, "DirectRunner") else None


def _sandbox_wait_s(result: beam.runners.runner.PipelineResult) -> float:
    found = result.metrics().query(beam.metrics.MetricsFilter().with_name("sandbox_wait_ms"))["counters"]
    return sum(counter.result for counter in found) / 1000


def _decided(
    options: BuildOptions, names: Sequence[str], *, work: pathlib.Path
) -> tuple[list[report.StageRow], dict[str, str]]:
    """The stage table and the split of every problem that was kept."""
    kept = [_without_bulk(problem) for problem in storage.read(work / pipeline.PROBLEMS)]
    groups = similarity.groups({problem.id: problem.statement for problem in kept}, similar=options.similar)
    members = [
        split.Member(problem.id, problem.category, problem.group or groups.get(problem.id, ""))
        for problem in kept
        if problem.split == filterability.FILTERABLE
    ]
    splits = {problem.id: filterability.NON_FILTERABLE for problem in kept}
    splits |= split.assign(members, test_share=options.test_share, seed=options.seed)
    rejections = storage.read(work / pipeline.REJECTIONS)
    return report.stage_rows(names, rejections, kept=len(splits)), splits


def _without_bulk(problem: Problem) -> Problem:
    """What the split needs of a problem; tests, programs and timings of a whole corpus would not fit into memory."""
    return dataclasses.replace(problem, tests=(), solutions=(), timings=(), generators=(), trace=())


def _write_traces(path: pathlib.Path, work: pathlib.Path, splits: dict[str, str]) -> None:
    """One line a problem: what every stage left of it, and its split or the reason why it went."""
    with path.open("w") as lines:
        for record in storage.read(work / pipeline.PROBLEMS):
            line = {"id": record.id, "split": splits[record.id]}
            lines.write(json.dumps(line | {"trace": [dataclasses.asdict(step) for step in record.trace]}) + "\n")
        for record in storage.read(work / pipeline.REJECTIONS):
            lines.write(json.dumps(dataclasses.asdict(record)) + "\n")


def _make(output: pathlib.Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--output = {str(output)!r}: expected a directory ({error.strerror})") from None


def _is_given(flag: str, arguments: Sequence[str]) -> bool:
    return any(argument == f"--{flag}" or argument.startswith(f"--{flag}=") for argument in arguments)


def _print_table(rows: Sequence[report.StageRow]) -> None:
    table = Table("stage", "kept", "rejected", "reasons", title="what each stage kept")
    for row in rows:
        reasons = ", ".join(f"{reason} {count}" for reason, count in row.reasons.items())
        table.add_row(row.stage, str(row.kept), str(row.rejected), reasons)
    Console(stderr=False).print(table)


def _print_splits(summary: dict) -> None:
    sizes = ", ".join(f"{name} {count}" for name, count in summary["splits"].items())
    print(f"dataset: {sizes}; {summary['wall_s']:.1f} s, of which {summary['sandbox_wait_s']:.1f} s in the sandbox")


if __name__ == "__main__":
    sys.exit(run_job(main, name="build_dataset"))
