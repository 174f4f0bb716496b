"""Edge: sections about how it came about: what was evaluated, training over steps, lengths, equal wall-clock time."""

import json
import pathlib

import numpy as np

from optimrl_jax.analysis.score_sections import checkpoints_by_run, pass_percent
from optimrl_jax.analysis.sections import FigureOf, Row, Section, TableOf, absent
from optimrl_jax.analysis.study import Study, run_labels, stated_difficulty
from optimrl_jax.evaluation import style
from optimrl_jax.evaluation.plots import HELD_OUT, is_held_out_score

# Metrics of a training run by their name there: label, and whether it is a share.
STEP_METRICS = {
    "reward": "mean reward",
    "correct_share": "correct",
    "fast_share": "correct and fast",
    "invalid_share": "masked by faults",
    "zero_advantage_share": "groups without advantage",
    "cut_share": "completions cut",
    "completion_tokens": "completion length, tokens",
    "sampler_mismatch": "|learner - sampler|, log p",
    "sampler_ratio": "learner / engine, mean ratio",
    "truncated_share": "tokens at the importance cap",
}
# Percentiles of the held-out scores that are drawn beside one another.
HELD_OUT_PANELS = 4
TIMES = ("generate_s", "execute_s", "judge_s", "update_s")


def overview(study: Study) -> Section:
    """List what was evaluated: policies, samples, faults, cut completions, drift of each timing pass."""
    rows = []
    for policy in study.policies:
        n = policy.outcome.is_valid.size
        known = policy.tokens[policy.tokens >= 0]
        rows.append(
            {
                "policy": policy.label,
                "source": policy.facts.get("source", ""),
                "step": policy.facts.get("step"),
                "seed": policy.facts.get("seed"),
                "problems": len(study.problems),
                "pass": policy.timing.name,
                "samples": n,
                "faulted": int((~policy.outcome.is_valid).sum()),
                "cut": int(policy.is_cut.sum()),
                "mean_tokens": float(known.mean()) if known.size else float("nan"),
            }
        )
    drifts = [
        {
            "pass": timing.name,
            "sandbox": timing.address,
            "alpha": timing.drift.map.slope,
            "beta_s": timing.drift.map.offset_s,
            "spearman": timing.drift.spearman,
            "relative_rmse": timing.drift.relative_rmse,
            "pairs": timing.drift.pairs,
        }
        for timing in study.passes
    ]
    return Section(
        "What was evaluated",
        "Every directory of records was timed in one shuffled pass together with the references, and is ranked against "
        "them. Comparisons are with the first policy.",
        [
            TableOf("policies", "samples that met a fault of the sandbox take no part in scores", rows),
            TableOf(
                "drift",
                "how references ran in each pass against their stored seconds: fresh = alpha stored + beta",
                drifts,
            ),
        ],
    )


def dynamics(study: Study) -> Section:
    """Draw scores over the checkpoints of runs, and equal wall-clock time (sec. 5, training dynamics)."""
    title = "Training over steps"
    runs = {run: members for run, members in checkpoints_by_run(study).items() if len(members) > 1}
    if not runs:
        return absent(title, "Scores over checkpoints.", "needs policies WORKDIR@STEP of at least two steps of a run")
    labels = run_labels(runs)
    rows: list[Row] = []
    figure = style.new_figure(8.4, 3.6, caption=f"n = {len(study.problems)} problems; marks: means over problems")
    panels = figure.subplots(1, 2, sharex=True)
    for axes, tau in zip(panels, (100.0, min(study.taus)), strict=True):
        for index, (run, members) in enumerate(runs.items()):
            steps, values = [p.facts["step"] for p in members], [pass_percent(p, tau) for p in members]
            look = {"marker": style.marker(index), "color": style.colour(index), "label": labels[run]}
            axes.plot(steps, values, **look)
        axes.set(title=f"p{tau:g}", xlabel="optimizer step", ylabel="pass@1, %", ylim=(0, 105))
    style.show_legend(panels[-1])
    for run, members in runs.items():
        hours = _hours_at(pathlib.Path(run), [policy.facts["step"] for policy in members])
        for policy, hour in zip(members, hours, strict=True):
            scores = {f"p{tau:g}": pass_percent(policy, tau) for tau in study.taus}
            rows.append({"run": labels[run], "step": policy.facts["step"], "wall_hours": hour} | scores)
    equal = _equal_time(rows)
    return Section(
        title,
        "Scores of stored checkpoints; equal wall-clock: the last one of each run within the time of the shortest.",
        [
            TableOf("dynamics", "pass@1, percent; wall_hours from the run's metrics where they are there", rows),
            TableOf("equal_wall_clock", "pass@1, percent, at equal wall-clock time", equal),
        ],
        [FigureOf("dynamics", "pass@1 over optimizer steps", figure)],
    )


