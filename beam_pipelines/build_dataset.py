"""Edge: `python -m beam_pipelines.build_dataset`: raw problems -> DMC-Optim (ArrayRecord through TFDS).

Runs the pipeline, decides the split, writes the dataset, the manifest, the summary and, last of all, the completion
marker. Options that are not ours go to Apache Beam. A build that was stopped is started again with the same command:
records that are finished, stages that were long and executions that are stored are not repeated.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from etils import epath

from beam_pipelines import pipeline, sandbox_session, similarity, storage
from beam_pipelines.commands import beam_options
from beam_pipelines.dmc_optim import dmc_optim_dataset_builder as dmc_optim
from beam_pipelines.dmc_optim import features
from beam_pipelines.dmc_optim import splits as split_rules
from beam_pipelines.options import FREE_OPTIONS, LOCAL_ADDRESS, BuildOptions, sandbox_address
from beam_pipelines.records import Problem, Rejection
from beam_pipelines.remote_files import reachable_path
from beam_pipelines.report import card, console, costs, manifest, stage_table, survival, trace_files
from beam_pipelines.report.trace_files import REVIEWS, TRACES
from beam_pipelines.runners import beam_runs, host_check, outputs, progress
from beam_pipelines.sources.own_checkers import accepts_any_answer
from beam_pipelines.stages import filterability, tests_only
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.command_line import ArgumentParser, run_command
from optimrl_jax.jobs.errors import require
from optimrl_jax.jobs.files import write_json

COMPLETE = "COMPLETE"
# A large source is looked at for so long, seconds, before a build begins.
SURVIVAL_PATIENCE_S = 20.0
UNTIL = "until"
# The embedded corpus is small, and its statements differ in a few words on purpose: only equal ones are duplicates.
MINI_DEFAULTS = {"calls": 3, "similar": 1.0}


def main(arguments: Sequence[str]) -> None:
    """Run the whole build.

    Args:
      arguments: what follows the program's name on the command line.

    Raises:
      UserError: the caller can mend what is wrong: an option, an input, a sandbox that does not answer, or a source of
        which no problem survives.
    """
    options, beam_arguments = parse_options(arguments)
    for field in ("input", "work", "generators", "checkers", "testlib", "evaluation_sets"):
        for name in getattr(options, field).split(","):
            reachable_path(name, f"--{field}")
    with outputs.open_output(options.output) as output:
        inputs = manifest.hash_inputs(options)
        if is_complete(output.target, options, inputs=inputs):
            print(f"{options.output}: this dataset is already complete", file=sys.stderr)
            return
        build(options, beam_arguments, inputs=inputs, output=output)


def build(
    options: BuildOptions,
    beam_arguments: Sequence[str],
    *,
    inputs: Mapping[str, str],
    output: outputs.OutputDirectory,
) -> None:
    """Build the dataset in an output directory whose lock the caller holds.

    With `until`, the records are moved to `OUTPUT/until/STAGE` and no dataset is written.

    Args:
      options: what to build.
      beam_arguments: flags of Apache Beam.
      inputs: SHA-256 of every input file by name, as `manifest.hash_inputs` returns it.
      output: where to write.

    Raises:
      UserError: no problem survived all stages; traces and summary are written all the same.
      RuntimeError: the runner lost records.
    """
    start = time.monotonic()
    load = host_check.host_load() if options.tests_only else host_check.warn_of_load()
    work = (epath.Path(options.work) if options.work else output.work) / manifest.identity_of(options, inputs)
    beam_runs.require_job_done(work, options)
    write_json(output.local / "options.json", dataclasses.asdict(options))
    sandbox = pipeline.sandbox_connection(options, store=output.store, checkpoints=str(work / pipeline.CHECKPOINTS))
    with sandbox_session.all_sessions_closed():
        stages, expected_records = run_pipeline(options, beam_arguments, work=work, sandbox=sandbox)
        drift, again = _time_again(options, work, sandbox)
    if options.detach:
        beam_runs.mark_detached(work, expected_records)
        print("the job is the runner's now: once it is done, the same command without --detach makes the dataset")
        return
    storage.reject_repeated(work / pipeline.RECORDS)
    records = [_without_bulk(record) for record in storage.read_records(work / pipeline.RECORDS)]
    require_all(records, expected_records)
    kept = [record for record in records if isinstance(record, Problem)]
    rows = _print_stages(options, records, stages)
    if options.until:
        stopped = storage.move_records(work / pipeline.RECORDS, output.target / UNTIL / options.until)
        print(f"stopped after {options.until}: {len(kept)} problems in {stopped}")
        return
    splits = decide_splits(options, kept)
    about = {}
    if kept:
        about = finish_dataset(
            options, records, splits=splits, work=work, inputs=inputs, host=load | drift, output=output
        )
    spent = costs.add_spent(costs.total_spent(record.trace for record in records), dataclasses.asdict(again))
    wall_s = round(time.monotonic() - start, 3)
    summary = {"wall_s": wall_s, "stages": [dataclasses.asdict(row) for row in rows], "sandbox": spent, **about}
    write_records_of_build(output, records, splits=splits, summary=summary)
    require(
        bool(kept), "--input", options.input, f"at least one problem that survives all stages, found none ({TRACES})"
    )
    # In a directory that was named, builds of other options may have records of their own.
    (work if options.work else work.parent).rmtree()
    (output.target / COMPLETE).write_text("complete\n")
    _print_end(output.target, splits=splits, gone=len(records) - len(kept), wall_s=wall_s, waited_s=spent["waited_s"])


def _print_end(target: epath.Path, *, splits: Mapping[str, str], gone: int, wall_s: float, waited_s: float) -> None:
    """Say what was built, how long that took, and where the records are told of that are not in it."""
    sizes = ", ".join(f"{name} {count}" for name, count in Counter(splits.values()).items())
    print(f"dataset: {sizes}; {wall_s:.1f} s, of which {waited_s:.1f} s in the sandbox")
    if gone:
        print(f"where {gone} other records went, and why: {target / TRACES}")


def write_records_of_build(
    output: outputs.OutputDirectory,
    records: Sequence[Problem | Rejection],
    *,
    splits: Mapping[str, str],
    summary: Mapping[str, object],
) -> None:
    """Write traces, reviews and summary, and publish everything that was written.

    Args:
      output: where to write.
      records: all records without their bulk.
      splits: problem id -> split.
      summary: what `summary.json` says.
    """
    trace_files.write_traces(output.local / TRACES, records, splits=splits)
    trace_files.write_reviews(output.local / REVIEWS, records)
    write_json(output.local / "summary.json", summary)
    output.publish()


def finish_dataset(
    options: BuildOptions,
    records: Sequence[Problem | Rejection],
    *,
    splits: Mapping[str, str],
    work: epath.Path,
    inputs: Mapping[str, str],
    host: Mapping[str, float],
    output: outputs.OutputDirectory,
) -> dict[str, object]:
    """Write the dataset, its manifest and its card.

    Args:
      options, inputs: as for `build`.
      records, splits: all records without their bulk, at least one a problem; problem id -> split.
      work: directory above that of the complete records.
      host: its load before the build, and the drift of durations until the end.
      output: where to write.

    Returns:
      The summary's entries about the dataset.
    """
    kept = [record for record in records if isinstance(record, Problem)]
    about = dmc_optim.AboutDataset(options.name, options.version, card.license_of(options), options.homepage)
    records_directory = work / pipeline.RECORDS
    pools = split_rules.training_pools(splits, size=options.pool_size, seed=options.seed) if options.pool_size else {}
    directory = dmc_optim.prepare_dataset(
        output.local,
        records_directory=records_directory,
        splits=splits,
        about=about,
        pools=pools,
        is_light=options.variant == "light",
    )
    cost = _measure_cost(options, records, dataset=directory, store_bytes=output.store_bytes)
    counts = dict(sorted(Counter(splits.values()).items()))
    origin = manifest.build_manifest(
        options,
        splits=counts,
        measured_under=[dict(state) for state in dict.fromkeys(problem.measured_under for problem in kept)],
        cost=cost,
        inputs=inputs,
        host=host,
    )
    write_json(output.local / "manifest.json", origin)
    header = card.hub_header(
        origin, features=card.feature_types(features.example_features()), sizes=dmc_optim.split_bytes(directory)
    )
    (output.local / "README.md").write_text(
        header + card.dataset_card(origin, stages=[step.stage for step in kept[0].trace])
    )
    return {"source": options.source, "splits": counts, **_doubts(kept), "host": dict(host)}


def _time_again(
    options: BuildOptions, work: epath.Path, sandbox: sandbox_session.Connection
) -> tuple[dict[str, float], sandbox_session.Spent]:
    """Time a sample of what is finished again, while the workers are there; nothing where nothing was timed."""
    if options.tests_only or options.until or options.detach:
        return {}, sandbox_session.Spent()
    return host_check.time_again(storage.read_problems(work / pipeline.RECORDS), sandbox)


def _doubts(kept: Sequence[Problem]) -> dict[str, list[str]]:
    """Name the problems that a person should look at."""
    undecided = [problem.id for problem in kept if _note(problem, filterability.NAME, "undecided")]
    doubtful = [one.id for one in kept if not one.is_judged_by_program and accepts_any_answer(one.statement)]
    return {"undecided_filterability": undecided, "may_need_checker": doubtful}


def _print_stages(
    options: BuildOptions, records: Sequence[Problem | Rejection], stages: Sequence[str]
) -> list[stage_table.StageRow]:
    """Print what each stage kept and which records could not be read, and return the table's rows."""
    rejected = [record for record in records if isinstance(record, Rejection)]
    rows = stage_table.stage_rows(stages, rejected, kept=len(records) - len(rejected))
    console.print_stage_table(rows, has_paper=options.source == stage_table.PAPER_SOURCE)
    console.print_rejected_records([one for one in rejected if one.stage == "read"])
    return rows


