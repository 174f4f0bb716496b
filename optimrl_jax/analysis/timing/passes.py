"""Sections about timing passes: coverage, drift by problem, and what repeating them changes (App. C.2, C.7)."""

import itertools
from collections.abc import Sequence

import numpy as np

from optimrl_jax.analysis.sections import FigureOf, Row, Section, TableOf, absent
from optimrl_jax.analysis.study import Study, TimingRun
from optimrl_jax.analysis.timing import cells, reruns
from optimrl_jax.evaluation import style
from optimrl_jax.evaluation.leaderboards import spearman_rho

NEEDS_REFERENCES = "needs problems with references"
NEEDS_PASSES = (
    "needs records of two timing passes: evaluate again with evaluation.policies=((NAME, RECORDS#NAME),), which times "
    "the programs of stored records anew"
)


def timing_passes(study: Study) -> Section:
    """Tabulate what each pass covers, and its drift against stored seconds by problem (App. C.2, C.7)."""
    title = "Timing passes"
    if not study.has_leaderboard:
        return absent(title, "Coverage and drift of each pass.", NEEDS_REFERENCES)
    stored_s = cells.stored_cells(study)
    coverage: list[Row] = []
    ratios: list[Row] = []
    for timing in study.passes:
        fresh_s = cells.reference_cells(study, timing)
        found = reruns.coverage(fresh_s, cells.reference_runs(study, timing))
        coverage.append({"pass": timing.name, "sandbox": timing.address} | found._asdict())
        ratios += _drift_rows(study, timing, stored_s, fresh_s)
    caption = "of the references on optimization tests; coverage: cells with seconds, lowest: of the worst problem"
    drift = (
        "fresh over stored seconds, median over cells; spearman and bias (percent points): mean percentiles of "
        "references among stored seconds against those among fresh ones"
    )
    return Section(
        title,
        "Does a pass fill its timing matrix, and do all problems drift alike? One global factor would be one ratio.",
        [TableOf("coverage", caption, coverage), TableOf("drift_by_problem", drift, ratios)],
        [_drift_figure(study, ratios)],
    )


def repeated_passes(study: Study) -> Section:
    """Measure what changes when the same programs are timed again (Table 31, App. C.2, C.7, C.8)."""
    title = "Repeated measurements"
    if not study.has_leaderboard:
        return absent(title, "The same programs, timed again.", NEEDS_REFERENCES)
    if len(study.passes) < 2:
        return absent(title, "The same programs, timed again.", NEEDS_PASSES)
    fresh_s = [cells.reference_cells(study, timing) for timing in study.passes]
    flat_s = np.stack([np.concatenate([own.ravel() for own in of_pass]) for of_pass in fresh_s])
    noise, variance = reruns.short_run_noise(flat_s), reruns.variance_decomposition(flat_s)
    programs = cells.repeated_programs(study, study.passes)
    places = {one.name: _places(one, fresh_s) for one in programs}
    movement = [_movement_row(name, values) for name, values in places.items()]
    orders, summary = _order_rows(study, fresh_s)
    passes = len(study.passes)
    between = variance.between / variance.total if variance.total else float("nan")
    share: Row = variance._asdict() | {"between_share": between, "cells": int(noise.cv.size), "passes": passes}
    return Section(
        title,
        "One pass against another on unchanged programs. Places on the leaderboard are those among the references of "
        "the same pass.",
        [
            TableOf("short_run_noise", f"over {passes} passes; cells: references on optimization tests", _noise(noise)),
            TableOf("variance", "of seconds, s^2: between cells, and of a cell over passes", [share]),
            TableOf(
                "movement",
                "mean percentile, percent points, of a program over passes; averaged over problems",
                movement,
            ),
            TableOf("workload_order", "slope of a pass's median seconds of tests over stored ones", orders),
            TableOf("workload_summary", "flipped: problems whose slope changes sign between passes", summary),
            TableOf(
                "profile_agreement",
                "rank correlation of mean percentiles: over problems for policies, over programs for references",
                _profile(study, places),
            ),
        ],
        [_noise_figure(noise, places, passes), _profile_figure(study, places)],
    )


