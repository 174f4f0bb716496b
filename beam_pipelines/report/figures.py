"""Edge: draws the figures of a dataset's inspection as PNG files."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from beam_pipelines.report import dataset_statistics

KINDS = ("original", "correctness", "optimization")
CASES = 3


def draw_duration_tails(examples: Sequence[dataset_statistics.Example], path: pathlib.Path) -> None:
    """Share of tests above each duration, by kind of test, on a logarithmic axis."""
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    for kind in KINDS:
        seconds = np.sort(dataset_statistics.pool_seconds(examples, dataset_statistics.CATEGORIES[kind]))
        if seconds.size:
            axes.step(1000 * seconds, 1 - np.arange(seconds.size) / seconds.size, where="post", label=kind)
    axes.set(xscale="log", yscale="log", xlabel="mean duration of a test, ms", ylabel="share of tests above")
    axes.legend()
    _saved(figure, path)


def draw_profiles(examples: Sequence[dataset_statistics.Example], path: pathlib.Path) -> None:
    """Sorted test durations of the most and the least duration-filterable problems: ramps beside flat lines."""
    ranked = sorted(examples, key=lambda example: -float(example["robust_cv"]))
    cases = ranked[:CASES] + ranked[-CASES:] if len(ranked) >= 2 * CASES else ranked
    figure = Figure(figsize=(2.6 * len(cases), 2.8))
    all_axes = figure.subplots(1, len(cases), squeeze=False)
    for axes, example in zip(all_axes[0], cases, strict=True):
        for kind in KINDS:
            seconds = np.sort(dataset_statistics.mean_seconds(example)[dataset_statistics.CATEGORIES[kind](example)])
            axes.plot(np.linspace(0, 1, len(seconds)), 1000 * seconds, marker=".", label=kind)
        name = example["id"].decode().rpartition("/")[2]
        axes.set_title(f"{name[:22]}\nrobust CV {float(example['robust_cv']):.2f}", fontsize=8)
        axes.set(xlabel="tests, fastest first", yscale="log")
    all_axes[0][0].set_ylabel("mean duration, ms")
    all_axes[0][0].legend(fontsize=7)
    _saved(figure, path)


def draw_pass_rates(traces: Sequence[Mapping[str, float]], path: pathlib.Path) -> None:
    """Pass rates of correct and incorrect solutions before and after the generated correctness tests (L1528)."""
    figure = Figure(figsize=(8, 4))
    both = figure.subplots(1, 2)
    for axes, label in zip(both, ("correct", "incorrect"), strict=True):
        before = [100 * trace[f"{label}_pass_rate_before"] for trace in traces]
        after = [100 * trace[f"{label}_pass_rate_generated"] for trace in traces]
        axes.plot([0, 100], [0, 100], color="0.7", linewidth=1)
        axes.scatter(before, after, s=12, alpha=0.6)
        axes.set(title=f"{label} solutions", xlabel="pass original tests, %", ylabel="pass generated tests too, %")
    _saved(figure, path)


def draw_reference_percentiles(percent: Sequence[float], path: pathlib.Path) -> None:
    """Where human references stand on their own leaderboards."""
    figure = Figure(figsize=(6, 3))
    axes = figure.subplots()
    axes.hist(percent, bins=20, range=(0, 100))
    axes.set(xlabel="percentile of a reference, 0 fastest", ylabel="references")
    _saved(figure, path)


def _saved(figure: Figure, path: pathlib.Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
