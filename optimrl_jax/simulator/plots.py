"""Figures of the simulator: landscape (Figure 2), heatmaps (Figure 44) and curves with fitted lines (Figure 43)."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from optimrl_jax.environment import families
from optimrl_jax.evaluation import style
from optimrl_jax.simulator.configurations import STAGES, Configuration
from optimrl_jax.simulator.diagnostics import DIAGNOSTICS, clipped_line, smoothed

HEATMAP_TOLERANCE = 0.1
HEATMAP_COLUMNS = 4


def landscape(configurations: Sequence[Configuration], diagnostics: Mapping[str, np.ndarray]) -> Figure:
    """Scatter every configuration by AUC and steepness: sparse to saturated, flat to steep (Figure 2).

    Args:
      configurations: of the sweep.
      diagnostics: `[c]` by name (`diagnostics.diagnose`).
    """
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.subplots()
    family = np.array([one.family for one in configurations])
    for index, (name, stage) in enumerate(STAGES.items()):
        chosen = family == name
        axes.scatter(
            diagnostics["auc_raw"][chosen],
            diagnostics["steepness"][chosen],
            s=20,
            alpha=0.7,
            marker=style.marker(index),
            color=style.colour(index),
            label=f"{name} ({stage})",
        )
    axes.set(xlabel="AUC, share of samples that pass", ylabel="steepness S = a / (1 + |a|)")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure


def heatmaps(configurations: Sequence[Configuration], diagnostics: Mapping[str, np.ndarray]) -> dict[str, Figure]:
    """Draw a heatmap of every diagnostic for each family of the sweep (Figure 44, which shows three of them).

    Filters are shown at a tolerance of 10 %, ranked timeouts with the slowest of the references that are kept.

    Args:
      configurations: of the whole sweep.
      diagnostics: `[c]` by name (`diagnostics.diagnose`).

    Returns:
      A figure for each family.
    """
    seconds = [f"{value:g} s" for value in families.DURATIONS_S]
    characters = [f"{value:g}" for value in families.CHARACTERS]
    tolerances = [f"{value:.0%}" for value in families.TOLERANCES]
    percents = [f"p{value:g}" for value in families.PERCENTS]
    thresholds = [f"p{100 * value:.0f}" for value in families.THRESHOLDS]
    at_tolerance = {"tolerance": HEATMAP_TOLERANCE}
    panels = {
        "absolute_filter": (at_tolerance, "filter", seconds, "limit", seconds),
        "length_filter": (at_tolerance, "characters", characters, "limit", seconds),
        "relative_filter": (at_tolerance, "slowest dropped", percents, "limit", seconds),
        "absolute_timeout": ({}, "limit", seconds, "tolerance", tolerances),
        "relative_timeout": ({}, "percentile", percents, "tolerance", tolerances),
        "ranked_timeout": ({"bound": "max"}, "references kept", percents, "tolerance", tolerances),
        "qar_ranked": ({}, "", [""], "threshold", thresholds),
        "qp_ranked": ({}, "", [""], "threshold", thresholds),
    }
    figures = {}
    for family, (fixed, row_name, rows, column_name, columns) in panels.items():
        chosen = [
            index
            for index, one in enumerate(configurations)
            if one.family == family and fixed.items() <= dict(one.values).items()
        ]
        grids = {metric: diagnostics[metric][chosen].reshape(len(rows), len(columns)) for metric in DIAGNOSTICS}
        figures[family] = _heatmap_panels(grids, rows=(row_name, rows), columns=(column_name, columns))
        figures[family].suptitle(f"{family}: brighter is more, not better; white: undefined")
    return figures


def _heatmap_panels(
    grids: Mapping[str, np.ndarray], *, rows: tuple[str, Sequence[str]], columns: tuple[str, Sequence[str]]
) -> Figure:
    """Draw a panel for each diagnostic, all on the same axes, (name, ticks) of which are given."""
    lines = -(-len(grids) // HEATMAP_COLUMNS)
    figure = Figure(figsize=(11, lines * (1.3 + 0.17 * len(rows[1]))), layout="constrained")
    panels = figure.subplots(lines, HEATMAP_COLUMNS, sharex=True, sharey=True, squeeze=False).ravel()
    for place, (axes, (metric, grid)) in enumerate(zip(panels, grids.items(), strict=False)):
        axes.set_title(DIAGNOSTICS[metric], fontsize=9)
        bar = figure.colorbar(axes.imshow(grid, cmap=style.SEQUENTIAL, aspect="auto"), ax=axes)
        bar.ax.tick_params(labelsize=7)
        axes.set_xticks(range(len(columns[1])), columns[1], fontsize=7, rotation=90)
        axes.set_yticks(range(len(rows[1])), rows[1], fontsize=7)
        axes.tick_params(labelbottom=place + HEATMAP_COLUMNS >= len(grids))
    for axes in panels[len(grids) :]:
        axes.remove()
    figure.supxlabel(columns[0], fontsize=9)
    figure.supylabel(rows[0], fontsize=9)
    return figure


def curve_panels(curves: Mapping[str, np.ndarray], *, x: np.ndarray, window: int) -> Figure:
    """Draw the curves of some configurations: raw, smoothed, and the clipped line that steepness fits (Figure 43).

    Args:
      curves: `[n]` pass rates by label, at least one.
      x: `[n]` positions of the steps in [0, 1].
      window: steps of the moving average.
    """
    figure = Figure(figsize=(11, 2.2 * -(-len(curves) // 4)), layout="constrained")
    panels = figure.subplots(-(-len(curves) // 4), 4, sharex=True, sharey=True, squeeze=False).ravel()
    stacked = np.stack(list(curves.values()))
    trends, lines = smoothed(stacked, window=window), zip(*clipped_line(stacked, x), strict=True)
    for axes, label, curve, trend, (slope, offset) in zip(panels, curves, stacked, trends, lines, strict=False):
        axes.plot(x, curve, color="0.7", linewidth=0.8, label="share of samples that pass")
        axes.plot(_centres(x, window), trend, color=style.colour(5), label=f"mean of the {window} steps around")
        axes.plot(x, np.clip(slope * x + offset, 0, 1), color=style.colour(0), label="clipped line")
        axes.plot(x, x, color="0.85", zorder=0, label="y = x")
        axes.set_title(f"{label}: AUC {curve.mean():.2f}, S {slope / (1 + abs(slope)):.2f}", fontsize=7)
    for axes in panels[len(curves) :]:
        axes.set_axis_off()
    figure.supxlabel("position in the run: 0 weakest references, 1 strongest", fontsize=8)
    figure.supylabel("share that passes", fontsize=8)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=4, frameon=False, fontsize=7)
    return figure


def curves_beside_training(
    simulated: Mapping[str, np.ndarray], online: Mapping[str, tuple[np.ndarray, np.ndarray]], *, window: int
) -> Figure:
    """Draw the simulated curve of each environment on the left and the pass rate of its training run on the right.

    Figure 43: the left axis is the quality of sampled references, the right one optimizer steps; both are pass rates in
    the same environment, of human programs there and of a policy here.

    Args:
      simulated: `[n]` pass rates by label, at least one.
      online: (steps `[m]`, shares of rollouts that pass `[m]`) by the same labels.
      window: steps of the moving average, at most the length of the curve.
    """
    figure = style.new_figure(7.6, 2.0 * len(simulated) + 0.5, caption=f"grey: every step; orange: means of {window}")
    panels = figure.subplots(len(simulated), 2, sharey=True, squeeze=False)
    for row, (label, curve) in zip(panels, simulated.items(), strict=True):
        steps, share = online[label]
        sides = ((np.linspace(0, 1, len(curve)), curve), (steps, share))
        for axes, (x, y), name in zip(row, sides, ("simulated", "training"), strict=True):
            own = min(window, len(y))
            axes.plot(x, y, color="0.7", linewidth=0.8)
            axes.plot(_centres(x, own), smoothed(np.asarray(y)[None], window=own)[0], color=style.colour(5))
            axes.set_title(f"{label}, {name}", fontsize=8)
            axes.set_ylim(0, 1.02)
        row[0].set_ylabel("share that passes", fontsize=8)
    panels[-1, 0].set_xlabel("position: 0 weakest references, 1 strongest", fontsize=8)
    panels[-1, 1].set_xlabel("optimizer step", fontsize=8)
    return figure


def _centres(x: np.ndarray, window: int) -> np.ndarray:
    """Place each mean of `window` positions in their middle, so that its curve does not lag behind."""
    return (x[window - 1 :] + x[: len(x) - window + 1]) / 2
