"""Edge: the simulator job. Sweeps all 1,578 environments over stored or synthetic durations, without any training.

`python -m optimrl_jax.simulate --config=configs/simulator.py --workdir=runs/simulator`; the rows `uncertainty`,
`recorded` and `noise` of that file are the studies of uncertain seconds (`simulator.studies`).
"""

import dataclasses
import pathlib
import sys
import time
import typing

import numpy as np

from optimrl_jax.analysis.run_sections import read_metrics
from optimrl_jax.data import dataset
from optimrl_jax.environment import padding
from optimrl_jax.jobs import files
from optimrl_jax.jobs.checked_fields import thaw
from optimrl_jax.jobs.command_line import Job, run_job
from optimrl_jax.jobs.errors import UserError, require
from optimrl_jax.jobs.locks import locked_directory
from optimrl_jax.jobs.progress import JobProgress
from optimrl_jax.simulator import diagnostics, plots, report, studies
from optimrl_jax.simulator.configurations import configurations
from optimrl_jax.simulator.problems import Problems, stack_problems, synthetic
from optimrl_jax.simulator.schedule import pass_curves, sample_schedule, step_positions
from optimrl_jax.simulator.settings import ProblemSettings, SimulatorSettings
from optimrl_jax.simulator.sweep import sweep


@dataclasses.dataclass(frozen=True, eq=False)
class SweepResult:
    """A finished sweep of c configurations over a simulated run of n steps.

    Attributes:
      x: `[n]` positions of the steps in [0, 1].
      curves: `[c, n]` pass rates.
      columns: `[c]` diagnostics, `degenerate` and `rank`, by name.
    """

    x: np.ndarray
    curves: np.ndarray
    columns: dict[str, np.ndarray]


def main(job: Job) -> None:
    """Write the tables, figures and `summary.json` of the study that the settings name into the workdir."""
    settings = typing.cast(SimulatorSettings, job.settings)
    with locked_directory(job.workdir, field="--workdir"):
        STUDIES[settings.study](job.workdir, settings)


def sweep_environments(workdir: pathlib.Path, settings: SimulatorSettings) -> None:
    """Write `configurations.parquet`, plots and `summary.json` of all environments.

    Args:
      workdir: an existing directory.
      settings: problems, schedule, seed, and online scores.

    Raises:
      UserError: for settings that do not fit each other, and unreadable scores.
    """
    started_s = time.monotonic()
    score_file = pathlib.Path(settings.online_scores) if settings.online_scores else report.PAPER_SCORES
    labels, names, scores = report.read_scores(score_file, least_steps=settings.least_steps)
    online = _training_curves(settings)
    groups = load_problems(settings.problems, seed=settings.seed)
    result = simulate_runs(groups, settings)
    every = configurations()
    try:
        rows = diagnostics.configuration_rows(names, among=[one.name for one in every])
    except ValueError as error:
        raise UserError(f"{score_file}: {error}") from None
    found = {name: result.columns[name] for name in diagnostics.DIAGNOSTICS}
    matrix = diagnostics.correlate({name: values[rows] for name, values in found.items()}, scores)
    _write(workdir, result, settings, labels=dict(zip(labels, rows, strict=True)))
    if online:
        _draw_beside_training(workdir, result, online, window=settings.schedule.window)
    report.print_tables(
        report.family_table(every, result.columns),
        report.correlation_table(matrix, title=_correlation_title(settings, len(rows))),
    )
    _summarize(workdir, settings, result, matrix, groups=groups, wall_s=time.monotonic() - started_s)


def _correlation_title(settings: SimulatorSettings, runs: int) -> str:
    """Say what is correlated with what: scores that come from other problems say little about these diagnostics."""
    scores = settings.online_scores or "the paper's online runs, which trained on other problems"
    problems = f"{settings.problems.source} problems"
    return f"diagnostics of {problems} against {scores}; n = {runs}"


def load_problems(settings: ProblemSettings, *, seed: int) -> list[Problems]:
    """Load the problems to sweep over, grouped by padded shape.

    Args:
      settings: where they come from.
      seed: of synthetic ones.

    Raises:
      UserError: where a dataset has no problem with usable durations, or no synthetic problem is asked for.
    """
    if settings.source == "synthetic":
        if settings.problems == 0:
            raise UserError("problems.problems = 0: expected a positive number of synthetic problems")
        shape = {"tests": settings.tests, "references": settings.references}
        return [synthetic(problems=settings.problems, seed=seed, **shape)]
    records = dataset.load_records(settings.directory, settings.split, field="problems.split")
    ranked = [record for record in records[: settings.problems or None] if dataset.has_ranking(record)]
    if not ranked:
        raise UserError(f"{settings.directory}, split {settings.split!r}: expected a problem with usable durations")
    return stack_problems(ranked, shape_of=lambda record: padding.shape_of([record]))


