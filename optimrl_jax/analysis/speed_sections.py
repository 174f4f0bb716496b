"""Sections about who is faster: win rates, difficulty, distance to the best human, pairs of programs to read."""

import typing
from collections.abc import Callable, Iterable

import numpy as np

from optimrl_jax.analysis.score_sections import checkpoints_by_run
from optimrl_jax.analysis.sections import FigureOf, Row, Section, TableOf, absent
from optimrl_jax.analysis.study import (
    PolicyRun,
    Study,
    is_passing,
    mean_seconds,
    reference_seconds,
    stated_difficulty,
)
from optimrl_jax.evaluation import style
from optimrl_jax.evaluation.records import StoredProblem
from optimrl_jax.evaluation.scores import mean_score, pass_at_tau
from optimrl_jax.evaluation.win_rate import WinRate, win_rate

PICKS = {"WR_b": "fastest", "WR_med": "median"}
# Two programs within 1 % of each other are a draw (App. G.1, selection of pairs).
DRAW_MARGIN = 0.01
MOST_CASES = 12
# A ring needs three corners to enclose anything.
FEWEST_CORNERS = 3
Key = Callable[[StoredProblem], str]


def win_rates(study: Study) -> Section:
    """Compare each policy's fastest, median and mean program with the baseline's (Table 5)."""
    title = "Win rates"
    if not study.rivalries:
        return absent(title, "How often a policy is faster than the baseline.", "needs two policies of one timing pass")
    everything = np.ones(len(study.problems), bool)
    rows = [
        {"policy": policy.label, "against": rival.label, "rate": name}
        | _win_row(_compare(study, policy, rival, pick, everything))
        for policy, rival in study.rivalries
        for name, pick in PICKS.items()
    ]
    caption = "wins / (wins + losses); the number of decided problems stands on a bar"
    figure = style.new_figure(max(7.0, 0.9 * len(study.rivalries)), 3.4, caption=caption)
    axes = figure.subplots()
    for index, name in enumerate(PICKS):
        own = [row for row in rows if row["rate"] == name]
        x = np.arange(len(own)) + (index - 0.5) * 0.4
        bars = axes.bar(x, [row["percent"] for row in own], 0.36, color=style.colour(index), label=name)
        axes.bar_label(bars, [f"n={row['wins'] + row['losses']}" for row in own], fontsize=7)
    axes.axhline(50, color="0.6", linewidth=0.8)
    style.label_ticks(axes, x=[policy.label for policy, _ in study.rivalries], size=8)
    axes.set(ylabel=f"win rate over {style.short_label(study.baseline.name, longest=18)}, %", ylim=(0, 110))
    style.show_legend(axes)
    caption = (
        "WR_b: fastest correct program of each side, WR_med: the middle one; seconds are means over optimization tests "
        f"(all tests where there are none); draws within {DRAW_MARGIN:.0%}; filtered: one side never solves the problem"
    )
    return Section(
        title,
        "Speed on the problems that both sides solve.",
        [TableOf("win_rates", caption, rows)],
        [FigureOf("win_rates", f"win rate over {study.baseline.name} of the same timing pass", figure)],
    )


def difficulty(study: Study) -> Section:
    """Tabulate scores and win rates by difficulty, and draw rings over training steps (Figure 6, Table 8)."""
    bands = _bands(study.problems, stated_difficulty)
    rows = []
    for band, members in bands.items():
        for policy in study.policies:
            cells = {f"p{tau:g}": _percent_on(policy, tau, members) for tau in study.taus}
            rival = study.rival_of(policy)
            rate = _compare(study, policy, rival, "median", members) if rival else None
            median = {"WR_med": 100 * rate.rate if rate else float("nan")}
            rows.append({"difficulty": band, "problems": int(members.sum()), "policy": policy.label} | cells | median)
    caption = (
        "pass@1, percent, by difficulty; WR_med: percent of decided problems on which the middle program is faster"
    )
    return Section(
        "Difficulty",
        "Is speed learned on easy problems alone? Bands are the difficulties that the dataset states.",
        [TableOf("difficulty", caption, rows)],
        [_difficulty_bars(study, bands), *([_radar(study, bands)] if len(bands) > 1 else [])],
    )