def training_runs(study: Study) -> Section:
    """Draw faults, cut completions, cost shares and held-out scores over training steps (Tables 28, 29)."""
    title = "Training runs"
    labels = run_labels(study.runs)
    logs = {labels[str(run)]: rows for run in study.runs if (rows := read_metrics(run))}
    if not logs:
        return absent(title, "Rewards, faults, fallbacks and lengths by step.", "name workdirs with --runs=W1,W2")
    names = [name for name in STEP_METRICS if any(name in row for rows in logs.values() for row in rows)]
    count = -(-len(names) // 4)
    figure = style.new_figure(12, 2.6 * count + 0.4, caption="every logged step; one line for each run")
    panels = figure.subplots(count, 4, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        for index, (run, rows) in enumerate(logs.items()):
            points = [(row["step"], row[name]) for row in rows if row.get(name) is not None]
            if points:
                axes.plot(*zip(*points, strict=True), color=style.colour(index), linewidth=1, label=run)
        axes.set(title=STEP_METRICS[name], xlabel="optimizer step")
        axes.title.set_fontsize(9)
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    style.show_legend(panels[min(len(names), len(panels)) - 1])
    table = [_run_row(run, rows, names) for run, rows in logs.items()]
    figures = [FigureOf("training_runs", "metrics by optimizer step", figure)]
    tables = [TableOf("training_runs", "means over logged steps; cost shares of the wall-clock time of a step", table)]
    if scores := _held_out_rows(logs):
        caption = "scores on held-out problems during training (evaluation.every), percent"
        tables.append(TableOf("held_out", caption, scores))
        figures.append(_held_out_figure(scores))
    return Section(title, "What the runs logged.", tables, figures)


def _held_out_rows(logs: dict[str, list[Row]]) -> list[Row]:
    """List the scores of every evaluation during training, a row for each run and step."""
    return [
        {"run": run, "step": row["step"]}
        | {name.removeprefix(HELD_OUT): 100 * row[name] for name in row if is_held_out_score(name)}
        for run, rows in logs.items()
        for row in rows
        if any(is_held_out_score(name) for name in row)
    ]


def _held_out_figure(scores: list[Row]) -> FigureOf:
    names = [name for name in dict.fromkeys(name for row in scores for name in row) if "_p" in name]
    names = [name for name in names if name.startswith("pass_at_1_")][:HELD_OUT_PANELS]
    figure = style.new_figure(2.9 * len(names) + 1, 3.2, caption="a mark for each evaluation; one line for each run")
    panels = figure.subplots(1, len(names), squeeze=False, sharey=True)[0]
    for axes, name in zip(panels, names, strict=True):
        for index, run in enumerate(dict.fromkeys(row["run"] for row in scores)):
            own = [(row["step"], row[name]) for row in scores if row["run"] == run and name in row]
            look = {"color": style.colour(index), "marker": style.marker(index), "label": run}
            axes.plot(*np.array(own, float).T, **look)
        axes.set(title=name.replace("pass_at_1_", "pass@1 at "), xlabel="optimizer step", ylim=(0, 105))
    panels[0].set_ylabel("held-out problems, %")
    style.show_legend(panels[-1])
    return FigureOf("held_out", "pass@1 on held-out problems over optimizer steps", figure)


def lengths(study: Study) -> Section:
    """Tabulate the length of completions by difficulty: reasoning grows with the problem (sec. 5)."""
    title = "Length of completions"
    if all((policy.tokens < 0).all() for policy in study.policies):
        return absent(title, "Tokens by difficulty.", "records of this version keep the length of every completion")
    stated = np.array([stated_difficulty(problem) for problem in study.problems])
    bands = sorted(set(stated), key=lambda text: (len(text), text))
    rows: list[Row] = []
    figure = style.new_figure(7.0, 3.4, caption="marks: medians; whiskers: quartiles of all samples")
    axes = figure.subplots()
    for index, policy in enumerate(study.policies):
        points = []
        for band in bands:
            on = stated == band
            known = policy.tokens[on][policy.tokens[on] >= 0]
            low, middle, high = np.percentile(known, [25, 50, 75]) if known.size else (np.nan,) * 3
            points.append((low, middle, high))
            cut = float(policy.is_cut[on].mean())
            values = {"median_tokens": middle, "q25": low, "q75": high, "cut_share": cut, "samples": int(known.size)}
            rows.append({"policy": policy.label, "difficulty": str(band)} | values)
        low, middle, high = np.array(points).T
        x = np.arange(len(bands)) + 0.06 * index
        look = {"marker": style.marker(index), "color": style.colour(index), "label": policy.label, "capsize": 2}
        axes.errorbar(x, middle, yerr=style.whiskers(middle, low, high), **look)
    style.label_ticks(axes, x=bands, size=8)
    axes.set(xlabel="difficulty", ylabel="completion, tokens")
    style.show_legend(axes)
    return Section(
        title,
        "How much a policy writes before it answers, and how often it runs out of room.",
        [TableOf("lengths", "tokens of a completion; cut_share: samples that filled their room", rows)],
        [FigureOf("lengths", "completion length by difficulty", figure)],
    )


def read_metrics(run: pathlib.Path) -> list[Row]:
    """Read the logged steps of a training run; empty where there are none.

    A step that was logged twice counts once, its later line. A line cut by a kill is left out.

    Args:
      run: workdir of the job.

    Returns:
      A row for each step, in their order.
    """
    path = run / "metrics.jsonl"
    by_step: dict[int, Row] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if "step" in row:
            by_step[row["step"]] = row
    return [by_step[step] for step in sorted(by_step)]


def _hours_at(run: pathlib.Path, steps: list[int]) -> list[float]:
    """Sum the wall-clock hours of a run up to each step, by the seconds that its steps logged; nan without any."""
    rows = read_metrics(run)
    seconds = [sum(row.get(name) or 0.0 for name in TIMES) for row in rows]
    if not sum(seconds):
        return [float("nan")] * len(steps)
    return [sum(s for row, s in zip(rows, seconds, strict=True) if row["step"] <= step) / 3600 for step in steps]


def _equal_time(rows: list[Row]) -> list[Row]:
    """Find the last checkpoint of each run within the wall-clock time of the run that took the least."""
    runs = {row["run"] for row in rows}
    known = [row for row in rows if np.isfinite(row["wall_hours"])]
    if {row["run"] for row in known} != runs or len(runs) < 2:
        return []
    budget = min(max(row["wall_hours"] for row in known if row["run"] == run) for run in runs)
    within = {run: [row for row in known if row["run"] == run and row["wall_hours"] <= budget] for run in sorted(runs)}
    return [max(members, key=lambda row: row["step"]) for members in within.values() if members]


def _run_row(run: str, rows: list[Row], names: list[str]) -> Row:
    means = {
        name: float(np.mean([row[name] for row in rows if row.get(name) is not None] or [np.nan])) for name in names
    }
    seconds = {name: sum(row.get(name) or 0.0 for row in rows) for name in TIMES}
    total = sum(seconds.values())
    shares = {
        f"{name.removesuffix('_s')}_cost_share": value / total if total else float("nan")
        for name, value in seconds.items()
    }
    return {"run": run, "steps": len(rows)} | means | shares
