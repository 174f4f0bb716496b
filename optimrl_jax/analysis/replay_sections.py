"""Sections that replay executions elsewhere: other environments, other calibrations, other time limits."""

import itertools
import typing

import numpy as np

from optimrl_jax.analysis.sections import FigureOf, Row, Section, TableOf, absent
from optimrl_jax.analysis.study import Study
from optimrl_jax.analysis.timing.backends import percent_within
from optimrl_jax.analysis.timing.cells import stored_cells
from optimrl_jax.arrays import AffineMap
from optimrl_jax.environment.families import DURATIONS_S
from optimrl_jax.evaluation import sensitivity, style, transfer
from optimrl_jax.evaluation.replay import ProblemGroup

NEAR_POINTS, WORST_PLACES = 1.0, 5
SWEEP_TAUS = (50.0, 10.0)


def heatmap(study: Study) -> Section:
    """Draw the train-by-eval heatmap with its counts, spreads and agreements (Figure 4)."""
    title = "Other evaluation criteria"
    if not study.has_leaderboard:
        return absent(title, "pass@1 of each policy under 60 environments.", "needs problems with references")
    columns = transfer.evaluators()
    parts = [transfer.transfer_matrix(columns, p.groups, [p.executions], gamma=p.gamma) for p in study.policies]
    matrix, labels = 100 * np.concatenate(parts), [policy.label for policy in study.policies]
    families = [(name, list(members)) for name, members in itertools.groupby(range(60), lambda i: columns[i].family)]
    last = min(WORST_PLACES, len(labels) // 2)
    near, worst = (
        transfer.columns_near_best(matrix, points=NEAR_POINTS),
        transfer.columns_near_worst(matrix, places=last),
    )
    counts = [
        {"policy": label, "near_best": int(best), "among_last": int(low), "columns": len(columns)}
        for label, best, low in zip(labels, near, worst, strict=True)
    ]
    spread = [
        {"family": name, "between_policies": between, "over_settings": over}
        for name, members in families
        for between, over in [transfer.discrimination(matrix[:, members])]
    ]
    agreement = [
        {"left": a, "right": b, "spearman": transfer.leaderboard_agreement(matrix[:, left], matrix[:, right])}
        for (a, left), (b, right) in itertools.combinations(families, 2)
    ]
    cells = [
        {"policy": label, "family": column.family, "parameter": column.parameter, "percent": float(value)}
        for label, row in zip(labels, matrix, strict=True)
        for column, value in zip(columns, row, strict=True)
    ]
    return Section(
        title,
        "The same programs under 60 environments, easy settings first within a family: do gains transfer?",
        [
            TableOf(
                "near_best", f"columns within {NEAR_POINTS:g} point of the best, and among the last {last}", counts
            ),
            TableOf("discrimination", "points: spread between policies, and span over a family's settings", spread),
            TableOf("agreement", "rank correlation of the policies' leaderboards under two families", agreement),
            TableOf("heatmap", "pass@1, percent", cells),
        ],
        [_heatmap_figure(study, matrix, columns, families)],
    )


def calibrations(study: Study) -> Section:
    """Sweep the calibration of stored durations: beta, alpha, and the ten scoring points (Figures 5, 33 to 38)."""
    title = "A service that speeds up or slows down"
    if not study.has_leaderboard:
        return absent(title, "Scores under other calibrations.", "needs problems with references")
    rows, figures = [], []
    for name, points in (("beta_s", sensitivity.BETA_CALIBRATIONS), ("alpha", sensitivity.ALPHA_CALIBRATIONS)):
        table = _sweep(study, points, SWEEP_TAUS)
        rows += _sweep_rows(study, name, points, table)
        figures.append(_sweep_figure(study, name, points, table))
    matrix = _sweep(study, sensitivity.SCORING_CALIBRATIONS, (100.0, *SWEEP_TAUS))
    rows += _sweep_rows(study, "both", sensitivity.SCORING_CALIBRATIONS, matrix)
    separation: list[dict[str, typing.Any]] = []
    for tau, scores in matrix.items():
        found = sensitivity.calibration_separation(scores)
        row: Row = {"tau": tau, "policy_spread": float(np.mean(found.reward_spread))}
        separation.append(row | {"scoring_drop": float(np.mean(found.scoring_drop))})
    return Section(
        title,
        "Executions stay as recorded; only the calibration Gamma(d) = alpha d + beta of the stored references moves. "
        "Absolute scores at strict percentiles follow it, differences between policies should not. The points are the "
        f"paper's: {_share_below_offset(study):.3g} % of the stored durations here are shorter than the smallest beta; "
        "where most of them are, every correct program is ahead of them.",
        [
            TableOf("calibrations", "pass@1, percent, and its gain over the baseline policy, percent of it", rows),
            TableOf("separation", "points: spread between policies, and drop from scoring point s0 to s9", separation),
        ],
        [*figures, _matrix_figure(study, matrix), _separation_figure(matrix)],
    )


def time_limits(study: Study) -> Section:
    """Tabulate pass@1 under absolute limits on all tests, 10 s to 0.1 s (Table 9)."""
    limits = tuple(sorted(DURATIONS_S, reverse=True))
    rows: list[Row] = []
    for policy in study.policies:
        row: Row = {"policy": policy.label, "pass": policy.timing.name}
        row |= {f"{limit_s:g}_s": percent_within(policy, limit_s) for limit_s in limits}
        rows.append(row)
    figure = style.new_figure(7.0, 3.6, caption=f"n = {len(study.problems)} problems; marks: means over problems")
    axes = figure.subplots()
    for index, row in enumerate(rows):
        values = [row[f"{limit_s:g}_s"] for limit_s in limits]
        axes.plot(limits, values, marker=style.marker(index), color=style.colour(index), label=row["policy"])
    axes.set(xscale="log", xlabel="time limit on every test, s", ylabel="pass@1, %", ylim=(0, 105))
    axes.set_xticks(limits, [f"{limit_s:g}" for limit_s in limits], minor=False)
    axes.minorticks_off()
    axes.invert_xaxis()
    style.show_legend(axes)
    return Section(
        "Time limits",
        "A program passes where it is correct and no test takes as long as the limit: a blunt measure of speed.",
        [TableOf("time_limits", "pass@1, percent", rows)],
        [FigureOf("time_limits", f"pass@1 over the limit; n = {len(study.problems)} problems", figure)],
    )


def _heatmap_figure(
    study: Study, matrix: np.ndarray, columns: tuple[transfer.Evaluator, ...], families: list[tuple[str, list[int]]]
) -> FigureOf:
    caption = f"pass@1, %; n = {len(study.problems)} problems; easy settings first within a family"
    figure = style.new_figure(11, 2.4 + 0.35 * len(study.policies), caption=caption)
    axes = figure.subplots()
    image = axes.imshow(matrix, cmap=style.SEQUENTIAL, aspect="auto", vmin=0, vmax=100)
    figure.colorbar(image, ax=axes, label="pass@1, %", pad=0.01)
    axes.set_xticks(range(len(columns)), [column.parameter for column in columns], fontsize=7, rotation=90)
    style.label_ticks(axes, y=[policy.label for policy in study.policies])
    for name, members in families:
        axes.text(float(np.mean(members)), -0.6, name.replace("_", " "), ha="center", va="bottom", fontsize=7)
        axes.axvline(members[-1] + 0.5, color="white", linewidth=1.5)
    return FigureOf("heatmap", f"each policy under each environment: {caption}", figure)


def _share_below_offset(study: Study) -> float:
    """Compute the percent of stored durations on optimization tests that are shorter than every beta of the sweeps."""
    points = (sensitivity.BETA_CALIBRATIONS, sensitivity.ALPHA_CALIBRATIONS, sensitivity.SCORING_CALIBRATIONS)
    least_s = min(gamma.offset_s for sweep in points for gamma in sweep.values())
    stored_s = np.concatenate([cells.ravel() for cells in stored_cells(study)])
    return 100 * float(np.mean(stored_s[np.isfinite(stored_s)] < least_s)) if np.isfinite(stored_s).any() else 0.0


def _sweep(study: Study, points: dict[str, AffineMap], taus: tuple[float, ...]) -> dict[str, np.ndarray]:
    """Compute {p_tau: `[policies, points]`} in percent, over stored durations."""
    found = []
    for policy in study.policies:
        groups = [_stored(study, group) for group in policy.groups]
        scores = sensitivity.calibrated_scores(list(points.values()), groups, policy.executions, ks=(1,), taus=taus)
        found.append(100 * scores[:, 0])
    return {f"p{tau:g}": np.array(found)[:, :, index] for index, tau in enumerate(taus)}


def _stored(study: Study, group: ProblemGroup) -> ProblemGroup:
    """Give a group the durations of the dataset, whatever leaderboard the study ranks against."""
    duration_s = np.zeros_like(group.references.duration_s)
    for row, index in enumerate(group.index):
        problem = study.problems[index]
        k, h = problem.duration_s.shape
        duration_s[row, :k, :h] = np.where(problem.is_usable, problem.duration_s, 0)
    return group._replace(references=group.references._replace(duration_s=duration_s))


def _sweep_rows(study: Study, sweep: str, points: dict[str, AffineMap], table: dict[str, np.ndarray]) -> list[Row]:
    rows = []
    for tau, scores in table.items():
        gains = 100 * sensitivity.relative_gain(scores, scores[:1])
        for place, (name, gamma) in enumerate(points.items()):
            at: Row = {"sweep": sweep, "point": name, "alpha": gamma.slope, "beta_s": gamma.offset_s, "tau": tau}
            for index, policy in enumerate(study.policies):
                values = {"percent": float(scores[index, place]), "relative_gain": float(gains[index, place])}
                rows.append(at | {"policy": policy.label} | values)
    return rows


def _sweep_figure(study: Study, name: str, points: dict[str, AffineMap], table: dict[str, np.ndarray]) -> FigureOf:
    x = [gamma.offset_s if name == "beta_s" else gamma.slope for gamma in points.values()]
    figure = style.new_figure(9.6, 5.4, caption=f"n = {len(study.problems)} problems; marks: means over problems")
    panels = figure.subplots(2, len(table), sharex=True, squeeze=False)
    for column, (tau, scores) in enumerate(table.items()):
        gains = 100 * sensitivity.relative_gain(scores, scores[:1])
        for index, policy in enumerate(study.policies):
            look = {"marker": style.marker(index), "color": style.colour(index), "label": policy.label}
            panels[0, column].plot(x, scores[index], **look)
            panels[1, column].plot(x, gains[index], **look)
        panels[0, column].set(title=tau, ylabel="pass@1, %")
        panels[1, column].locator_params(axis="x", nbins=4)
        panels[1, column].set(xlabel="beta, s" if name == "beta_s" else "alpha", ylabel="gain, % of the baseline")
    style.show_legend(panels[0, -1])
    caption = f"scores (top) and relative gains (bottom) over {name}, the other number held"
    return FigureOf(f"sweep_{name}", caption, figure)


def _matrix_figure(study: Study, table: dict[str, np.ndarray]) -> FigureOf:
    caption = f"pass@1, %; n = {len(study.problems)} problems; s0: slowest references, s9: fastest"
    figure = style.new_figure(11, 1.8 + 0.35 * len(study.policies), caption=caption)
    panels = figure.subplots(1, len(table), sharey=True)
    for axes, (tau, scores) in zip(panels, table.items(), strict=True):
        figure.colorbar(axes.imshow(scores, cmap=style.SEQUENTIAL, aspect="auto", vmin=0, vmax=100), ax=axes)
        style.label_ticks(axes, x=list(sensitivity.SCORING_CALIBRATIONS), y=[p.label for p in study.policies])
        axes.set_title(tau, fontsize=9)
    return FigureOf("calibration_matrix", f"policies by scoring calibration: {caption}", figure)


def _separation_figure(table: dict[str, np.ndarray]) -> FigureOf:
    caption = "points of pass@1; bars: means, whiskers: least and most"
    figure = style.new_figure(7.0, 3.6, caption=caption)
    axes = figure.subplots()
    for index, scores in enumerate(table.values()):
        found = sensitivity.calibration_separation(scores)
        for side, (values, label) in enumerate(
            ((found.reward_spread, "between policies"), (found.scoring_drop, "from s0 to s9"))
        ):
            low, mean, high = np.min(values), np.mean(values), np.max(values)
            look = {"color": style.colour(side), "label": label if not index else None, "capsize": 3}
            axes.bar(
                index + 0.4 * side - 0.2,
                mean,
                0.36,
                yerr=style.whiskers(*(np.array([v]) for v in (mean, low, high))),
                **look,
            )
    style.label_ticks(axes, x=list(table), size=8)
    axes.set(ylabel="points of pass@1")
    style.show_legend(axes)
    return FigureOf("calibration_separation", f"what moves a score, policy or scoring calibration: {caption}", figure)
