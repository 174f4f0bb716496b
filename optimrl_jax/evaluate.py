"""Edge: the evaluation job. Samples each policy on held-out problems, times everything in one shuffled pass, replays.

`python -m optimrl_jax.evaluate --config=configs/quickstart.py --workdir=runs/quickstart`. The policies are those of
`evaluation.policies`; where it is empty, that of the run in the workdir and the one it started from. What is stored in
`evaluation/` is all that `python -m optimrl_jax.analyze --records=WORKDIR/evaluation --output=D` needs.
"""

import dataclasses
import json
import logging
import pathlib
import sys
import time
import typing

from optimrl_jax.arrays import Outcome
from optimrl_jax.evaluation import leaderboards, plots, policies, replay, scores
from optimrl_jax.evaluation.collect import collect_evaluation
from optimrl_jax.evaluation.held_out.problems import check_scores, load_held_out, with_known_taus
from optimrl_jax.jobs import files
from optimrl_jax.jobs.checked_fields import thaw
from optimrl_jax.jobs.command_line import Job, run_job
from optimrl_jax.jobs.locks import locked_directory
from optimrl_jax.settings import Settings
from optimrl_jax.training import checkpoints

_LOG = logging.getLogger(__name__)


def main(job: Job) -> None:
    """Evaluate every policy and write records, table, plots and `summary.json`."""
    settings = with_default_policies(job.settings, job.workdir)
    policies.check_names(settings.evaluation.policies)
    check_scores(settings)
    output = job.workdir / "evaluation"
    output.mkdir(parents=True, exist_ok=True)
    with locked_directory(output, field="--workdir"):
        _evaluate(job, settings, output)


def _evaluate(job: Job, settings: Settings, output: pathlib.Path) -> None:
    started_s = time.monotonic()
    problems = load_held_out(settings)
    evaluation = collect_evaluation(settings, problems, output)
    times, drift = replay.reference_times(evaluation, settings)
    outcomes = replay.replay_policies(evaluation, times, ties=settings.environment.ties)
    settings = with_known_taus(settings, evaluation.problems)
    results, paired = _scores(settings, outcomes)
    plots.print_table(plots.pass_table(results, paired, title=f"{len(problems)} held-out problems"))
    _plot(settings, output, results, problems=len(problems))
    _summarize(job, settings, results, paired, drift=drift, outcomes=outcomes, wall_s=time.monotonic() - started_s)


def with_default_policies(settings: Settings, workdir: pathlib.Path) -> Settings:
    """Fill in empty `evaluation.policies`: the policy in the workdir, and the one that its run started from."""
    if settings.evaluation.policies:
        return settings
    found = [("start", settings.grpo.init_from)] if settings.grpo.init_from else []
    if (workdir / checkpoints.FOLDER).is_dir():
        found.append(("trained", str(workdir)))
    return dataclasses.replace(settings, evaluation=dataclasses.replace(settings.evaluation, policies=tuple(found)))


def _scores(settings: Settings, outcomes: dict[str, Outcome]) -> tuple[dict, dict]:
    options: dict[str, typing.Any] = {
        "ks": settings.evaluation.ks,
        "taus": settings.evaluation.taus,
        "resamples": settings.evaluation.resamples,
        "seed": settings.seed,
    }
    results = {name: scores.pass_scores(outcome, **options) for name, outcome in outcomes.items()}
    base, *others = outcomes
    paired = {f"{name} - {base}": scores.paired_gains(outcomes[base], outcomes[name], **options) for name in others}
    return results, paired


def _plot(settings: Settings, output: pathlib.Path, results: dict, *, problems: int) -> None:
    for k in settings.evaluation.ks:
        plots.pass_bars(output / f"pass_at_{k}.png", results, k=k, problems=problems)
    for name, source in settings.evaluation.policies:
        metrics = pathlib.Path(policies.split_source(source)[0]) / "metrics.jsonl"
        if metrics.exists():
            target = output / f"learning_curve_{name}.png"
            plots.learning_curve(target, metrics)


def _summarize(
    job: Job,
    settings: Settings,
    results: dict,
    paired: dict,
    *,
    drift: leaderboards.DriftFit,
    outcomes: dict[str, Outcome],
    wall_s: float,
) -> None:
    summary: dict[str, object] = {}
    for k in settings.evaluation.ks:
        means, intervals = scores.mean_and_interval(results, k=k)
        summary[f"pass@{k}"] = means
        summary["interval" if k == 1 else f"interval@{k}"] = intervals
    stages = {"dataset": settings.data.directory, **dict(settings.evaluation.policies)}
    summary["gain"] = paired
    figures = {name: getattr(drift, name) for name in ("spearman", "relative_rmse", "pairs")}
    summary["drift"] = {"alpha": drift.map.slope, "beta_s": drift.map.offset_s} | figures
    summary["faulted_samples"] = {name: int((~outcome.is_valid).sum()) for name, outcome in outcomes.items()}
    summary["wall_s"] = {name: _wall_s(path) for name, path in stages.items()} | {"evaluation": wall_s}
    summary["settings"] = thaw(settings)
    path = job.workdir / "summary.json"
    files.write_json(path, summary)
    _LOG.info("summary: %s", path)


def _wall_s(source: str) -> float | None:
    """Read the seconds that a finished job took from its own summary; None where it has none."""
    path = pathlib.Path(policies.split_source(source)[0]) / "summary.json"
    return json.loads(path.read_text()).get("wall_s") if path.exists() else None


if __name__ == "__main__":
    sys.exit(run_job(main))
