"""Sections about two clocks: maps between them, rankings across them, tight limits on both (App. C.2, C.7)."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from optimrl_jax.analysis.sections import FigureOf, Row, Section, TableOf, absent
from optimrl_jax.analysis.study import PolicyRun, Study, TimingRun
from optimrl_jax.analysis.timing import cells, reruns
from optimrl_jax.analysis.timing.corrections import CORRECTIONS, Correction, fit_corrections
from optimrl_jax.analysis.timing.passes import NEEDS_PASSES, NEEDS_REFERENCES
from optimrl_jax.environment.families import DURATIONS_S
from optimrl_jax.evaluation import style
from optimrl_jax.evaluation.scores import mean_score, pass_per_problem

STORED = "stored"
MOST_POINTS = 4000
Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def corrections(study: Study) -> Section:
    """Fit four families of maps from stored seconds to each pass, and between passes (Tables 26 and 32, Figure 31)."""
    title = "Maps between clocks"
    if not study.has_leaderboard:
        return absent(title, "Four families of maps.", NEEDS_REFERENCES)
    clocks = {STORED: cells.stored_cells(study)} | {t.name: cells.reference_cells(study, t) for t in study.passes}
    rows: list[Row] = []
    for left, right in itertools.combinations(clocks, 2):
        x, y, problem = _pairs(clocks[left], clocks[right])
        for name, found in fit_corrections(x, y, problem).items():
            values = {n: getattr(found, n) for n in ("r_squared", "unseen_r_squared", "unseen_rmse_s")}
            coefficients = " ".join(f"{value:.5g}" for value in found.coefficients)
            rows.append(
                {"from": left, "to": right, "family": name, "coefficients": coefficients, "pairs": x.size} | values
            )
    first = study.passes[0]
    pairs = _pairs(clocks[STORED], clocks[first.name])
    fitted = fit_corrections(*pairs)
    caption = (
        "seconds of references on optimization tests that both clocks have; unseen: problems left out one at a time; "
        "coefficients: highest power first, power law: exponent and log of the factor"
    )
    return Section(
        title,
        "If one clock were a rescaled other, a map would predict the seconds of problems that it has not seen.",
        [TableOf("corrections", caption, rows)],
        [_fits_figure(first, pairs, fitted), _residuals_figure(first, pairs, fitted)] if fitted else [],
        missing="" if fitted else "fewer than four references succeeded both times",
    )


def protocols(study: Study) -> Section:
    """Rank the same programs under 13 protocols that mix two clocks, and compare tight limits (Figure 25, Table 25)."""
    title = "Two sandboxes"
    if len(study.passes) < 2:
        return absent(title, "Rankings and limits across sandboxes.", NEEDS_PASSES)
    first, *others = study.passes
    placed = {other.name: rank_protocols(study, first, other) for other in others} if study.has_leaderboard else {}
    rows: list[Row] = [
        {"service": first.name, "local": name, "programs": programs, "protocol": protocol}
        | {"mean_percentile": _mean(values), "problems": int(np.isfinite(values).sum())}
        for name, (programs, table) in placed.items()
        for protocol, values in table.items()
    ]
    inflated = [row for other in others for row in _inflation_rows(study, first, other)]
    caption = (
        f"programs / references; c, ces: in {first.name}; l: in the other pass; s: stored; p, pred, and a after "
        "the slash: stored, mapped to that pass; m, pw, a, pl before it: measured in the other pass and mapped by "
        "a multiplicative, power, affine or polynomial fit"
    )
    limits = "pass@1, percent, of the same programs with every test under the limit; inflation: other over first pass"
    missing = "" if rows or inflated else "no policy's programs were timed in both passes, and there are no references"
    return Section(
        title,
        f"Would the seconds of another sandbox give the ranking of {first.name}? Gold c/c is that ranking.",
        [TableOf("protocols", caption, rows), TableOf("inflation", limits, inflated)],
        [_protocol_figure(first, name, *found) for name, found in list(placed.items())[:1]],
        missing=missing,
    )


def rank_protocols(study: Study, service: TimingRun, local: TimingRun) -> tuple[str, dict[str, np.ndarray]]:
    """Compute the mean percentile of each problem's programs under the 13 protocols of Figure 25.

    Args:
      study: with both passes.
      service: the pass whose ranking is the truth.
      local: the other one.

    Returns:
      Whose programs these are, and percent `[b]` by protocol; nan for a problem without a correct program.
    """
    programs = cells.repeated_programs(study, [service, local])[0]
    service_s, local_s = programs.seconds
    own = programs.leaves_out
    stored, ces, here = cells.stored_cells(study), *(cells.reference_cells(study, t) for t in (service, local))
    to_service = fit_corrections(*_pairs(stored, ces))
    repairs = fit_corrections(*_pairs(here, ces))
    affine = _map_of("affine", to_service)
    predicted = [affine(board) for board in stored]

    def ranked(candidates: Sequence[np.ndarray], boards: Sequence[np.ndarray]) -> np.ndarray:
        places = [
            reruns.mean_percentile(seconds, board, leaves_out=own[b] if own else None)
            for b, (seconds, board) in enumerate(zip(candidates, boards, strict=True))
        ]
        return np.array([np.nanmean(place) if np.isfinite(place).any() else np.nan for place in places])

    table = {"gold c/c": ranked(service_s, ces), "gold c/p": ranked(service_s, predicted)}
    short = dict(zip(CORRECTIONS, ("m", "pw", "a", "pl"), strict=True))
    for suffix, boards in (("ces", ces), ("pred", predicted)):
        for family in CORRECTIONS:
            repair = _map_of(family, repairs)
            table[f"{short[family]}/{suffix}"] = ranked([repair(seconds) for seconds in local_s], boards)
    return programs.name, table | {
        "l/l": ranked(local_s, here),
        "l/s": ranked(local_s, stored),
        "l/a": ranked(local_s, predicted),
    }


def _map_of(family: str, fitted: dict[str, Correction]) -> Callable[[np.ndarray], np.ndarray]:
    """Return the map of a family; the identity where nothing could be fitted."""
    if family not in fitted:
        return lambda seconds: seconds
    return lambda seconds: CORRECTIONS[family].apply(fitted[family].coefficients, seconds)


def _pairs(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> Pairs:
    """Join the cells that both clocks have: seconds of each, and the problem's place."""
    problem = np.concatenate([np.full(own.size, b) for b, own in enumerate(left)])
    x, y = (np.concatenate([own.ravel() for own in side]) for side in (left, right))
    on = np.isfinite(x) & np.isfinite(y)
    return x[on], y[on], problem[on]


