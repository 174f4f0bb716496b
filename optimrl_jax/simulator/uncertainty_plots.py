"""Figures of the study of uncertain seconds: what a gate gives around its place, which pairs it orders, reliability."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from optimrl_jax.evaluation import style
from optimrl_jax.simulator.recorded import KNOWLEDGE, RecordedEffect
from optimrl_jax.simulator.recorded import WAYS as RECORDED_WAYS
from optimrl_jax.simulator.uncertainty import KINDS, WAYS, Effect, Reliability

LABELS = {
    "plain": "seconds at face value",
    "aware": "redrawn with the deviation of one run",
    "scaled": "redrawn with the deviation of the mean",
}


def gate_figure(effects: Sequence[Effect], *, noise: float, measurements: int) -> Figure:
    """Draw the mean gate over the true gap, with its deviation, by family and number of repeats.

    Args:
      effects: of the study.
      noise: the one to draw.
      measurements: of each point, for the caption.
    """
    chosen = [e for e in effects if (e.signal, e.kind, e.noise) == ("gate", KINDS[0], noise)]
    repeats, families = sorted({effect.repeats for effect in chosen}), _families(chosen)
    caption = f"noise of a run {noise:.0%}, errors of every run its own; n = {measurements}; bands: standard deviation"
    figure = style.new_figure(11, 2.8 * len(repeats) + 0.4, caption=caption)
    panels = figure.subplots(len(repeats), len(families), sharex=True, sharey=True, squeeze=False)
    for row, runs in zip(panels, repeats, strict=True):
        for axes, family in zip(row, families, strict=True):
            for index, way in enumerate(WAYS):
                points = sorted(
                    (e.gap, e.truth + e.bias, e.std)
                    for e in chosen
                    if (e.family, e.repeats, e.way) == (family, runs, way)
                )
                gap, mean, std = np.array(points).T
                look = {"color": style.colour(index), "marker": style.marker(index), "markersize": 4}
                axes.plot(100 * gap, mean, label=LABELS[way], **look)
                low, high = np.clip(mean - std, 0, 1), np.clip(mean + std, 0, 1)
                axes.fill_between(100 * gap, low, high, color=style.colour(index), alpha=0.12, linewidth=0)
            widest = 100 * max(effect.gap for effect in chosen)
            axes.plot([-widest, 0, 0, widest], [0, 0, 1, 1], color="0.6", linewidth=0.8)
            axes.set_title(f"{family}, {runs} run{'s' if runs > 1 else ''} a test", fontsize=9)
    for axes in panels[-1]:
        axes.set_xlabel("faster than the gate by, %")
    for axes in panels[:, 0]:
        axes.set_ylabel("mean gate")
    style.show_legend(panels[0, -1])
    return figure


def order_figure(effects: Sequence[Effect], *, gap: float, measurements: int) -> Figure:
    """Draw how often the slower program of a pair earns more, over the noise, for both kinds of errors.

    Args:
      effects: of the study.
      gap: of the pair: one faster than the gate by as much, one slower.
      measurements: of each point, for the caption.
    """
    chosen = [e for e in effects if e.signal == "gate" and e.gap == gap]
    families = _families(chosen)
    runs, noises = max(effect.repeats for effect in chosen), sorted({effect.noise for effect in chosen})
    caption = (
        f"programs {gap:.0%} faster and slower than the gate, {runs} runs a test; n = {measurements}; ties one half"
    )
    figure = style.new_figure(11, 5.4, caption=caption)
    panels = figure.subplots(len(KINDS), len(families), sharex=True, sharey=True, squeeze=False)
    for row, kind in zip(panels, KINDS, strict=True):
        for axes, family in zip(row, families, strict=True):
            for index, way in enumerate(WAYS):
                wanted = (family, kind, runs, way)
                points = sorted(
                    (e.noise, e.misordered) for e in chosen if (e.family, e.kind, e.repeats, e.way) == wanted
                )
                look = {"color": style.colour(index), "marker": style.marker(index), "markersize": 4}
                axes.plot(*(100 * np.array(points).T), label=LABELS[way], **look)
            axes.set(xscale="log", ylim=(-2, 62))
            axes.set_xticks([100 * one for one in noises], [f"{100 * one:g}" for one in noises])
            axes.minorticks_off()
            axes.set_title(f"{family}, {'own errors' if kind == KINDS[0] else 'one error for all runs'}", fontsize=9)
    for axes in panels[-1]:
        axes.set_xlabel("noise of a run, %")
    for axes in panels[:, 0]:
        axes.set_ylabel("misordered, %")
    style.show_legend(panels[0, -1])
    return figure


def reliability_figure(found: Sequence[Reliability], *, groups: int) -> Figure:
    """Draw the estimated reliability of groups against the true one.

    Args:
      found: of the study.
      groups: of each mark, for the caption.
    """
    caption = f"a mark for each noise and spread, mean of {groups} groups; the line is y = x"
    figure = style.new_figure(5.6, 4.0, caption=caption)
    axes = figure.subplots()
    for index, kind in enumerate(KINDS):
        points = np.array([(one.true, one.estimated) for one in found if one.kind == kind])
        label = "own errors" if kind == KINDS[0] else "one error for all runs"
        axes.scatter(*points.T, color=style.colour(index), marker=style.marker(index), label=label)
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
    axes.set(xlabel="true reliability of a group", ylabel="estimated from stored deviations")
    style.show_legend(axes)
    return figure


RECORDED_LABELS = {
    "plain": "seconds at face value",
    "redrawn": "redrawn",
    "weighed": "groups weighed",
    "dropped": "noisy tests dropped",
}


def recorded_figure(effects: Sequence[RecordedEffect], *, groups: int, rollouts: int, draws: int) -> Figure:
    """Draw how well updates point where they should, and whose signs they keep, over the noise of the clock.

    Args:
      effects: of the study.
      groups: of the run that were rewarded, for the caption.
      rollouts: in them.
      draws: measurements of each.
    """
    caption = f"{rollouts:,} rollouts in {groups} groups, {draws} measurements each; bars: 95 % over problems"
    figure = style.new_figure(9.5, 6.0, caption=caption)
    panels = figure.subplots(2, len(KNOWLEDGE), sharex=True, sharey="row")
    noises = sorted({effect.noise for effect in effects})
    for column, knowledge in zip(panels.T, KNOWLEDGE, strict=True):
        for index, way in enumerate(RECORDED_WAYS):
            chosen = sorted((e for e in effects if (e.knowledge, e.way) == (knowledge, way)), key=lambda e: e.noise)
            # Side by side, so that bars do not hide one another.
            x = 100 * np.array([e.noise for e in chosen]) * 1.04 ** (index - 1.5)
            look = {"color": style.colour(index), "marker": style.marker(index), "markersize": 4, "capsize": 2}
            for axes, name, factor in zip(column, ("cosine", "wrong_sign"), (1, 100), strict=True):
                mean, low, high = factor * np.array([getattr(e, name) for e in chosen]).T
                axes.errorbar(x, mean, style.whiskers(mean, low, high), label=RECORDED_LABELS[way], **look)
        column[0].set_title(knowledge, fontsize=10)
        column[0].set_xscale("log")
        column[1].set_xlabel("noise of a run, %")
        column[1].set_xticks([100 * one for one in noises], [f"{100 * one:g}" for one in noises])
        column[1].minorticks_off()
    panels[0, 0].set_ylabel("cosine with the true update")
    panels[1, 0].set_ylabel("advantages of another sign, %")
    style.show_legend(panels[0, -1])
    return figure


def _families(effects: Sequence[Effect]) -> list[str]:
    return list(dict.fromkeys(effect.family for effect in effects))
