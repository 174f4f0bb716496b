"""Edge: draws the figures of a dataset's inspection as PNG files."""

import collections
import pathlib
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import ticker
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from beam_pipelines.report import campaign_tables, dataset_statistics, tail_tables

KINDS = ("original", "correctness", "optimization")
CASES = 3


def plain_log_ticks(axis: Axis) -> None:
    """Write 1, 2, 5, 10 … at a logarithmic axis, which has powers of ten alone, or 6 x 10^0, otherwise."""
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.set_minor_formatter(ticker.NullFormatter())


def draw_durations(
    examples: Sequence[dataset_statistics.Example],
    directory: pathlib.Path,
    *,
    standings: Mapping[str, Mapping[str, float]],
) -> None:
    """Draw the figures about durations and references.

    Args:
      examples: problems of the dataset, at least one with a duration.
      directory: an existing one.
      standings: problem id -> reference id -> percentile, in percent.
    """
    draw_duration_tails(examples, directory / "duration_tails.png")
    draw_prevalence(examples, directory / "prevalence.png")
    draw_quantiles(examples, directory / "quantiles.png")
    draw_profiles(examples, directory / "profiles.png")
    percent = [value for references in standings.values() for value in references.values()]
    draw_reference_percentiles(percent, directory / "reference_percentiles.png")


def draw_campaigns(
    rows: Sequence[Mapping[str, Any]],
    traces: Sequence[Mapping[str, float]],
    directory: pathlib.Path,
    *,
    statuses: Mapping[str, Mapping[str, float]],
) -> None:
    """Draw the figures of the test campaigns.

    Args:
      rows: as `campaign_tables.campaign_rates` returns them.
      traces: notes of the correctness campaign, one mapping per problem.
      directory: an existing one.
      statuses: as `campaign_tables.status_table` returns it.
    """
    draw_pass_rates(traces, directory / "pass_rates.png")
    draw_false_positives(rows, directory / "false_positives.png")
    draw_filters(rows, directory / "filters.png")
    draw_statuses(statuses, directory / "statuses.png")


def draw_duration_tails(examples: Sequence[dataset_statistics.Example], path: pathlib.Path) -> None:
    """Plot the share of tests above each duration, by kind of test, on logarithmic axes.

    Args:
      examples: problems of the dataset, whole or condensed.
      path: the PNG file.
    """
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    for kind in KINDS:
        seconds = np.sort(dataset_statistics.pool_seconds(examples, dataset_statistics.CATEGORIES[kind]))
        if seconds.size:
            axes.step(1000 * seconds, 1 - np.arange(seconds.size) / seconds.size, where="post", label=kind)
    axes.set(xscale="log", yscale="log", xlabel="mean duration of a test, ms", ylabel="share of tests above")
    plain_log_ticks(axes.xaxis)
    plain_log_ticks(axes.yaxis)
    axes.legend()
    _saved(figure, path)


def draw_profiles(examples: Sequence[dataset_statistics.Example], path: pathlib.Path) -> None:
    """Plot sorted test durations of the most and the least duration-filterable problems: ramps beside flat lines.

    Args:
      examples: problems of the dataset, whole or condensed; at least one.
      path: the PNG file.
    """
    ranked = sorted(examples, key=lambda example: -float(example["robust_cv"]))
    cases = ranked[:CASES] + ranked[-CASES:] if len(ranked) >= 2 * CASES else ranked
    figure = Figure(figsize=(2.6 * len(cases), 2.8))
    all_axes = figure.subplots(1, len(cases), squeeze=False, sharey=True)
    for axes, example in zip(all_axes[0], cases, strict=True):
        for kind in KINDS:
            seconds = np.sort(dataset_statistics.mean_seconds(example)[dataset_statistics.CATEGORIES[kind](example)])
            axes.plot(np.linspace(0, 1, len(seconds)), 1000 * seconds, marker=".", label=kind)
        name = example["id"].decode().rpartition("/")[2]
        title = textwrap.fill(name.replace("_", " "), 28)
        axes.set_title(f"{title}\nrobust CV {float(example['robust_cv']):.2f}", fontsize=8)
        axes.set(xlabel="tests, fastest first", yscale="log")
        plain_log_ticks(axes.yaxis)
    all_axes[0][0].set_ylabel("mean duration, ms")
    all_axes[0][0].legend(fontsize=7)
    _saved(figure, path)