def best_human(study: Study) -> Section:
    """Count the problems on which a policy's best program beats the fastest reference, by category and difficulty."""
    title = "Distance to the best human"
    if not study.has_leaderboard:
        return absent(title, "Wins over the fastest reference.", "needs problems with references")
    fastest_s = {
        timing.name: np.array([own.min(initial=np.inf) for own in reference_seconds(study, timing)])
        for timing in study.passes
    }
    rows: list[Row] = []
    groups: dict[str, Key] = {
        "all": lambda problem: "all",
        "category": lambda problem: problem.category,
        "difficulty": stated_difficulty,
    }
    for policy in study.policies:
        best_s = fastest_s[policy.timing.name]
        own_s = np.where(is_passing(policy), mean_seconds(study, policy), np.inf).min(axis=1)
        is_compared = np.isfinite(own_s) & np.isfinite(best_s)
        ratio = np.divide(own_s, best_s, out=np.full(len(own_s), np.nan), where=is_compared)
        for name, key in groups.items():
            for value, members in _bands(study.problems, key).items():
                on = members & is_compared
                wins = int((ratio[on] < 1 - DRAW_MARGIN).sum())
                rows.append(
                    {
                        "policy": policy.label,
                        "by": name,
                        "value": value,
                        "compared": int(on.sum()),
                        "wins": wins,
                        "win_percent": 100 * wins / on.sum() if on.any() else float("nan"),
                        "median_ratio": float(np.median(ratio[on])) if on.any() else float("nan"),
                    }
                )
    overall = [row for row in rows if row["by"] == "difficulty"]
    figure = style.new_figure(7.0, 3.4, caption="share of compared problems that are won; n on each bar")
    axes = figure.subplots()
    values = sorted({row["value"] for row in overall})
    for index, policy in enumerate(study.policies):
        own = {row["value"]: row for row in overall if row["policy"] == policy.label}
        x = np.arange(len(values)) + (index - (len(study.policies) - 1) / 2) * 0.8 / len(study.policies)
        shares = [own[value]["win_percent"] for value in values]
        width, look = 0.76 / len(study.policies), style.bar_look(index)
        bars = axes.bar(x, np.nan_to_num(shares), width, label=policy.label, **look)
        axes.bar_label(bars, [f"{own[value]['compared']}" for value in values], fontsize=7)
    style.label_ticks(axes, x=values, size=8)
    axes.set(xlabel="difficulty", ylabel="faster than the best human, %", ylim=(0, 110))
    style.show_legend(axes)
    caption = (
        "the policy's fastest correct program against the fastest reference of the same pass; ratio below 1: faster"
    )
    return Section(
        title,
        "How far is a policy's best program from the best human one?",
        [TableOf("best_human", caption, rows)],
        [FigureOf("best_human", "problems on which the best program beats every reference", figure)],
    )


def cases(study: Study) -> Section:
    """List the same problem solved twice: the baseline's and another policy's program with their seconds by test."""
    title = "Pairs to read"
    if not study.rivalries:
        return absent(title, "The same problem, two programs.", "needs two policies of one timing pass")
    rows = []
    for policy, rival in study.rivalries:
        base_s, own_s = (np.where(is_passing(p), mean_seconds(study, p), np.inf) for p in (rival, policy))
        for index, problem in enumerate(study.problems):
            left, right = int(base_s[index].argmin()), int(own_s[index].argmin())
            slow_s, fast_s = base_s[index, left], own_s[index, right]
            if np.isfinite(slow_s) and np.isfinite(fast_s) and fast_s < slow_s * (1 - DRAW_MARGIN):
                rows.append(_case(problem, index, (rival, left), (policy, right), speedup=slow_s / fast_s))
    rows.sort(key=lambda row: -row["speedup"])
    caption = f"the {MOST_CASES} largest speed-ups over {study.baseline.name}; seconds of each test, in stored order"
    missing = "" if rows else "no policy is faster on any problem that both solve"
    return Section(
        title,
        "What changed between two correct programs?",
        [TableOf("cases", caption, rows[:MOST_CASES])],
        missing=missing,
    )


def _case(
    problem: StoredProblem,
    index: int,
    slow: tuple[PolicyRun, int],
    fast: tuple[PolicyRun, int],
    *,
    speedup: float,
) -> Row:
    row: Row = {"problem": problem.id, "policy": fast[0].label, "against": slow[0].label, "speedup": float(speedup)}
    for side, (run, sample) in (("baseline", slow), ("policy", fast)):
        row[f"{side}_seconds"] = " ".join(f"{second:.4g}" for second in run.executions[index].duration_s[sample])
        row[f"{side}_program"] = run.programs[index][sample]
    return row


