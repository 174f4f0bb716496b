"""Edge: the evaluation job. Samples each policy on held-out problems, times everything in one shuffled pass, replays.

`python -m optimrl_jax.evaluate --config=configs/quickstart.py --workdir=runs/quickstart`
"""

import hashlib
import json
import logging
import pathlib
import sys
import time
from collections.abc import Sequence

import numpy as np

from optimrl_jax import arrays, environment
from optimrl_jax.data import dataset
from optimrl_jax.errors import UserError
from optimrl_jax.evaluation import leaderboards, plots, records, replay, scores, tables
from optimrl_jax.jobs import files
from optimrl_jax.jobs.checked_fields import thaw
from optimrl_jax.jobs.command_line import Job, run_job
from optimrl_jax.rollout import actor, execution
from optimrl_jax.settings import Settings
from optimrl_jax.training import checkpoints

_LOG = logging.getLogger(__name__)
ALL_KINDS = frozenset(arrays.TestKind)
CURVE_SERIES = {"reward": "mean reward", "correct_share": "correct", "fast_share": "correct and fast"}
CURVE_WINDOW = 9


def main(job: Job) -> None:
    """Evaluates every policy of `evaluation.policies` and writes records, table, plots and `summary.json`."""
    started_s = time.monotonic()
    settings = job.settings
    problems = dataset.load_records(settings.data.directory, settings.data.test_split)
    problems = problems[: settings.evaluation.problems or None]
    output = job.workdir / "evaluation"
    output.mkdir(parents=True, exist_ok=True)
    samples = _samples(settings, problems, output, store=str(job.workdir / "executions.sqlite"))
    boards, drift = _leaderboards(settings, problems, samples)
    replayed = {
        name: _replay(settings, problems, [s for s in samples if s.policy == name], boards)
        for name, _ in settings.evaluation.policies
    }
    results, paired = _scores(settings, replayed)
    tables.print_table(tables.pass_table(results, paired, title=f"{len(problems)} held-out problems"))
    _plot(settings, output, results)
    _summarize(job, results, paired, drift=drift, replayed=replayed, wall_s=time.monotonic() - started_s)


def _samples(
    settings: Settings, problems: Sequence[dataset.ProblemRecord], output: pathlib.Path, *, store: str
) -> list[records.SampleRecord]:
    """Stored samples where they answer the same question; otherwise generates, times and stores them."""
    path = output / "records.parquet"
    key = _key(settings, problems)
    if records.stored_key(path) == key:
        _LOG.info("replaying the executions stored in %s", path)
        return records.read_records(path)
    attempts = [
        (name, index, sample, program)
        for name, programs in _programs(settings, problems).items()
        for index, of_problem in enumerate(programs)
        for sample, program in enumerate(of_problem)
    ]
    order = np.random.default_rng(settings.seed).permutation(len(attempts))
    shuffled = [attempts[position] for position in order]
    progress = execution.progress_printer("timing", len(shuffled))
    with execution.connect_sandbox(settings.sandbox, store=store) as client:
        executor = execution.Executor(client, settings.sandbox)
        pairs = [(problems[index], program) for _, index, _, program in shuffled]
        runs = executor.execute(pairs, kinds=ALL_KINDS, on_result=progress)
    samples = [
        records.SampleRecord(name, problems[index].id, sample, program, run.status, run.duration_s)
        for (name, index, sample, program), run in zip(shuffled, runs, strict=True)
    ]
    samples.sort(key=lambda s: (s.policy, s.problem_id, s.sample))
    records.write_records(path, samples, key=key)
    return samples


def _programs(settings: Settings, problems: Sequence[dataset.ProblemRecord]) -> dict[str, list[Sequence[str]]]:
    """Programs to time, by policy and problem: n samples of each policy, and the references themselves."""
    programs: dict[str, list[Sequence[str]]] = {records.REFERENCES: [record.reference_program for record in problems]}
    statements = [record.statement for record in problems]
    for name, workdir in settings.evaluation.policies:
        policy = checkpoints.load_policy(workdir, settings.compute)
        sampler = actor.Sampler(policy, settings.data, settings.grpo.temperature)
        _LOG.info("%s: sampling %d programs for each of %d problems", name, settings.evaluation.samples, len(problems))
        programs[name] = sampler.sample(statements, settings.evaluation.samples, seed=settings.seed)
    return programs


