"""Edge: writes what the simulator found: Parquet table, heatmaps (L3784), landscape (L137), curves and correlations."""

import csv
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from optimrl_jax.commands import UserError
from optimrl_jax.environment import families
from optimrl_jax.simulator.configurations import STAGES, Configuration
from optimrl_jax.simulator.diagnostics import METRICS
from optimrl_jax.simulator.online import Correlation

PAPER_SCORES = pathlib.Path(__file__).with_name("online_scores.csv")
MARKERS = {"pre-execution": "o", "intra-execution": "s", "post-execution": "^"}
HEATMAP_TOLERANCE = 0.1


def write_table(
    path: pathlib.Path, configurations: Sequence[Configuration], columns: Mapping[str, np.ndarray], curves: np.ndarray
) -> None:
    """One row for each configuration: its fields, its diagnostics, why it is degenerate, its rank and its raw curve."""
    fields = ("filter_limit", "limit", "bound", "tolerance", "threshold")
    values = [dict(one.values) for one in configurations]
    table = {
        "name": [one.name for one in configurations],
        "family": [one.family for one in configurations],
        "stage": [STAGES[one.family] for one in configurations],
        **{field: [of_one.get(field) for of_one in values] for field in fields},
        **columns,
        "curve": list(curves.astype(np.float32)),
    }
    pq.write_table(pa.table(table), path)


def read_scores(path: pathlib.Path) -> tuple[list[str], list[str], dict[str, np.ndarray]]:
    """Labels, configuration names and {p_tau: score [runs]} of online runs; UserError for a file that has none."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        taus = [name for name in rows[0] if name[:1] == "p" and name[1:].isdigit()]
        scores = {tau: np.array([float(row[tau] or "nan") for row in rows]) for tau in taus}
        return [row["label"] for row in rows], [row["configuration"] for row in rows], scores
    except (OSError, KeyError, IndexError, TypeError, ValueError) as error:
        raise UserError(
            f"online_scores = {str(path)!r}: expected a CSV with label, configuration and p columns ({error!r})"
        ) from None


def landscape(
    path: pathlib.Path, configurations: Sequence[Configuration], diagnostics: Mapping[str, np.ndarray]
) -> None:
    """Every configuration by AUC and steepness: sparse to saturated, flat to steep."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    family = np.array([one.family for one in configurations])
    for index, (name, stage) in enumerate(STAGES.items()):
        chosen = family == name
        axes.scatter(
            diagnostics["auc_raw"][chosen],
            diagnostics["steepness"][chosen],
            s=16,
            alpha=0.6,
            marker=MARKERS[stage],
            color=f"C{index}",
            label=f"{name} ({stage})",
        )
    axes.set(xlabel="AUC, share of samples that pass", ylabel="steepness S = a / (1 + |a|)")
    axes.legend(frameon=False, fontsize=7)
    figure.savefig(path, dpi=130)


def heatmaps(
    directory: pathlib.Path, configurations: Sequence[Configuration], diagnostics: Mapping[str, np.ndarray]
) -> None:
    """The three panels of L3784: absolute filters at rho = 10 %, ranked-worst timeouts, leaderboard percentiles."""
    seconds = [f"{value:g} s" for value in families.DURATIONS_S]
    tolerances = [f"{value:.0%}" for value in families.TOLERANCES]
    percents = [f"p{value:g}" for value in families.PERCENTS]
    thresholds = [f"p{100 * value:.0f}" for value in families.THRESHOLDS]
    panels = {
        "absolute_filter": ({"tolerance": HEATMAP_TOLERANCE}, "filter", seconds, "limit", seconds),
        "ranked_timeout": ({"bound": "max"}, "references kept", percents, "tolerance", tolerances),
        "qp_ranked": ({}, "", [""], "threshold", thresholds),
    }
    for family, (fixed, row_name, rows, column_name, columns) in panels.items():
        chosen = [
            index
            for index, one in enumerate(configurations)
            if one.family == family and fixed.items() <= dict(one.values).items()
        ]
        figure = Figure(figsize=(15, 1.4 + 0.32 * len(rows)), layout="constrained")
        for axes, (metric, title) in zip(figure.subplots(1, len(METRICS)), METRICS.items(), strict=True):
            grid = diagnostics[metric][chosen].reshape(len(rows), len(columns))
            axes.set_title(title, fontsize=7)
            figure.colorbar(axes.imshow(grid, cmap="RdYlGn", aspect="auto"), ax=axes).ax.tick_params(labelsize=5)
            axes.set_xticks(range(len(columns)), columns, fontsize=5, rotation=90)
            axes.set_yticks(range(len(rows)), rows, fontsize=5)
            axes.set_xlabel(column_name, fontsize=6)
            axes.set_ylabel(row_name, fontsize=6)
        figure.suptitle(family)
        figure.savefig(directory / f"heatmap_{family}.png", dpi=130)


def curve_panels(
    path: pathlib.Path, curves: Mapping[str, np.ndarray], *, x: np.ndarray, window: int, lines: Mapping[str, tuple]
) -> None:
    """Curves of some configurations, raw and smoothed, with the clipped line (a, b) that steepness fits (L3755)."""
    figure = Figure(figsize=(11, 2.2 * -(-len(curves) // 4)), layout="constrained")
    panels = figure.subplots(-(-len(curves) // 4), 4, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, (label, curve) in zip(panels, curves.items(), strict=False):
        slope, offset = lines[label]
        axes.plot(x, curve, color="0.7", linewidth=0.8)
        axes.plot(x[window - 1 :], np.convolve(curve, np.ones(window) / window, "valid"), color="C3")
        axes.plot(x, np.clip(slope * x + offset, 0, 1), color="C0")
        axes.plot(x, x, color="0.85", zorder=0)
        axes.set_title(f"{label}: AUC {curve.mean():.2f}, S {slope / (1 + abs(slope)):.2f}", fontsize=7)
    for axes in panels[len(curves) :]:
        axes.set_axis_off()
    figure.savefig(path, dpi=130)


def correlation_table(matrix: Mapping[str, Mapping[str, Correlation]], *, title: str) -> Table:
    """Metric by p_tau: Spearman's rho with its two-sided p-value, the layout of L3731."""
    table = Table(title=title)
    table.add_column("diagnostic")
    for name in next(iter(matrix.values())):
        table.add_column(name, justify="right")
    for metric, row in matrix.items():
        table.add_row(METRICS[metric], *(f"{cell.rho:+.3f} (p = {cell.p:.2g})" for cell in row.values()))
    return table


def family_table(configurations: Sequence[Configuration], columns: Mapping[str, np.ndarray]) -> Table:
    """How many configurations of each family are usable, and its best one."""
    table = Table(title=f"{len(configurations):,} configurations")
    for name in ("family", "configurations", "sparse", "saturated", "unordered", "usable", "best: y = x deviation"):
        table.add_column(name, justify="left" if name == "family" else "right")
    family, why = np.array([one.family for one in configurations]), columns["degenerate"]
    for name in STAGES:
        chosen = np.flatnonzero(family == name)
        best = chosen[np.argmin(columns["rank"][chosen])]
        counts = [int((why[chosen] == reason).sum()) for reason in ("sparse", "saturated", "unordered", "")]
        text = configurations[best].name.removeprefix(name).strip()
        table.add_row(name, str(chosen.size), *map(str, counts), f"{text}: {columns['diagonal_deviation'][best]:.3f}")
    return table


def show(*tables: Table) -> None:
    for table in tables:
        Console(width=130).print(table)
