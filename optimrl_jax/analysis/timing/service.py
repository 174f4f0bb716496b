"""Sections about the sandbox during training: who settled what, bursts, and slow spells no count shows (App. C.5)."""

import dataclasses
import typing
from collections.abc import Sequence

import numpy as np

from optimrl_jax.analysis.sections import FigureOf, Row, Section, TableOf, absent
from optimrl_jax.analysis.study import Study, run_labels
from optimrl_jax.analysis.timing.service_log import ServiceLog, read_service_log
from optimrl_jax.evaluation import style

# The paper's warm-up is 1,000 of 10,000 steps, in which policies still learn the format of answers.
WARM_UP_SHARE = 0.1
BURST_BELOW = 0.9
MOST_BURSTS = 4
MARGIN = 10
NEEDS_RUNS = "name workdirs with --runs=W1,W2 of runs that kept their rollouts (grpo.keeps_rollouts)"


class Burst(typing.NamedTuple):
    """A stretch of batches of which the service settled too few.

    Attributes:
      first: index of its first batch in the log.
      last: of its last one.
    """

    first: int
    last: int


def service(study: Study) -> Section:
    """Tabulate the rates of each run after its warm-up, and draw them over batches (Table 28, Figures 26, 28)."""
    title = "Sandbox during training"
    logs = _logs(study)
    if not logs:
        return absent(title, "Rollouts settled by the service alone, by the fallback, by nobody.", NEEDS_RUNS)
    rows: list[Row] = []
    for log in logs:
        on = after_warm_up(log)
        rows.append(
            {
                "run": log.run,
                "batches": int(on.sum()),
                "service_only_mean": _percent(log.service_only[on].mean()),
                "service_only_min": _percent(log.service_only[on].min()),
                "fallback": _percent(log.fallback[on].mean()),
                "unresolved": _percent(log.unresolved[on].mean()),
                "parsed_in_warm_up": _percent(log.parsed[~on].mean()) if (~on).any() else float("nan"),
                "parsed_after": _percent(log.parsed[on].mean()),
            }
        )
    text = "A rollout counts as the service's own where it holds a program and every test got a verdict without help."
    return Section(
        title,
        text,
        [TableOf("service", f"percent of rollouts after the first {WARM_UP_SHARE:.0%} of batches", rows)],
        [_rates_figure(logs)],
    )


def bursts(study: Study) -> Section:
    """List the bursts of each run, draw their anatomy, and compare runs whose averages look alike (Tables 29, 30)."""
    title = "Bursts and slow spells"
    logs = _logs(study)
    if not logs:
        return absent(title, "Short failures, and the returns of runs without any.", NEEDS_RUNS)
    events = [(log, burst) for log in logs for burst in find_bursts(log)]
    caption = f"consecutive batches after the warm-up with under {BURST_BELOW:.0%} of rollouts settled by the service"
    rows = [_burst_row(log, burst) for log, burst in events]
    symptoms = [_symptom_row(log) for log in logs]
    figures = [_returns_figure(logs)]
    worst = sorted(events, key=lambda event: event[0].service_only[event[1].first : event[1].last + 1].min())
    if worst:
        figures.insert(0, _anatomy_figure(worst[:MOST_BURSTS]))
    found = f"Bursts: {len(events)}, runs: {len(logs)}. "
    return Section(
        title,
        found + "A run without any can still have noisy returns: verdicts stay right while seconds shift.",
        [
            TableOf("bursts", f"{caption}; percent, and mean returns", rows),
            TableOf("silent_and_bursty", "after the warm-up; percent, and returns of batches", symptoms),
        ],
        figures,
    )


def after_warm_up(log: ServiceLog) -> np.ndarray:
    """Mark the batches that count, bool`[n]`: those after the first tenth."""
    return np.arange(len(log.batch)) >= int(WARM_UP_SHARE * len(log.batch))


def find_bursts(log: ServiceLog) -> list[Burst]:
    """Find stretches of batches after the warm-up with less than 90 % settled by the service alone (Table 29)."""
    is_low = np.concatenate([[False], (log.service_only < BURST_BELOW) & after_warm_up(log), [False]])
    starts, ends = np.flatnonzero(is_low[1:] & ~is_low[:-1]), np.flatnonzero(is_low[:-1] & ~is_low[1:])
    return [Burst(int(start), int(end) - 1) for start, end in zip(starts, ends, strict=True)]


def _logs(study: Study) -> list[ServiceLog]:
    labels = run_labels(study.runs)
    logs = {labels[str(run)]: log for run in study.runs if (log := read_service_log(run))}
    return [dataclasses.replace(log, run=label) for label, log in logs.items()]