def _drift_rows(
    study: Study, timing: TimingRun, stored_s: Sequence[np.ndarray], fresh_s: Sequence[np.ndarray]
) -> list[Row]:
    rows: list[Row] = []
    for problem, stored, fresh in zip(study.problems, stored_s, fresh_s, strict=True):
        own = np.arange(stored.shape[1])
        among_stored, among_fresh = (
            reruns.mean_percentile(fresh.T, board, leaves_out=own) for board in (stored, fresh)
        )
        on = np.isfinite(among_stored) & np.isfinite(among_fresh)
        bias = float(np.mean((among_stored - among_fresh)[on])) if on.any() else float("nan")
        rho = spearman_rho(among_stored[on], among_fresh[on])
        ratio = reruns.drift_ratio(stored, fresh)
        rows.append({"pass": timing.name, "problem": problem.id, "ratio": ratio, "spearman": rho, "bias": bias})
    return rows


def _drift_figure(study: Study, rows: Sequence[Row]) -> FigureOf:
    caption = f"median of fresh / stored seconds; a mark for each of {len(study.problems)} problems, by ratio"
    figure = style.new_figure(7.4, 3.4, caption=caption)
    axes = figure.subplots()
    for index, timing in enumerate(study.passes):
        ratios = np.sort([row["ratio"] for row in rows if row["pass"] == timing.name])
        look = {"marker": style.marker(index), "color": style.colour(index), "label": timing.name, "markersize": 3}
        axes.plot(np.arange(len(ratios)), ratios, linewidth=0.8, **look)
    axes.axhline(1, color="0.6", linewidth=0.8)
    axes.set(xlabel="problems, in order of their ratio", ylabel="fresh / stored seconds")
    style.show_legend(axes)
    return FigureOf("drift_by_problem", f"drift of each pass by problem: {caption}", figure)