def _leaderboards(
    settings: Settings, problems: Sequence[dataset.ProblemRecord], samples: Sequence[records.SampleRecord]
) -> tuple[list[np.ndarray], leaderboards.DriftFit]:
    """Reference durations to rank against, one array for each problem, and how the timing pass stood to the store."""
    of_problem: dict[str, list[records.SampleRecord]] = {}
    for sample in samples:
        if sample.policy == records.REFERENCES:
            of_problem.setdefault(sample.problem_id, []).append(sample)
    fresh_s = []
    for record in problems:
        runs = sorted(of_problem[record.id], key=lambda s: s.sample)
        fresh_s.append(replay.fresh_durations(record, arrays.Execution.stack(runs)))
    drift = replay.drift_of(problems, fresh_s)
    choose = leaderboards.LEADERBOARDS[settings.evaluation.leaderboard]
    return [choose(r.duration_s, fresh, drift) for r, fresh in zip(problems, fresh_s, strict=True)], drift


def _replay(
    settings: Settings,
    problems: Sequence[dataset.ProblemRecord],
    samples: Sequence[records.SampleRecord],
    boards: Sequence[np.ndarray],
) -> replay.ReplayedSamples:
    index_of = {record.id: index for index, record in enumerate(problems)}
    rows: dict[int, list[records.SampleRecord]] = {}
    for sample in samples:
        rows.setdefault(index_of[sample.problem_id], []).append(sample)
    stacked = {index: arrays.Execution.stack(row) for index, row in rows.items()}
    env = environment.build("qp_ranked", threshold=settings.environment.threshold, ties=settings.environment.ties)
    return replay.replay(problems, stacked, env=env, reference_s=boards)


def _scores(settings: Settings, replayed: dict[str, replay.ReplayedSamples]) -> tuple[dict, dict]:
    options = {
        "ks": settings.evaluation.ks,
        "taus": settings.evaluation.taus,
        "resamples": settings.evaluation.resamples,
        "seed": settings.seed,
    }
    results = {name: scores.pass_scores(outcome, **options) for name, outcome in replayed.items()}
    base, *others = replayed
    paired = {f"{name} - {base}": scores.gains(replayed[base], replayed[name], **options) for name in others}
    return results, paired


def _plot(settings: Settings, output: pathlib.Path, results: dict) -> None:
    plots.pass_bars(output / "pass_at_1.png", results, k=settings.evaluation.ks[0])
    for name, workdir in settings.evaluation.policies:
        metrics = pathlib.Path(workdir) / "metrics.jsonl"
        if metrics.exists():
            target = output / f"learning_curve_{name}.png"
            plots.learning_curve(target, metrics, series=CURVE_SERIES, window=CURVE_WINDOW)


def _summarize(
    job: Job,
    results: dict,
    paired: dict,
    *,
    drift: leaderboards.DriftFit,
    replayed: dict[str, replay.ReplayedSamples],
    wall_s: float,
) -> None:
    settings = job.settings
    summary: dict[str, object] = {}
    for k in settings.evaluation.ks:
        means, intervals = scores.mean_and_interval(results, k=k)
        summary[f"pass@{k}"] = means
        summary["interval" if k == 1 else f"interval@{k}"] = intervals
    stages = {"dataset": settings.data.directory, **dict(settings.evaluation.policies)}
    summary["gain"] = paired
    summary["drift"] = {"alpha": drift.map.slope, "beta_s": drift.map.offset_s} | {
        name: getattr(drift, name) for name in ("spearman", "relative_rmse", "pairs")
    }
    summary["faulted_samples"] = {name: int((~outcome.is_valid).sum()) for name, outcome in replayed.items()}
    summary["wall_s"] = {name: _wall_s(pathlib.Path(path)) for name, path in stages.items()} | {"evaluation": wall_s}
    summary["settings"] = thaw(settings)
    path = job.workdir / "summary.json"
    files.write_json(path, summary)
    _LOG.info("summary: %s", path)


def _wall_s(directory: pathlib.Path) -> float | None:
    """What a finished job wrote into its own summary; None where it has none."""
    path = directory / "summary.json"
    return json.loads(path.read_text()).get("wall_s") if path.exists() else None


def _key(settings: Settings, problems: Sequence[dataset.ProblemRecord]) -> str:
    """Names the question that stored records answer: same policies at the same step, problems, samples and sandbox."""
    if not settings.evaluation.policies:
        raise UserError("evaluation.policies = (): expected at least one (name, workdir) pair")
    question = {
        "policies": [(name, checkpoints.fingerprint(workdir)) for name, workdir in settings.evaluation.policies],
        "problems": [record.id for record in problems],
        "samples": settings.evaluation.samples,
        "seed": settings.seed,
        "temperature": settings.grpo.temperature,
        "sandbox": thaw(settings.sandbox),
        **({"stop": settings.data.stop} if settings.data.stop else {}),
    }
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(run_job(main))
