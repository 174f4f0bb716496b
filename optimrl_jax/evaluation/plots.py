"""Edge: draws evaluation results and learning curves as PNG files."""

import json
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from optimrl_jax.evaluation.scores import Scores


def pass_bars(path: pathlib.Path, scores: Mapping[str, Scores], *, k: int) -> None:
    """Bars of pass@k at each p_tau, a colour for each policy, with intervals."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / max(1, len(scores))
    for position, (policy, of_policy) in enumerate(scores.items()):
        row = of_policy[f"pass@{k}"]
        cells = [[100 * row[tau][name] for tau in row] for name in ("mean", "low", "high")]
        mean, low, high = (np.asarray(values) for values in cells)
        x = np.arange(len(row)) + (position - (len(scores) - 1) / 2) * width
        axes.bar(x, mean, width * 0.92, label=policy, yerr=[mean - low, high - mean], capsize=2)
        axes.set_xticks(np.arange(len(row)), list(row))
    axes.set(ylabel=f"pass@{k}, % of held-out programs", xlabel="no slower than this percentile of the references")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)


def learning_curve(path: pathlib.Path, metrics_file: pathlib.Path, *, series: Mapping[str, str], window: int) -> None:
    """Training metrics over optimizer steps, raw (thin) and as a moving average (thick).

    `series` maps a metric's name in the job's metrics.jsonl to its label; those that the job did not log are left out,
    and no file is written where it logged none of them.
    """
    rows = [json.loads(line) for line in metrics_file.read_text().splitlines() if line.strip()]
    series = {name: label for name, label in series.items() if any(row.get(name) is not None for row in rows)}
    if not series:
        return
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for index, (name, label) in enumerate(series.items()):
        points = [(row["step"], row[name]) for row in rows if row.get(name) is not None]
        steps, values = (np.asarray(column, float) for column in zip(*points, strict=True))
        axes.plot(steps, values, color=f"C{index}", alpha=0.25, linewidth=1)
        axes.plot(steps, moving_average(values, window=window), color=f"C{index}", linewidth=2, label=label)
    axes.set(xlabel="optimizer step")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)


def moving_average(values: Sequence[float], *, window: int) -> np.ndarray:
    """Mean over the last `window` finite values at each position (fewer at the start)."""
    values = np.asarray(values, float)
    finite = np.isfinite(values)
    totals = np.cumsum(np.concatenate([[0.0], np.where(finite, values, 0.0)]))
    counts = np.cumsum(np.concatenate([[0], finite]))
    start = np.maximum(0, np.arange(1, values.size + 1) - window)
    stop = np.arange(1, values.size + 1)
    return (totals[stop] - totals[start]) / np.maximum(1, counts[stop] - counts[start])