def _places(programs: cells.Repeated, fresh_s: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Place programs in each pass among the references of that pass, `[passes, n]` of each problem."""
    return [
        np.stack(
            [
                reruns.mean_percentile(
                    own[b], boards[b], leaves_out=programs.leaves_out[b] if programs.leaves_out else None
                )
                for own, boards in zip(programs.seconds, fresh_s, strict=True)
            ]
        )
        for b in range(len(fresh_s[0]))
    ]


def _movement_row(name: str, places: Sequence[np.ndarray]) -> Row:
    known = [own[:, np.isfinite(own).all(axis=0)] for own in places]
    known = [own for own in known if own.size]
    deviation = [own.std(axis=0, ddof=1).mean() for own in known]
    span = [np.ptp(own, axis=0).mean() for own in known]
    widest = max((np.ptp(own, axis=0).max() for own in known), default=float("nan"))
    means = {"std": deviation, "range": span}
    row = {key: float(np.mean(values)) if values else float("nan") for key, values in means.items()}
    return {"programs": name, "problems": len(known)} | row | {"widest": float(widest)}


def _noise(noise: reruns.Noise) -> list[Row]:
    values = {"cv, %": 100 * noise.cv, "std, ms": 1e3 * noise.std_s, "mean, s": noise.mean_s}
    return [{"statistic": name} | reruns.spread_of(own)._asdict() for name, own in values.items()]


def _order_rows(study: Study, fresh_s: Sequence[Sequence[np.ndarray]]) -> tuple[list[Row], list[Row]]:
    rows: list[Row] = []
    for b, (problem, stored) in enumerate(zip(study.problems, cells.stored_cells(study), strict=True)):
        order = reruns.workload_order(stored, [of_pass[b] for of_pass in fresh_s])
        if order:
            low, high = float(order.slopes.min()), float(order.slopes.max())
            row = {"problem": problem.id, "lowest_slope": low, "highest_slope": high, "range": high - low}
            rows.append(row | {"is_flipped": order.is_flipped, "median_r_squared": float(np.median(order.r_squared))})
    span = np.array([row["range"] for row in rows])
    flipped = sum(row["is_flipped"] for row in rows)
    summary: Row = {"problems": len(rows), "flipped": flipped}
    if rows:
        summary |= {"mean_range": float(span.mean()), "p90_range": float(np.percentile(span, 90))}
        summary |= {"widest_range": float(span.max())}
    return rows, [summary]


def _by_problem(places: Sequence[np.ndarray]) -> np.ndarray:
    """Average over programs, `[passes, problems]`; nan where a problem has none."""
    return np.stack(
        [
            np.nanmean(own, axis=1) if np.isfinite(own).any(axis=1).all() else np.full(len(own), np.nan)
            for own in places
        ],
        axis=1,
    )


def _profiled(places: dict[str, list[np.ndarray]]) -> dict[str, np.ndarray]:
    """Average the programs of each policy by problem, `[passes, problems]`; references one by one where there is none.

    The references of a problem stand in the middle on average, whatever a pass says.
    """
    *policies, references = places
    if not policies:
        return {references: np.concatenate(places[references], axis=1)}
    return {name: _by_problem(places[name]) for name in policies}


def _profile(study: Study, places: dict[str, list[np.ndarray]]) -> list[Row]:
    rows: list[Row] = []
    for name, means in _profiled(places).items():
        for a, b in itertools.combinations(range(len(study.passes)), 2):
            on = np.isfinite(means[a]) & np.isfinite(means[b])
            rho = spearman_rho(means[a][on], means[b][on])
            left, right = study.passes[a].name, study.passes[b].name
            rows.append({"programs": name, "left": left, "right": right, "spearman": rho, "n": int(on.sum())})
    return rows


def _noise_figure(noise: reruns.Noise, places: dict[str, list[np.ndarray]], passes: int) -> FigureOf:
    caption = (
        f"{passes} passes; left: n = {noise.cv.size} cells, right: one value a problem, the mean over its programs"
    )
    figure = style.new_figure(9.0, 3.4, caption=caption)
    left, right = figure.subplots(1, 2)
    cv_percent = 100 * noise.cv[np.isfinite(noise.cv)]
    left.hist(cv_percent, bins=30, range=(0, max(1.0, cv_percent.max(initial=0))), color=style.colour(0))
    left.set(xlabel="coefficient of variation over passes, %", ylabel="cells")
    for index, (name, values) in enumerate(places.items()):
        known = [own[:, np.isfinite(own).all(axis=0)] for own in values]
        deviation = sorted(own.std(axis=0, ddof=1).mean() for own in known if own.size)
        look = {"color": style.colour(index), "marker": style.marker(index), "markersize": 3, "label": name}
        right.plot(deviation, np.linspace(0, 100, len(deviation)), linewidth=0.8, **look)
    right.set(xlabel="deviation of the mean percentile, points", ylabel="problems up to it, %")
    style.show_legend(right)
    return FigureOf("short_run_noise", f"what repeating a pass changes: {caption}", figure)


def _profile_figure(study: Study, places: dict[str, list[np.ndarray]]) -> FigureOf:
    first, last = study.passes[0].name, study.passes[-1].name
    caption = "mean percentiles; a mark for each problem of a policy, or for each reference; the line is y = x"
    figure = style.new_figure(5.6, 4.4, caption=caption)
    axes = figure.subplots()
    for index, (name, means) in enumerate(_profiled(places).items()):
        look = {"color": style.colour(index), "marker": style.marker(index), "label": name}
        axes.scatter(means[0], means[-1], s=14, alpha=0.7, **look)
    axes.plot([0, 100], [0, 100], color="0.7", linewidth=0.8)
    axes.set(xlabel=f"{first}, %", ylabel=f"{last}, %")
    style.show_legend(axes)
    return FigureOf("profile_agreement", f"the same problems in two passes: {caption}", figure)