def _measure_cost(
    options: BuildOptions, records: Sequence[Problem | Rejection], *, dataset: pathlib.Path, store_bytes: int | None
) -> costs.BuildCost:
    return costs.measure_cost(
        costs.total_spent(record.trace for record in records),
        problems=len(records),
        workers=options.sandbox_workers,
        dataset_bytes=dmc_optim.dataset_bytes(dataset),
        store_bytes=store_bytes,
    )


def parse_options(arguments: Sequence[str]) -> tuple[BuildOptions, list[str]]:
    """Separate this job's options from Beam's and check both.

    Args:
      arguments: what follows the program's name on the command line.

    Returns:
      The checked options, and the arguments that belong to Beam.

    Raises:
      UserError: an option is unknown or out of range, or programs of others would run without containment.
    """
    parser = ArgumentParser(prog="build_dataset", description="Builds DMC-Optim from raw problems.", allow_abbrev=False)
    for field in dataclasses.fields(BuildOptions):
        meaning = field.metadata["meaning"].replace("%", "%%")
        flag = f"--{field.name}"
        if field.type is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default, help=meaning)
        else:
            parser.add_argument(flag, type=field.type, default=field.default, help=meaning)
    known, rest = parser.parse_known_args(arguments)
    values = vars(known)
    if values["source"] == "mini":
        values |= {name: value for name, value in MINI_DEFAULTS.items() if not _is_given(name, arguments)}
    options = freeze(BuildOptions, values, path="--")
    require(options.source in pipeline.SOURCES, "--source", options.source, f"one of {', '.join(pipeline.SOURCES)}")
    require(bool(options.output), "--output", options.output, "a directory for the dataset")
    is_contained = options.source == "mini" or options.trust_programs or sandbox_address(options) != LOCAL_ADDRESS
    expected = "docker or a service for programs of others; --trust_programs runs them on this host without containment"
    require(is_contained, "--sandbox_address", options.sandbox_address, expected)
    beam_options(rest)
    return options, rest