def draw_pass_rates(traces: Sequence[Mapping[str, float]], path: pathlib.Path) -> None:
    """Plot pass rates of both labels before and after the generated correctness tests (App. B.5, Figure 14).

    Args:
      traces: notes of the correctness campaign, one mapping per problem.
      path: the PNG file.
    """
    figure = Figure(figsize=(8, 4))
    both = figure.subplots(1, 2)
    for axes, label in zip(both, ("correct", "incorrect"), strict=True):
        names = (f"{label}_pass_rate_before", f"{label}_pass_rate_generated")
        # Many problems share a spot: its area says how many.
        spots = collections.Counter(tuple(100 * trace[name] for name in names) for trace in traces)
        axes.plot([0, 100], [0, 100], color="0.7", linewidth=1)
        axes.scatter(*np.reshape([*spots], (-1, 2)).T, s=[10 + 2 * count for count in spots.values()], alpha=0.6)
        most = max(spots.values(), default=0)
        axes.set(title=f"{label} solutions: {len(traces)} problems,\narea by number, largest spot {most}")
        axes.set(xlabel="pass original tests, %", ylabel="pass generated tests too, %")
    _saved(figure, path)


def draw_reference_percentiles(percent: Sequence[float], path: pathlib.Path) -> None:
    """Plot where human references stand on their own leaderboards.

    Args:
      percent: percentile of each reference, in [0, 100], 0 fastest.
      path: the PNG file.
    """
    figure = Figure(figsize=(6, 3))
    axes = figure.subplots()
    # As many bars as most leaderboards have places, so that none is empty by arithmetic.
    axes.hist(percent, bins=10, range=(0, 100), edgecolor="white")
    axes.set(xlabel="percentile of a reference, 0 fastest", ylabel="references")
    axes.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    _saved(figure, path)


def draw_false_positives(rows: Sequence[Mapping[str, Any]], path: pathlib.Path) -> None:
    """Plot the histogram of false-positive rates before and after generated tests (App. B.5, Figure 15).

    Args:
      rows: as `campaign_tables.campaign_rates` returns them.
      path: the PNG file.
    """
    covered = [row for row in rows if row["has_tests"]]
    figure = Figure(figsize=(6, 3))
    axes = figure.subplots()
    for when in ("before", "generated"):
        rates = [100 * row[f"incorrect_{when}"] for row in covered]
        axes.hist(rates, bins=20, range=(0, 100), alpha=0.6, label=when)
    axes.axvline(5, color="0.4", linewidth=1)
    axes.set(xlabel="false-positive rate of a problem, %", ylabel="problems")
    axes.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axes.legend()
    _saved(figure, path)


def draw_filters(rows: Sequence[Mapping[str, Any]], path: pathlib.Path) -> None:
    """Plot pass rates by problem: original, generated, after each filter and after both (App. B.5, Figure 17).

    Args:
      rows: as `campaign_tables.campaign_rates` returns them.
      path: the PNG file.
    """
    covered = [row for row in rows if row["has_tests"]]
    covered.sort(key=lambda row: row["incorrect_generated"] - row["incorrect_before"])
    figure = Figure(figsize=(8, 5))
    for axes, label in zip(figure.subplots(2, 1), campaign_tables.LABELS, strict=True):
        for when in campaign_tables.STAGES:
            axes.plot([100 * row[f"{label}_{when}"] for row in covered], marker=".", linewidth=1, label=when)
        axes.set(ylabel=f"{label} that pass, %", ylim=(-4, 104))
        axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axes.set(xlabel="problems, largest false-positive reduction first")
    axes.legend(fontsize=7)
    _saved(figure, path)


def draw_statuses(table: Mapping[str, Mapping[str, float]], path: pathlib.Path) -> None:
    """Plot executions by status on generated tests before and after the filters (App. B.5, Figures 18 and 19).

    Args:
      table: as `campaign_tables.status_table` returns it.
      path: the PNG file.
    """
    figure = Figure(figsize=(8, 4))
    axes = figure.subplots()
    # Incorrect solutions run in one campaign alone.
    totals = {name: sum(row.values()) for name, row in table.items() if sum(row.values())}
    left = np.zeros(len(totals))
    for status in campaign_tables.STATUSES:
        shares = np.array([100 * table[name][status] / total for name, total in totals.items()])
        axes.barh(list(totals), shares, left=left, label=status)
        left += shares
    axes.set(xlabel="executions, %")
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=7)
    # Above the bars, which fill all of the width.
    axes.legend(fontsize=7, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(campaign_tables.STATUSES))
    _saved(figure, path)


