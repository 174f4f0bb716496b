"""The stage table of the paper as one Beam pipeline: problems in, files with problems and rejections out.

Runs on any Beam runner. Everything that needs the whole corpus at once (the split, the final table) happens after it,
from the files it leaves.
"""

import typing
from collections.abc import Callable, Sequence

import apache_beam as beam
from etils import epath

from beam_pipelines import storage
from beam_pipelines.generators import voting
from beam_pipelines.options import BuildOptions, sandbox_address
from beam_pipelines.records import KEPT, REJECTED
from beam_pipelines.runners.beam_runs import RECORDS
from beam_pipelines.sandbox_session import Connection
from beam_pipelines.sources import (
    apps,
    code_contests,
    code_contests_plus,
    codeforces,
    evaluation_sets,
    jsonl,
    live_code_bench,
)
from beam_pipelines.sources.mini import embedded
from beam_pipelines.sources.packages import icpc, polygon
from beam_pipelines.sources.reading import COMPARE, ReadSource
from beam_pipelines.stages import (
    classify,
    deduplicate,
    filter_tests,
    filterability,
    generate,
    labels,
    non_empty,
    tests_only,
    thresholds,
    timing,
)
from beam_pipelines.stages import validate as validation
from beam_pipelines.stages.stage import Stage
from optimrl_jax.jobs.errors import require

Source = Callable[[BuildOptions], ReadSource]

SOURCES: dict[str, Source] = {
    "mini": embedded.read_embedded,
    "code_contests": code_contests.read_code_contests,
    "code_contests_plus": code_contests_plus.read_code_contests_plus,
    "taco": apps.read_taco,
    "apps": apps.read_apps,
    "live_code_bench": live_code_bench.read_live_code_bench,
    "codeforces": codeforces.read_codeforces,
    "jsonl": jsonl.read_jsonl,
    "packages": icpc.read_packages,
    "polygon": polygon.read_polygon,
}
CHECKPOINTS = "checkpoints"


def sandbox_connection(options: BuildOptions, *, store: str = "", checkpoints: str = "") -> Connection:
    """Describe the sandbox that the options ask for.

    Args:
      options: address, workers and limits of a run.
      store: file of stored executions; empty for none.
      checkpoints: directory in which stages keep slow results; empty for none.
    """
    return Connection(
        address=sandbox_address(options),
        workers=options.sandbox_workers,
        store=store,
        limit_s=options.limit_s,
        memory_bytes=options.memory_mib << 20,
        checkpoints=checkpoints,
    )


def pipeline_stages(options: BuildOptions, sandbox: Connection) -> list[Stage]:
    """Return the stages in the order in which a problem passes them, up to the one that `until` names.

    Args:
      options: of the build.
      sandbox: where the stages that run programs run them.

    Raises:
      UserError: no stage has that name, or an evaluation set cannot be read.
    """
    steps = _all_stages(options, sandbox)
    names = [step.label for step in steps]
    require(options.until in ("", *names), "--until", options.until, f"one of {', '.join(names)}")
    return steps[: names.index(options.until) + 1] if options.until else steps


def _all_stages(options: BuildOptions, sandbox: Connection) -> list[Stage]:
    held_out = deduplicate.evaluation_set(evaluation_sets.read_evaluation_sets(options.evaluation_sets))
    steps = [deduplicate.deduplicate_stage(held_out, similar=options.similar)]
    if options.tests_only:
        return [*steps, tests_only.tests_only_stage(max_original_tests=options.max_original_tests)]
    steps += [
        labels.labels_stage(
            max_solutions=options.max_solutions,
            max_original_tests=options.max_original_tests,
            min_incorrect=options.min_incorrect,
            seed=options.seed,
        ),
        validation.validate_stage(
            sandbox,
            min_correct=voting.MIN_AGREEING,
            min_incorrect=options.min_incorrect,
            # Where outputs are to be compared all the same, nobody asks whether they can be.
            max_disagreement=1.0 if options.special_judges == COMPARE else options.max_correct_drop,
        ),
    ]
    for filters in thresholds.with_gates(options):
        campaign = generate.GenerationCampaign(
            thresholds=filters,
            calls=options.calls,
            attempts=options.attempts,
            verifiers=options.verifiers,
            seed=options.seed,
        )
        steps += [
            generate.generate_stage(sandbox, campaign),
            filter_tests.filter_tests_stage(filters),
            classify.classify_stage(filters),
        ]
    return [
        *steps,
        non_empty.non_empty_stage(),
        # Durations first: the split is decided on what is stored, not on the first noisy execution of each pair.
        timing.timing_stage(sandbox, repeats=options.repeats, cap_s=options.limit_s, seed=options.seed),
        filterability.filterability_stage(min_robust_cv=options.min_robust_cv, seed=options.seed),
    ]


def assemble_pipeline(
    root: beam.Pipeline, source: beam.PTransform, *, steps: Sequence[Stage], directory: epath.Path
) -> None:
    """Add source, stages and sinks to a pipeline.

    Args:
      root: an empty Beam pipeline.
      source: gives problems, and rejections under the tag `rejected`.
      steps: the stages, in order.
      directory: problems and rejections end in its subdirectory `records`, one file each.
    """
    outcome: typing.Any = root | source
    problems, rejected = outcome[KEPT], [outcome[REJECTED]]
    for step in steps:
        outcome = problems | step
        problems = outcome[KEPT]
        rejected.append(outcome[REJECTED])
    problems | storage.WriteRecords(str(directory / RECORDS), label="write problems")
    rejected | beam.Flatten() | storage.WriteRecords(str(directory / RECORDS), label="write rejections")
