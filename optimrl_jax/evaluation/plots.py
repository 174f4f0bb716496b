"""Edge: draws evaluation results and learning curves as PNG files."""

import json
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from optimrl_jax.evaluation import style
from optimrl_jax.evaluation.scores import Scores


def pass_bars(path: pathlib.Path, scores: Mapping[str, Scores], *, k: int, problems: int) -> None:
    """Draw bars of pass@k at each p_tau, a colour for each policy, with 95 % intervals over problems.

    Args:
      path: of the PNG file.
      scores: of each policy (`scores.pass_scores`).
      k: of pass@k.
      problems: number of problems, for the caption.
    """
    figure = style.new_figure(caption=f"n = {problems} held-out problems; whiskers: 95 % bootstrap over problems")
    axes = figure.subplots()
    width = 0.8 / max(1, len(scores))
    for position, (policy, of_policy) in enumerate(scores.items()):
        row = of_policy[f"pass@{k}"]
        cells = [[100 * row[tau][name] for tau in row] for name in ("mean", "low", "high")]
        mean, low, high = (np.asarray(values) for values in cells)
        x = np.arange(len(row)) + (position - (len(scores) - 1) / 2) * width
        axes.bar(
            x,
            mean,
            width * 0.92,
            label=policy,
            color=style.colour(position),
            yerr=style.whiskers(mean, low, high),
            capsize=2,
        )
        axes.set_xticks(np.arange(len(row)), list(row))
    axes.set(
        title=f"Correct and fast enough, pass@{k}",
        ylabel=f"pass@{k}, % (mean over problems)",
        xlabel="no slower than this percentile of the references",
        ylim=(0, 105),
    )
    style.show_legend(axes)
    figure.savefig(path, dpi=style.DPI)


def learning_curve(path: pathlib.Path, metrics_file: pathlib.Path, *, series: Mapping[str, str], window: int) -> None:
    """Draw training metrics over optimizer steps, raw (thin) and as a trailing moving average (thick).

    A reward lies in [-1, 1] and has a panel of its own beside the shares in [0, 1]. No file is written where the job
    logged none of the metrics.

    Args:
      path: of the PNG file.
      metrics_file: `metrics.jsonl` of the job.
      series: label of each metric, by its name in that file; those that were not logged are left out.
      window: steps of the moving average.
    """
    rows = [json.loads(line) for line in metrics_file.read_text().splitlines() if line.strip()]
    series = {name: label for name, label in series.items() if any(row.get(name) is not None for row in rows)}
    if not series:
        return
    figure = style.new_figure(
        8.2, 3.6, caption=f"thin: each step; thick: mean of the last {window} steps; n = {len(rows)} logged steps"
    )
    panels = dict(zip(("reward", "share"), figure.subplots(1, 2, sharex=True), strict=True))
    for index, (name, label) in enumerate(series.items()):
        axes = panels["share" if name.endswith("_share") else "reward"]
        points = [(row["step"], row[name]) for row in rows if row.get(name) is not None]
        steps, values = (np.asarray(column, float) for column in zip(*points, strict=True))
        axes.plot(steps, values, color=style.colour(index), alpha=0.3, linewidth=1)
        axes.plot(steps, moving_average(values, window=window), color=style.colour(index), linewidth=2, label=label)
    panels["reward"].set(xlabel="optimizer step", ylabel="reward, in [-1, 1]")
    panels["share"].set(xlabel="optimizer step", ylabel="share of rollouts", ylim=(0, 1.02))
    for axes in panels.values():
        handles, labels = axes.get_legend_handles_labels()
        if labels:
            axes.legend(handles, labels, frameon=False, fontsize=8)
    figure.savefig(path, dpi=style.DPI)


def moving_average(points: Sequence[float] | np.ndarray, *, window: int) -> np.ndarray:
    """Average over the last `window` finite values at each position (fewer at the start).

    Args:
      points: `[n]` values; those that are not finite are skipped.
      window: positions of the average.

    Returns:
      `[n]`; 0 where the window holds no finite value.
    """
    values = np.asarray(points, float)
    finite = np.isfinite(values)
    totals = np.cumsum(np.concatenate([[0.0], np.where(finite, values, 0.0)]))
    counts = np.cumsum(np.concatenate([[0], finite]))
    start = np.maximum(0, np.arange(1, values.size + 1) - window)
    stop = np.arange(1, values.size + 1)
    return (totals[stop] - totals[start]) / np.maximum(1, counts[stop] - counts[start])


def pass_table(scores: Mapping[str, Scores], gains: Mapping[str, Scores], *, title: str) -> Table:
    """Tabulate one row for each (policy, k), one column for each p_tau: the mean with its 95 % interval, in percent.

    Args:
      scores: of each policy; at least one.
      gains: paired differences by name, shown with their sign.
      title: of the table.
    """
    first = next(iter(scores.values()))
    taus = list(next(iter(first.values())))
    table = Table(title=title, caption="percent of problems, 95 % bootstrap interval over problems; gains are paired")
    table.add_column("policy")
    table.add_column("score")
    for tau in taus:
        table.add_column(tau, justify="right")
    for name, of_policy in [*scores.items(), *gains.items()]:
        for score, row in of_policy.items():
            table.add_row(name, score, *(_cell(row[tau], is_gain=name in gains) for tau in taus))
    return table


def print_table(table: Table) -> None:
    """Print a table at a width that also fits a log file."""
    Console(width=110).print(table)


def _cell(value: Mapping[str, float], *, is_gain: bool) -> str:
    mean, low, high = (100 * value[name] for name in ("mean", "low", "high"))
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]" if is_gain else f"{mean:.1f} [{low:.1f}, {high:.1f}]"