def _percent(share: float) -> float:
    return 100 * float(share)


def _burst_row(log: ServiceLog, burst: Burst) -> Row:
    on = slice(burst.first, burst.last + 1)
    return {
        "run": log.run,
        "first_batch": int(log.batch[burst.first]),
        "last_batch": int(log.batch[burst.last]),
        "batches": burst.last - burst.first + 1,
        "service_only_min": _percent(log.service_only[on].min()),
        "fallback_peak": _percent(log.fallback[on].max()),
        "unresolved_peak": _percent(log.unresolved[on].max()),
        "timeouts_peak": _percent(log.timeouts[on].max()),
        "return_in_burst": float(np.nanmean(log.reward[on])) if np.isfinite(log.reward[on]).any() else float("nan"),
        "return_of_run": float(np.nanmean(log.reward[after_warm_up(log)])),
    }


def _symptom_row(log: ServiceLog) -> Row:
    on = after_warm_up(log)
    returns = log.reward[on][np.isfinite(log.reward[on])]
    return {
        "run": log.run,
        "service_only_mean": _percent(log.service_only[on].mean()),
        "service_only_min": _percent(log.service_only[on].min()),
        "fallback_mean": _percent(log.fallback[on].mean()),
        "unresolved_mean": _percent(log.unresolved[on].mean()),
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std()),
        "return_range": float(np.ptp(returns)),
        "correct_mean": _percent(log.correct[on].mean()),
    }


def _rates_figure(logs: Sequence[ServiceLog]) -> FigureOf:
    caption = "every batch of rollouts; a line for each run; dashed: end of the warm-up"
    figure = style.new_figure(10.0, 5.0, caption=caption)
    panels = {
        "service_only": "settled by the service alone, %",
        "parsed": "rollouts with a program, %",
        "fallback": "settled by the fallback, %",
        "unresolved": "settled by nobody, %",
    }
    for axes, (name, label) in zip(figure.subplots(2, 2, sharex=True).ravel(), panels.items(), strict=True):
        for index, log in enumerate(logs):
            axes.plot(log.batch, 100 * getattr(log, name), color=style.colour(index), linewidth=1, label=log.run)
            axes.axvline(log.batch[after_warm_up(log)][0], color="0.7", linewidth=0.8, linestyle="dashed")
        axes.set(ylabel=label, xlabel="batch", ylim=(0, 102) if name in ("service_only", "parsed") else (0, None))
        axes.yaxis.label.set_fontsize(8)
        if name == "parsed":
            style.show_legend(axes)
    return FigureOf("service", f"who settled the rollouts: {caption}", figure)


def _anatomy_figure(events: Sequence[tuple[ServiceLog, Burst]]) -> FigureOf:
    caption = f"shaded: the burst, with {MARGIN} batches before and after it; the worst {len(events)}"
    figure = style.new_figure(9.6, 2.6 * len(events) + 0.4, caption=caption)
    for row, (log, burst) in zip(figure.subplots(len(events), 2, squeeze=False), events, strict=True):
        on = slice(max(0, burst.first - MARGIN), burst.last + MARGIN + 1)
        for index, name in enumerate(("service_only", "fallback", "unresolved", "timeouts")):
            look = {"color": style.colour(index), "marker": style.marker(index), "markersize": 3}
            row[0].plot(log.batch[on], 100 * getattr(log, name)[on], label=name.replace("_", " "), **look)
        row[1].plot(log.batch[on], log.reward[on], color=style.colour(5), marker="o", markersize=3)
        for axes, label in zip(row, ("%", "mean return"), strict=True):
            axes.axvspan(log.batch[burst.first] - 0.5, log.batch[burst.last] + 0.5, color="0.9", zorder=0)
            axes.set(xlabel="batch", ylabel=label, title=log.run)
            axes.title.set_fontsize(9)
        style.show_legend(row[0])
    return FigureOf("burst_anatomy", f"rates and returns around bursts: {caption}", figure)


def _returns_figure(logs: Sequence[ServiceLog]) -> FigureOf:
    caption = "mean return of every batch; a line for each run"
    figure = style.new_figure(8.0, 3.2, caption=caption)
    axes = figure.subplots()
    for index, log in enumerate(logs):
        axes.plot(log.batch, log.reward, color=style.colour(index), linewidth=1, label=log.run)
    axes.set(xlabel="batch", ylabel="mean return")
    style.show_legend(axes)
    return FigureOf("returns", f"returns that a count of failures would not explain: {caption}", figure)
