"""Edge: the studies beside the sweep: rewards under an uncertain clock, and the noise study of the paper's App. A.

`python -m optimrl_jax.simulate --config=configs/simulator.py:uncertainty --workdir=W`, `:recorded` (the rollouts of a
training run) and `:noise`. Each writes its tables (Parquet), figures (PNG) and `summary.json`.
"""

import dataclasses
import itertools
import pathlib
import time
import typing
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from rich.table import Table

from optimrl_jax.analysis.timing import service_states
from optimrl_jax.data.dataset import load_records
from optimrl_jax.jobs import files
from optimrl_jax.jobs.checked_fields import thaw
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.jobs.progress import JobProgress
from optimrl_jax.rollout import journal
from optimrl_jax.simulator import noise_plots, recorded, report, uncertainty, uncertainty_plots
from optimrl_jax.simulator.settings import SimulatorSettings

DPI = 130


def study_uncertainty(workdir: pathlib.Path, settings: SimulatorSettings) -> None:
    """Write bias, deviation and order of plain and confidence-aware rewards, and the reliability of groups.

    Args:
      workdir: an existing directory.
      settings: `uncertainty` and the seed.
    """
    started_s = time.monotonic()
    chosen = settings.uncertainty
    clocks = [
        uncertainty.Clock(noise, runs, kind)
        for kind, noise, runs in itertools.product(uncertainty.KINDS, chosen.noises, chosen.repeats)
    ]
    common = {"draws": chosen.draws, "seed": settings.seed}
    with JobProgress("clock", len(clocks) * len(chosen.families)) as progress:
        effects = uncertainty.study(
            clocks,
            gaps=chosen.gaps,
            measurements=chosen.measurements,
            families=chosen.families,
            on_point=lambda done: progress.advance_to(done),
            **common,
        )
    single = [clock for clock in clocks if clock.repeats == min(chosen.repeats)]
    found = uncertainty.reliability_study(single, spreads=chosen.spreads, groups=chosen.measurements, **common)
    _write_rows(workdir / "uncertainty.parquet", [dataclasses.asdict(effect) for effect in effects])
    _write_rows(workdir / "reliability.parquet", [one._asdict() for one in found])
    noise = sorted(chosen.noises)[len(chosen.noises) // 2]
    gap = sorted(chosen.gaps)[len(chosen.gaps) // 3]
    many = {"measurements": chosen.measurements}
    figures = {
        "gates": uncertainty_plots.gate_figure(effects, noise=noise, **many),
        "order": uncertainty_plots.order_figure(effects, gap=gap, **many),
        "reliability": uncertainty_plots.reliability_figure(found, groups=chosen.measurements),
    }
    _write_figures(workdir, figures)
    report.print_tables(effect_table(effects, noise=noise), _reliability_table(found))
    rows = [dataclasses.asdict(effect) for effect in effects if effect.signal == "gate" and effect.gap == gap]
    reliable = [one._asdict() for one in found]
    _summarize(workdir, settings, {"gates": rows, "reliability": reliable}, started_s=started_s)


def study_recorded(workdir: pathlib.Path, settings: SimulatorSettings) -> None:
    """Write what the trainer's rewards make of a run's rollouts on clocks of known noise.

    Args:
      workdir: an existing directory.
      settings: `recorded`.

    Raises:
      UserError: for a run that kept no rollouts, or whose dataset is not there.
    """
    started_s = time.monotonic()
    chosen = settings.recorded
    run = pathlib.Path(chosen.run)
    rows = journal.read_rollouts(run / journal.FOLDER) if chosen.run else []
    if not rows:
        raise UserError(f"recorded.run = {chosen.run!r}: expected the workdir of a GRPO run that kept its rollouts")
    of_run = service_states.read_settings(run)
    records = load_records(of_run.data.directory, of_run.data.train_split)
    groups = service_states.stored_groups(rows, records, most=chosen.groups)
    if not groups:
        raise UserError(f"recorded.run = {chosen.run!r}: expected rollouts of the problems in {of_run.data.directory}")
    with JobProgress("clock", len(chosen.noises) * len(recorded.KNOWLEDGE) * len(recorded.WAYS)) as progress:
        effects, first, last = recorded.study(
            groups,
            records,
            of_run,
            noises=chosen.noises,
            draws=chosen.draws,
            redraws=chosen.redraws,
            on_point=lambda done: progress.advance_to(done),
        )
    _write_rows(workdir / "recorded.parquet", [_flat(effect) for effect in effects])
    rollouts = sum(len(group) for group in groups)
    figure = uncertainty_plots.recorded_figure(effects, groups=len(groups), rollouts=rollouts, draws=chosen.draws)
    _write_figures(workdir, {"recorded": figure})
    report.print_tables(_recorded_table(effects))
    for name, one in (("first", first), ("last", last)):
        print(f"mean reward on the recorded seconds, {name} fifth: {one.value:+.3f} [{one.low:+.3f}, {one.high:+.3f}]")
    found = {
        "recorded": [_flat(effect) for effect in effects],
        "groups": len(groups),
        "rollouts": rollouts,
        "true_reward": {"first": first._asdict(), "last": last._asdict()},
    }
    _summarize(workdir, settings, found, started_s=started_s)


def _flat(effect: recorded.RecordedEffect) -> dict[str, typing.Any]:
    """Lay out an effect as a row: an interval as its value, `_low` and `_high`."""
    row: dict[str, typing.Any] = {}
    for name, value in vars(effect).items():
        is_interval = isinstance(value, recorded.Interval)
        row |= (
            {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high} if is_interval else {name: value}
        )
    return row


def _recorded_table(effects: Sequence[recorded.RecordedEffect]) -> Table:
    table = Table(title="rollouts of a run on clocks of known noise; 95 % over problems")
    for name in ("knowledge", "noise", "way", *recorded.MEASURES):
        table.add_column(name, justify="left" if name in ("knowledge", "way") else "right")
    for one in effects:
        found = (getattr(one, name) for name in recorded.MEASURES)
        cells = (f"{each.value:+.2f} [{each.low:+.2f}, {each.high:+.2f}]" for each in found)
        table.add_row(one.knowledge, f"{one.noise:.0%}", one.way, *cells)
    return table


def study_noise(workdir: pathlib.Path, settings: SimulatorSettings) -> None:
    """Write the figures of the noise study: thresholds, number of tests, size of the noise (Figures 10 to 12).

    Args:
      workdir: an existing directory.
      settings: `trials` and the seed.
    """
    started_s = time.monotonic()
    drawn = {"trials": settings.trials, "seed": settings.seed}
    figures = {
        "noise_thresholds": noise_plots.threshold_figure(**drawn),
        "noise_tests": noise_plots.tests_figure(**drawn),
        "noise_magnitudes": noise_plots.magnitude_figure(**drawn),
    }
    _write_figures(workdir, figures)
    _summarize(workdir, settings, {}, started_s=started_s)


def effect_table(effects: Sequence[uncertainty.Effect], *, noise: float) -> Table:
    """Tabulate the gate's bias, deviation and order under one noise, errors of every run its own.

    Args:
      effects: of the study.
      noise: the one to show.
    """
    table = Table(
        title=f"gates under {noise:.0%} noise: bias, deviation, misordered; x: plain rollouts that say as much"
    )
    for name in ("family", "runs", "gap", *uncertainty.WAYS):
        table.add_column(name, justify="left" if name == "family" else "right")
    shown = [e for e in effects if (e.signal, e.kind, e.noise) == ("gate", uncertainty.KINDS[0], noise) and e.gap > 0]
    for (family, runs, gap), members in itertools.groupby(
        sorted(shown, key=lambda e: (e.family, e.repeats, e.gap)), key=lambda e: (e.family, e.repeats, e.gap)
    ):
        of_way = {effect.way: effect for effect in members}
        table.add_row(family, str(runs), f"{gap:.0%}", *(_cell(of_way[way]) for way in uncertainty.WAYS))
    return table


def _cell(effect: uncertainty.Effect) -> str:
    times = f"{effect.efficiency:.1f}x" if np.isfinite(effect.efficiency) else "-"
    return f"{effect.bias:+.2f} {effect.std:.2f} {effect.misordered:4.0%} {times}"


def _reliability_table(found: Sequence[uncertainty.Reliability]) -> Table:
    table = Table(title="reliability of groups: share of the spread of rewards that is not noise")
    for name in uncertainty.Reliability._fields:
        table.add_column(name, justify="left" if name == "kind" else "right")
    for one in found:
        table.add_row(one.kind, f"{one.noise:.0%}", f"{one.spread:.0%}", f"{one.estimated:.2f}", f"{one.true:.2f}")
    return table


def _write_rows(path: pathlib.Path, rows: list[dict[str, typing.Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path)


def _write_figures(workdir: pathlib.Path, figures: dict[str, Figure]) -> None:
    for name, figure in figures.items():
        figure.savefig(workdir / f"{name}.png", dpi=DPI)


def _summarize(
    workdir: pathlib.Path, settings: SimulatorSettings, found: dict[str, typing.Any], *, started_s: float
) -> None:
    wall_s = time.monotonic() - started_s
    summary = {"study": settings.study} | found | {"settings": thaw(settings), "wall_s": wall_s}
    files.write_json(workdir / "summary.json", summary)
    print(f"wrote tables, figures and summary.json of the study {settings.study!r} to {workdir} in {wall_s:.1f} s")