def is_complete(output: epath.Path, options: BuildOptions, *, inputs: Mapping[str, str]) -> bool:
    """Tell whether the same build of the same inputs has already finished in this directory.

    Options that change only where and how fast a dataset is built (FREE_OPTIONS) may differ.

    Args:
      output: directory of the dataset.
      options: of the build that is asked for.
      inputs: SHA-256 of every input file by name.

    Raises:
      UserError: a build with other options or other input files finished there.
    """
    if not (output / COMPLETE).exists():
        return False
    before = json.loads((output / "options.json").read_text())
    now = dataclasses.asdict(options)
    changed = sorted(name for name in now if name not in FREE_OPTIONS and before.get(name) != now[name])
    require(not changed, "--output", options.output, f"a new directory: this dataset has other {', '.join(changed)}")
    hashes = json.loads((output / "manifest.json").read_text()).get("inputs", {})
    others = sorted(set(inputs.items()) ^ set(hashes.items()))
    require(not others, "--output", options.output, "a new directory: this dataset was built from other input files")
    return True


def run_pipeline(
    options: BuildOptions, beam_arguments: Sequence[str], *, work: epath.Path, sandbox: sandbox_session.Connection
) -> tuple[list[str], int]:
    """Run the pipeline and leave its records in `work`.

    Args:
      options: of the build.
      beam_arguments: flags of Apache Beam.
      work: directory of records and checkpoints; records that an earlier run left there are not made again.
      sandbox: how to reach it.

    Returns:
      The names of the stages in order, "read" first, and the number of records that the source holds.

    Raises:
      UserError: the source, the sandbox or the runner cannot be used, or the runner stopped early.
    """
    source = pipeline.SOURCES[options.source](options)
    steps = pipeline.pipeline_stages(options, sandbox)
    if any(step.needs_sandbox for step in steps):
        beam_runs.require_sandbox(sandbox, beam_arguments)
    if options.source != "mini":
        look = survival.tabulate_survival(source.records(), options, patience_s=SURVIVAL_PATIENCE_S)
        console.print_survival(look)
    progress.PROGRESS.expect(source.expected_records, last_stage=steps[-1].label)
    source = source.resumed_from(str(work / pipeline.RECORDS))
    try:
        beam_runs.run_to_end(
            lambda root: pipeline.assemble_pipeline(root, source, steps=steps, directory=work),
            beam_arguments,
            is_detached=options.detach,
        )
    finally:
        progress.PROGRESS.close()
    return ["read", *(step.label for step in steps)], source.expected_records