def simulate_runs(groups: list[Problems], settings: SimulatorSettings) -> SweepResult:
    """Sweep all configurations and diagnose the curves of a simulated run.

    Args:
      groups: problems (`load_problems`).
      settings: schedule, calibration, seed, and what counts as degenerate.

    Raises:
      UserError: for a window longer than the run, or problems without candidates.
    """
    schedule = settings.schedule
    if schedule.window > schedule.steps:
        raise UserError(f"schedule.window = {schedule.window}: expected at most schedule.steps = {schedule.steps}")
    with JobProgress("problems swept", sum(len(group.status) for group in groups)) as progress:
        found = sweep(
            groups,
            alpha=settings.problems.alpha,
            beta_s=settings.problems.beta_s,
            on_batch=lambda done, _: progress.advance_to(done),
        )
    try:
        rows = sample_schedule(
            found,
            steps=schedule.steps,
            problems=schedule.problems,
            samples=schedule.samples,
            band=schedule.band,
            seed=settings.seed,
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    x, curves = step_positions(schedule.steps), pass_curves(found, rows)
    columns: dict[str, np.ndarray] = diagnostics.diagnose(curves, x, window=schedule.window)
    columns["degenerate"] = diagnostics.degeneracy(columns, **thaw(settings.degenerate))
    columns["rank"] = diagnostics.rank_configurations(columns, columns["degenerate"])
    return SweepResult(x, curves, columns)


def _write(workdir: pathlib.Path, result: SweepResult, settings: SimulatorSettings, *, labels: dict[str, int]) -> None:
    every = configurations()
    report.write_table(workdir / "configurations.parquet", every, result.columns, result.curves)
    curves = {label: result.curves[row] for label, row in labels.items()}
    figures = {
        "landscape": plots.landscape(every, result.columns),
        "curves": plots.curve_panels(curves, x=result.x, window=settings.schedule.window),
        **{f"heatmap_{family}": figure for family, figure in plots.heatmaps(every, result.columns).items()},
    }
    for name, figure in figures.items():
        figure.savefig(workdir / f"{name}.png", dpi=130)


def _training_curves(settings: SimulatorSettings) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Read (steps, shares of rollouts that pass) of each training run by the name of its environment."""
    known = {one.name for one in configurations()}
    found = {}
    for name, run in settings.training_runs:
        require(name in known, "training_runs", name, "an environment of the sweep, such as 'qp_ranked threshold=0.3'")
        steps = [row for row in read_metrics(pathlib.Path(run)) if row.get("fast_share") is not None]
        require(bool(steps), "training_runs", run, "the workdir of a GRPO run with metrics")
        step, share = (np.array([row[key] for row in steps], float) for key in ("step", "fast_share"))
        found[name] = step, share
    return found


def _draw_beside_training(
    workdir: pathlib.Path, result: SweepResult, online: dict[str, tuple[np.ndarray, np.ndarray]], *, window: int
) -> None:
    rows = diagnostics.configuration_rows(list(online), among=[one.name for one in configurations()])
    curves = {name: result.curves[row] for name, row in zip(online, rows, strict=True)}
    plots.curves_beside_training(curves, online, window=window).savefig(workdir / "curves_beside_training.png", dpi=130)


def _summarize(workdir, settings, result, matrix, *, groups, wall_s) -> None:
    every = configurations()
    usable = [int(row) for row in np.argsort(result.columns["rank"]) if not result.columns["degenerate"][row]]
    reasons, counts = np.unique(result.columns["degenerate"], return_counts=True)
    summary = {
        "configurations": len(every),
        "problems": int(sum(len(group.status) for group in groups)),
        "verdicts": {str(reason) or "usable": int(count) for reason, count in zip(reasons, counts, strict=True)},
        "best": [every[row].name for row in usable[:10]],
        "correlations": {
            metric: {score: [cell.rho, cell.p, cell.runs] for score, cell in row.items()}
            for metric, row in matrix.items()
        },
        "settings": thaw(settings),
        "wall_s": wall_s,
    }
    files.write_json(workdir / "summary.json", summary)
    print(f"wrote {workdir / 'configurations.parquet'}, plots and summary.json in {wall_s:.1f} s")


STUDIES = {
    "environments": sweep_environments,
    "uncertainty": studies.study_uncertainty,
    "recorded": studies.study_recorded,
    "noise": studies.study_noise,
}


if __name__ == "__main__":
    sys.exit(run_job(main, kind=SimulatorSettings))
