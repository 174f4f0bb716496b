"""Edge: draws evaluation results and learning curves as PNG files."""

import json
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table

from optimrl_jax.evaluation import style
from optimrl_jax.evaluation.scores import Scores

CURVE_LABELS = {"reward": "mean reward", "correct_share": "correct", "fast_share": "correct and fast"}
CURVE_WINDOW = 9
REWARD_PANEL, SAMPLER_PANEL = "reward, in [-1, 1]", "learner against sampler, per token"
# How learner and sampler compare, logged where an engine elsewhere samples (`grpo.sampler`).
SAMPLER_LABELS = {
    "sampler_ratio": "mean ratio",
    "sampler_mismatch": "mean |difference of log p|",
    "truncated_share": "share of tokens at the cap",
}
# How the names of scores begin that `train` logs with `evaluation.every`.
HELD_OUT = "held_out/"


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
            **style.bar_look(position),
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


def learning_curve(path: pathlib.Path, metrics_file: pathlib.Path) -> None:
    """Draw training metrics over optimizer steps, raw (thin) and as a trailing moving average (thick).

    A reward lies in [-1, 1] and has a panel of its own beside the shares in [0, 1]; where the policy was evaluated
    during training, its scores on held-out problems are a third, and where an engine elsewhere sampled, so is its
    mismatch with the learner. No file is written where the job logged none of these.

    Args:
      path: of the PNG file.
      metrics_file: `metrics.jsonl` of the job.
    """
    rows = [json.loads(line) for line in metrics_file.read_text().splitlines() if line.strip()]
    points = {name: _points(rows, name) for name in dict.fromkeys(name for row in rows for name in row)}
    scored = [name for name in points if is_held_out_score(name)]
    panels = {
        REWARD_PANEL: [name for name in ("reward",) if points.get(name)],
        "share of rollouts": [name for name in ("correct_share", "fast_share") if points.get(name)],
        "held-out problems, %": [name for name in scored if points[name]],
        SAMPLER_PANEL: [name for name in SAMPLER_LABELS if points.get("sampler_ratio")],
    }
    panels = {label: names for label, names in panels.items() if names}
    if not panels:
        return
    caption = f"thin: each step; thick: mean of the last {CURVE_WINDOW} steps; n = {len(rows)} logged steps"
    if scored:
        caption += "; held-out: one mark an evaluation"
    figure = style.new_figure(4.1 * len(panels), 3.6, caption=caption)
    for axes, (label, names) in zip(
        np.ravel(figure.subplots(1, len(panels), sharex=True)), panels.items(), strict=True
    ):
        for index, name in enumerate(names):
            _draw_series(axes, *np.array(points[name], float).T, name=name, index=index)
        axes.set(xlabel="optimizer step", ylabel=label)
        if label not in (REWARD_PANEL, SAMPLER_PANEL):
            axes.set_ylim(0, 102 if label.endswith("%") else 1.02)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=style.DPI)


def is_held_out_score(name: str) -> bool:
    """Say whether a metric is a score of an evaluation during training, such as "held_out/pass_at_1_p30"."""
    return name.startswith(f"{HELD_OUT}pass_at_")


def _points(rows: Sequence[Mapping[str, float]], name: str) -> list[tuple[float, float]]:
    return [(row["step"], row[name]) for row in rows if row.get(name) is not None]


def _draw_series(axes: Axes, steps: np.ndarray, values: np.ndarray, *, name: str, index: int) -> None:
    """Draw scores of evaluations as marks, metrics of every step as a thin line with its moving average."""
    colour = style.colour(index)
    if name.startswith(HELD_OUT):
        label = name.removeprefix(HELD_OUT).replace("_at_", "@").replace("_p", " at p")
        axes.plot(steps, 100 * values, color=colour, marker=style.marker(index), linewidth=1.5, label=label)
        return
    label = f"{SAMPLER_LABELS[name]}: {values.mean():.3g}" if name in SAMPLER_LABELS else CURVE_LABELS[name]
    axes.plot(steps, values, color=colour, alpha=0.3, linewidth=1)
    axes.plot(steps, moving_average(values, window=CURVE_WINDOW), color=colour, linewidth=2, label=label)


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
    Console(width=120).print(table)


def _cell(value: Mapping[str, float], *, is_gain: bool) -> str:
    mean, low, high = (100 * value[name] for name in ("mean", "low", "high"))
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]" if is_gain else f"{mean:.1f} [{low:.1f}, {high:.1f}]"
