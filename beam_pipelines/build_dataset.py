"""Edge: `python -m beam_pipelines.build_dataset`: raw problems -> DMC-Optim (ArrayRecord through TFDS).

Runs the pipeline, decides the split, writes the dataset, the manifest, the summary and, last of all, the completion
marker. Options that are not ours go to Apache Beam. A build that was stopped is started again with the same command:
what the store in the output directory already knows is not executed again.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import time
from collections import Counter
from collections.abc import Sequence

import apache_beam as beam
from apache_beam.runners.runner import PipelineRunner
from etils import epath

from beam_pipelines import pipeline, sandbox_session, similarity, storage
from beam_pipelines.commands import beam_options
from beam_pipelines.dmc_optim import dmc_optim_dataset_builder as dmc_optim
from beam_pipelines.dmc_optim import features
from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Problem, Rejection
from beam_pipelines.report import card, console, costs, manifest, stage_table
from beam_pipelines.stages import filterability, split, tests_only
from optimrl_jax.errors import UserError, require
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.command_line import ArgumentParser, run_command

COMPLETE = "COMPLETE"
STORE = "executions.sqlite"
TRACES = "traces.jsonl"
WORK = "work"
# The embedded corpus is small, and its statements differ in a few words on purpose: only equal ones are duplicates.
MINI_DEFAULTS = {"calls": 3, "similar": 1.0}
# Options that change where and how fast a dataset is built, but not what is in it.
FREE_OPTIONS = ("output", "work", "sandbox_address", "sandbox_workers")


def main(arguments: Sequence[str]) -> None:
    """The whole job, for arguments after the program's name; raises UserError for what the caller can mend."""
    start = time.monotonic()
    options, beam_arguments = parse_options(arguments)
    output = pathlib.Path(options.output)
    if is_complete(output, options):
        print(f"{output}: this dataset is already complete", file=sys.stderr)
        return
    work = epath.Path(options.work or _made(output).resolve() / WORK)
    (output / "options.json").write_text(json.dumps(dataclasses.asdict(options), indent=2))
    stages = run_pipeline(options, beam_arguments, work=work)
    rejected = [*storage.read_records(work / pipeline.REJECTIONS), *storage.remove_repeated(work / pipeline.PROBLEMS)]
    kept = [_without_bulk(problem) for problem in storage.read_records(work / pipeline.PROBLEMS)]
    rows = stage_table.stage_rows(stages, rejected, kept=len(kept))
    console.print_stage_table(rows, has_paper=options.source == stage_table.PAPER_SOURCE)
    require(bool(kept), "--input", options.input, "at least one problem that survives all stages, found none")
    summary = finish_dataset(options, [*kept, *rejected], rows=rows, work=work)
    work.rmtree()
    summary = {"wall_s": round(time.monotonic() - start, 3)} | summary
    (output / "summary.json").write_text(json.dumps(summary, indent=2))
    (output / COMPLETE).write_text("complete\n")
    sizes = ", ".join(f"{name} {count}" for name, count in summary["splits"].items())
    waited_s = summary["sandbox"]["waited_s"]
    print(f"dataset: {sizes}; {summary['wall_s']:.1f} s, of which {waited_s:.1f} s in the sandbox")


def finish_dataset(
    options: BuildOptions,
    records: Sequence[Problem | Rejection],
    *,
    rows: Sequence[stage_table.StageRow],
    work: epath.Path,
) -> dict[str, object]:
    """Writes the dataset with its traces, manifest and card, and returns what the summary says of it."""
    output = pathlib.Path(options.output)
    kept = [record for record in records if isinstance(record, Problem)]
    splits = decide_splits(options, kept)
    about = dmc_optim.AboutDataset(options.name, options.version, card.license_of(options), options.homepage)
    directory = dmc_optim.prepare_dataset(
        output, records_directory=work / pipeline.PROBLEMS, splits=splits, about=about
    )
    _write_traces(output / TRACES, records, splits=splits)
    spent = costs.total_spent(record.trace for record in records)
    store = output / STORE
    cost = costs.measure_cost(
        spent,
        problems=len(records),
        workers=options.sandbox_workers,
        dataset_bytes=dmc_optim.dataset_bytes(directory),
        store_bytes=store.stat().st_size if store.exists() else 0,
    )
    counts = dict(sorted(Counter(splits.values()).items()))
    states = [dict(state) for state in dict.fromkeys(problem.measured_under for problem in kept)]
    origin = manifest.build_manifest(options, splits=counts, measured_under=states, cost=cost)
    (output / "manifest.json").write_text(json.dumps(origin, indent=2))
    header = card.hub_header(
        origin, features=card.feature_types(features.example_features()), sizes=dmc_optim.split_bytes(directory)
    )
    (output / "README.md").write_text(header + card.dataset_card(origin, stages=[row.stage for row in rows]))
    return {
        "source": options.source,
        "sandbox": spent,
        "splits": counts,
        "stages": [dataclasses.asdict(row) for row in rows],
    }