def _mean(values: np.ndarray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _inflation_rows(study: Study, first: TimingRun, other: TimingRun) -> list[Row]:
    rows: list[Row] = []
    for policy in (policy for policy in study.policies if policy.timing is first):
        twins = [p for p in study.policies if p.timing is other and p.programs == policy.programs]
        for twin in twins[:1]:
            for limit_s in sorted(DURATIONS_S, reverse=True):
                left, right = (percent_within(run, limit_s) for run in (policy, twin))
                ratio = right / left if left else float("nan")
                row: Row = {"policy": policy.name, "limit_s": limit_s, "first": first.name, "other": other.name}
                rows.append(row | {"percent_first": left, "percent_other": right, "inflation": ratio})
    return rows


def percent_within(policy: PolicyRun, limit_s: float) -> float:
    """Compute pass@1 where every test has to take less than a limit.

    Args:
      policy: with its executions.
      limit_s: on all tests.

    Returns:
      Percent; nan where no problem has a valid sample.
    """
    is_late = np.stack([(np.asarray(run.duration_s) >= limit_s).any(axis=1) for run in policy.executions])
    is_passing = (policy.outcome.c_strict > 0) & ~is_late
    return 100 * float(mean_score(pass_per_problem(is_passing, policy.outcome.is_valid, 1)))


def _thinned(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    step = max(1, pairs[0].size // MOST_POINTS)
    return pairs[0][::step], pairs[1][::step]


def _fits_figure(timing: TimingRun, pairs: Pairs, fitted: dict[str, Correction]) -> FigureOf:
    x, y = _thinned(pairs)
    caption = f"n = {pairs[0].size} cells of references, {x.size} drawn; dashed: no change"
    figure = style.new_figure(7.0, 4.4, caption=caption)
    axes = figure.subplots()
    axes.scatter(x, y, s=5, alpha=0.35, color="0.45")
    grid = np.linspace(0, x.max(), 200)
    for index, (name, found) in enumerate(fitted.items()):
        label = f"{name}, unseen R² {found.unseen_r_squared:.3f}"
        axes.plot(grid, CORRECTIONS[name].apply(found.coefficients, grid), color=style.colour(index), label=label)
    axes.axline((0, 0), slope=1, color="0.6", linestyle="dashed", linewidth=1)
    axes.set(xlabel="stored seconds", ylabel=f"seconds in {timing.name}")
    style.show_legend(axes)
    return FigureOf("corrections", f"stored against fresh seconds with four fits: {caption}", figure)


def _residuals_figure(timing: TimingRun, pairs: Pairs, fitted: dict[str, Correction]) -> FigureOf:
    x, y = _thinned(pairs)
    caption = f"measured in {timing.name} - predicted, ms; n = {pairs[0].size} cells of references, {x.size} drawn"
    figure = style.new_figure(9.0, 5.2, caption=caption)
    for axes, (name, found) in zip(
        figure.subplots(2, 2, sharex=True, sharey=True).ravel(), fitted.items(), strict=True
    ):
        axes.scatter(
            x, 1e3 * (y - CORRECTIONS[name].apply(found.coefficients, x)), s=5, alpha=0.35, color=style.colour(0)
        )
        axes.axhline(0, color="0.5", linewidth=0.8)
        axes.set(title=name, xlabel="stored seconds", ylabel="residual, ms")
        axes.label_outer()
    return FigureOf("residuals", f"what each family leaves over stored seconds: {caption}", figure)


def _protocol_figure(first: TimingRun, other: str, programs: str, table: dict[str, np.ndarray]) -> FigureOf:
    caption = f"programs: {programs}; boxes: quartiles of problems, diamonds: means; whiskers: 1.5 times the box"
    figure = style.new_figure(9.6, 3.8, caption=caption)
    axes = figure.subplots()
    known = [values[np.isfinite(values)] for values in table.values()]
    axes.boxplot(known, showfliers=False, medianprops={"color": style.colour(0)})
    axes.plot(range(1, len(known) + 1), [_mean(own) for own in known], "D", color=style.colour(5), markersize=4)
    axes.axhline(50, color="0.6", linewidth=0.8, linestyle="dashed")
    axes.set_xticks(range(1, len(known) + 1), list(table), fontsize=8, rotation=45)
    axes.set(ylabel="mean percentile, %", ylim=(0, 100))
    return FigureOf("protocols", f"programs ranked across {first.name} and {other}: {caption}", figure)