def require_all(records: Sequence[Problem | Rejection], expected: int) -> None:
    """Raise RuntimeError unless kept and rejected records add up to what the source holds."""
    if len(records) != expected:
        raise RuntimeError(f"the source has {expected} records, {len(records)} were kept or rejected: some were lost")


def decide_splits(options: BuildOptions, kept: Sequence[Problem]) -> dict[str, str]:
    """Decide the split of every problem that was kept.

    Filterable problems are divided into rl_train and rl_test, near-duplicates together; the others go to non_filterable
    or, in a build of tests alone, to evaluation.

    Args:
      options: `similar`, `test_share` and `seed` decide.
      kept: problems that survived all stages.

    Returns:
      Problem id -> split.
    """
    groups = similarity.near_duplicate_groups(
        {problem.id: problem.statement for problem in kept}, similar=options.similar
    )
    members = [
        split_rules.SplitCandidate(problem.id, problem.category, problem.group or groups.get(problem.id, ""))
        for problem in kept
        if problem.split == filterability.FILTERABLE
    ]
    splits = {
        problem.id: problem.split if problem.split == tests_only.EVALUATION else filterability.NON_FILTERABLE
        for problem in kept
    }
    return splits | split_rules.assign_splits(members, test_share=options.test_share, seed=options.seed)


def _without_bulk(record: Problem | Rejection) -> Problem | Rejection:
    """Strip a record of its texts and timings, which for a whole corpus would not fit into memory."""
    if isinstance(record, Rejection):
        return record
    return dataclasses.replace(record, tests=(), solutions=(), timings=None, generators=())


def _note(problem: Problem, stage: str, name: str) -> float:
    """Return what a stage noted under a name; 0 where it noted nothing."""
    return next((dict(step.notes).get(name, 0.0) for step in problem.trace if step.stage == stage), 0.0)


def _is_given(flag: str, arguments: Sequence[str]) -> bool:
    return any(argument == f"--{flag}" or argument.startswith(f"--{flag}=") for argument in arguments)


if __name__ == "__main__":
    sys.exit(run_command(main, name="build_dataset"))