def _compare(study: Study, policy: PolicyRun, rival: PolicyRun, pick: str, members: np.ndarray) -> WinRate:
    sides = [part[members] for side in (policy, rival) for part in (mean_seconds(study, side), is_passing(side))]
    return win_rate(*sides, pick=pick, draw_margin=DRAW_MARGIN)


def _win_row(found: WinRate) -> Row:
    return {"percent": 100 * found.rate} | {
        name: getattr(found, name) for name in ("wins", "losses", "draws", "filtered")
    }


def _bands(problems: Iterable[StoredProblem], key: Key) -> dict[str, np.ndarray]:
    """Mark the problems that have each value of `key`, bool`[b]`, values in order."""
    values = np.array([key(problem) or "-" for problem in problems])
    return {str(value): values == value for value in sorted(set(values), key=lambda text: (len(text), text))}


def _percent_on(policy: PolicyRun, tau: float, members: np.ndarray) -> float:
    return 100 * float(mean_score(pass_at_tau(policy.outcome, k=1, tau=tau)[members]))


def _difficulty_bars(study: Study, bands: dict[str, np.ndarray]) -> FigureOf:
    strict = min(study.taus)
    sizes = ", ".join(f"{band}: {members.sum()}" for band, members in bands.items())
    caption = f"problems by difficulty: {sizes}; bars: means over problems"
    figure = style.new_figure(9.0, 3.6, caption=caption)
    for axes, tau in zip(figure.subplots(1, 2, sharey=True), (100.0, strict), strict=True):
        for index, policy in enumerate(study.policies):
            x = np.arange(len(bands)) + (index - (len(study.policies) - 1) / 2) * 0.8 / len(study.policies)
            values = [_percent_on(policy, tau, members) for members in bands.values()]
            axes.bar(x, values, 0.76 / len(study.policies), **style.bar_look(index), label=policy.label)
        style.label_ticks(axes, x=list(bands), size=8)
        axes.set(title=f"p{tau:g}", xlabel="difficulty", ylabel="pass@1, %", ylim=(0, 105))
    style.show_legend(axes)
    return FigureOf("difficulty", f"pass@1 by difficulty; {caption}", figure)


def _radar(study: Study, bands: dict[str, np.ndarray]) -> FigureOf:
    """Draw rings over the checkpoints of runs, or over policies where no run has several."""
    runs = {run: members for run, members in checkpoints_by_run(study).items() if len(members) > 1}
    rings = [(f"{p.label}", p) for members in runs.values() for p in members] or [(p.label, p) for p in study.policies]
    tau = min(study.taus)
    if len(bands) < FEWEST_CORNERS:
        return _band_marks(rings, bands, tau)
    angles = np.linspace(0, 2 * np.pi, len(bands), endpoint=False)
    caption = f"pass@1 at p{tau:g}, %; a ring for each {'checkpoint' if runs else 'policy'}"
    figure = style.new_figure(8.0, 4.4, caption=caption)
    axes: typing.Any = figure.add_subplot(projection="polar")
    corners = [[_percent_on(policy, tau, members) for members in bands.values()] for _, policy in rings]
    for index, ((label, _), values) in enumerate(zip(rings, corners, strict=True)):
        look = {"color": style.colour(index), "marker": style.marker(index), "markersize": 4, "label": label}
        axes.plot([*angles, angles[0]], [*values, values[0]], **look)
    # The next ring of 20 points outside all values: low scores are not a dot in the middle.
    axes.set_ylim(0, 20 * (1 + np.max(np.nan_to_num(corners)) // 20))
    axes.set_xticks(angles, [f"difficulty {band}" for band in bands], fontsize=8)
    style.show_legend(axes)
    return FigureOf("difficulty_radar", caption, figure)


def _band_marks(rings: list[tuple[str, PolicyRun]], bands: dict[str, np.ndarray], tau: float) -> FigureOf:
    """Draw marks for each band where there are too few of them for rings."""
    caption = f"pass@1 at p{tau:g}, %; a mark for each difficulty"
    figure = style.new_figure(7.0, 3.8, caption=caption)
    axes = figure.subplots()
    for index, (band, members) in enumerate(bands.items()):
        values = [_percent_on(policy, tau, members) for _, policy in rings]
        look = {"marker": style.marker(index), "color": style.colour(index), "label": f"difficulty {band}"}
        axes.plot(values, linestyle="none", **look)
    style.label_ticks(axes, x=[label for label, _ in rings])
    axes.set(ylabel="pass@1, %", ylim=(0, 105))
    style.show_legend(axes)
    return FigureOf("difficulty_radar", caption, figure)