def parse_options(arguments: Sequence[str]) -> tuple[BuildOptions, list[str]]:
    """Our options, checked, and the arguments that are Beam's."""
    parser = ArgumentParser(prog="build_dataset", description="Builds DMC-Optim from raw problems.", allow_abbrev=False)
    for field in dataclasses.fields(BuildOptions):
        meaning = field.metadata["meaning"].replace("%", "%%")
        if field.type is bool:
            switch = argparse.BooleanOptionalAction
            parser.add_argument(f"--{field.name}", action=switch, default=field.default, help=meaning)
        else:
            parser.add_argument(f"--{field.name}", type=field.type, default=field.default, help=meaning)
    known, rest = parser.parse_known_args(arguments)
    values = vars(known)
    if values["source"] == "mini":
        values |= {name: value for name, value in MINI_DEFAULTS.items() if not _is_given(name, arguments)}
    options = freeze(BuildOptions, values, path="--")
    require(options.source in pipeline.SOURCES, "--source", options.source, f"one of {', '.join(pipeline.SOURCES)}")
    require(bool(options.output), "--output", options.output, "a directory for the dataset")
    beam_options(rest)
    return options, rest


def is_complete(output: pathlib.Path, options: BuildOptions) -> bool:
    """True where the same build already ended there; raises UserError where another one did."""
    if not (output / COMPLETE).exists():
        return False
    before = json.loads((output / "options.json").read_text())
    now = dataclasses.asdict(options)
    changed = sorted(name for name in now if name not in FREE_OPTIONS and before.get(name) != now[name])
    require(not changed, "--output", options.output, f"a new directory: this dataset has other {', '.join(changed)}")
    return True


def run_pipeline(options: BuildOptions, beam_arguments: Sequence[str], *, work: epath.Path) -> list[str]:
    """Runs the pipeline into an empty `work` and returns the names of its stages, in order."""
    work.rmtree(missing_ok=True)
    store = str((pathlib.Path(options.output) / STORE).resolve()) if options.sandbox_address == "local" else ""
    sandbox = pipeline.sandbox_connection(options, store=store)
    source = pipeline.SOURCES[options.source](options)
    steps = pipeline.pipeline_stages(options, sandbox)
    try:
        if any(step.needs_sandbox for step in steps):
            _require_sandbox(sandbox)
        root = beam.Pipeline(runner=beam_runner(beam_arguments), options=beam_options(beam_arguments))
        pipeline.assemble_pipeline(root, source, steps=steps, directory=work)
        root.run().wait_until_finish()
    except RuntimeError as error:
        # Beam turns whatever a step raises, an interrupt included, into a RuntimeError that begins with its name.
        if str(error).startswith("KeyboardInterrupt"):
            raise KeyboardInterrupt from None
        raise
    finally:
        sandbox_session.release_all_sessions()
    return ["read", *(step.label for step in steps)]


def _require_sandbox(sandbox: sandbox_session.Connection) -> None:
    """Raises UserError where no sandbox answers, before any stage needs one."""
    try:
        sandbox_session.acquire_session(sandbox)
    except (OSError, ValueError) as error:
        raise UserError(f"--sandbox_address = {sandbox.address!r}: expected a sandbox that answers ({error})") from None
    sandbox_session.release_session(sandbox)


def beam_runner(beam_arguments: Sequence[str]) -> str | PipelineRunner | None:
    """The runner to use: DirectRunner means the in-memory one, DaskRunner ours; others are left to Beam.

    Beam's own DirectRunner first looks for Prism, which it would have to download.
    """
    chosen = beam_options(beam_arguments).view_as(beam.options.pipeline_options.StandardOptions).runner
    if chosen == "DaskRunner":
        # Dask is an extra of its own, and nothing else here needs it.
        try:
            from beam_pipelines.runners.dask_runner import DaskRunner
        except ModuleNotFoundError:
            raise UserError("--runner = 'DaskRunner': expected `pip install 'optimrl-jax[dask]'`") from None
        return DaskRunner()
    return "FnApiRunner" if chosen in (None, "DirectRunner") else None


def decide_splits(options: BuildOptions, kept: Sequence[Problem]) -> dict[str, str]:
    """The split of every problem that was kept; duplicates among the filterable ones stay together."""
    groups = similarity.near_duplicate_groups(
        {problem.id: problem.statement for problem in kept}, similar=options.similar
    )
    members = [
        split.SplitCandidate(problem.id, problem.category, problem.group or groups.get(problem.id, ""))
        for problem in kept
        if problem.split == filterability.FILTERABLE
    ]
    splits = {
        problem.id: problem.split if problem.split == tests_only.EVALUATION else filterability.NON_FILTERABLE
        for problem in kept
    }
    return splits | split.assign_splits(members, test_share=options.test_share, seed=options.seed)


def _without_bulk(problem: Problem) -> Problem:
    """What the end of a build needs of a problem; the texts and timings of a whole corpus would not fit into memory."""
    return dataclasses.replace(problem, tests=(), solutions=(), timings=None, generators=())


def _write_traces(path: pathlib.Path, records: Sequence[Problem | Rejection], *, splits: dict[str, str]) -> None:
    """One line a problem: what every stage left of it, and its split or the reason why it went."""
    with path.open("w") as lines:
        for record in records:
            trace = [dataclasses.asdict(step) for step in record.trace]
            if isinstance(record, Problem):
                line = {"id": record.id, "split": splits[record.id], "trace": trace}
            else:
                line = {"id": record.problem_id, "rejected_by": record.stage, "reason": record.reason}
                line |= {"detail": record.detail, "trace": trace}
            lines.write(json.dumps(line) + "\n")


def _made(output: pathlib.Path) -> pathlib.Path:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--output = {str(output)!r}: expected a directory ({error.strerror})") from None
    return output


def _is_given(flag: str, arguments: Sequence[str]) -> bool:
    return any(argument == f"--{flag}" or argument.startswith(f"--{flag}=") for argument in arguments)


if __name__ == "__main__":
    sys.exit(run_command(main, name="build_dataset"))