def draw_prevalence(examples: Sequence[dataset_statistics.Example], path: pathlib.Path) -> None:
    """Plot tails with equal weight for each problem, and how many problems have slow tests (App. B.8, Figure 22).

    Args:
      examples: problems of the dataset, whole or condensed.
      path: the PNG file.
    """
    thresholds_s = np.geomspace(0.001, 10, 60)
    figure = Figure(figsize=(9, 3.5))
    tails, prevalence = figure.subplots(1, 2)
    for kind in KINDS:
        select = dataset_statistics.CATEGORIES[kind]
        suites = [s[np.isfinite(s)] for s in (dataset_statistics.mean_seconds(e)[select(e)] for e in examples)]
        shares = np.array([[(one > limit).mean() for limit in thresholds_s] for one in suites if one.size])
        if shares.size:
            tails.plot(thresholds_s, shares.mean(axis=0), label=kind)
            prevalence.plot(thresholds_s, (shares > 0).mean(axis=0), label=f"{kind}, any")
            prevalence.plot(thresholds_s, (shares >= 0.1).mean(axis=0), linestyle="--", label=f"{kind}, a tenth")
    tails.set(xscale="log", xlabel="threshold, s", ylabel="share of tests above, mean over problems")
    prevalence.set(xscale="log", xlabel="threshold, s", ylabel="share of problems with slow tests")
    for axes in (tails, prevalence):
        axes.legend(fontsize=7)
    _saved(figure, path)


def draw_quantiles(examples: Sequence[dataset_statistics.Example], path: pathlib.Path) -> None:
    """Plot median, p90, p99 and largest duration of every problem, by kind of tests (App. B.8, Figure 23).

    Args:
      examples: problems of the dataset, whole or condensed.
      path: the PNG file.
    """
    figure = Figure(figsize=(10, 3))
    all_axes = figure.subplots(1, len(tail_tables.QUANTILES), sharey=True)
    for kind in KINDS:
        for axes, (name, values) in zip(
            all_axes, tail_tables.per_problem_quantiles(examples, kind).items(), strict=True
        ):
            axes.plot(np.sort(values), marker=".", linewidth=1, label=kind)
            axes.set(title=name, yscale="log", xlabel="problems, sorted")
            axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
            plain_log_ticks(axes.yaxis)
    all_axes[0].set_ylabel("seconds")
    all_axes[0].legend(fontsize=7)
    _saved(figure, path)


def draw_sizes(datasets: Mapping[str, Sequence[dataset_statistics.Example]], path: pathlib.Path) -> None:
    """Plot histograms and cumulative shares of the characters of tests, by dataset (App. A, Figure 8).

    Args:
      datasets: name -> its problems, whole or condensed; a dashed line marks the median.
      path: the PNG file.
    """
    figure = Figure(figsize=(9, 3.5))
    histogram, cumulative = figure.subplots(1, 2)
    pools = {name: np.maximum(1, tail_tables.pool_characters(examples)) for name, examples in datasets.items()}
    bins = np.geomspace(1, max([10.0, *(pool.max() for pool in pools.values() if pool.size)]), 40)
    for index, (name, pool) in enumerate(pools.items()):
        if pool.size:
            color = f"C{index}"
            histogram.hist(pool, bins=bins, histtype="step", color=color, label=f"{name}: {pool.size} tests")
            histogram.axvline(np.median(pool), color=color, linestyle="--", linewidth=1)
            cumulative.step(np.sort(pool), np.arange(1, pool.size + 1) / pool.size, where="post", color=color)
    histogram.set(xscale="log", yscale="log", xlabel="characters of input and output", ylabel="tests")
    cumulative.set(xscale="log", xlabel="characters of input and output", ylabel="share of tests up to it")
    histogram.legend(fontsize=7)
    _saved(figure, path)


def draw_executions(datasets: Mapping[str, Sequence[dataset_statistics.Example]], path: pathlib.Path) -> None:
    """Plot histogram and survival of the seconds of executions, by dataset (App. A, Figure 9).

    Args:
      datasets: name -> its problems, whole or condensed; those without durations are left out.
      path: the PNG file.
    """
    figure = Figure(figsize=(9, 3.5))
    histogram, survival = figure.subplots(1, 2)
    for index, (name, examples) in enumerate(datasets.items()):
        seconds = np.sort(tail_tables.pool_executions(examples))
        if seconds.size:
            label = f"{name}: {seconds.size} executions"
            histogram.hist(seconds, bins=50, histtype="step", color=f"C{index}", label=label)
            above = 1 - np.arange(seconds.size) / seconds.size
            survival.step(seconds, above, where="post", color=f"C{index}", label=name)
    histogram.set(yscale="log", xlabel="seconds of an execution", ylabel="executions")
    survival.set(yscale="log", xlabel="threshold, s", ylabel="share of executions from it on")
    histogram.legend(fontsize=7)
    _saved(figure, path)


def _saved(figure: Figure, path: pathlib.Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
