"""Sections about scores: pass@k at p_tau with its uncertainty, decile profiles, gains between checkpoints."""

import json
from collections.abc import Sequence

import numpy as np

from optimrl_jax.analysis.sections import FigureOf, Row, Section, TableOf, absent
from optimrl_jax.analysis.study import PolicyRun, Study
from optimrl_jax.evaluation import style
from optimrl_jax.evaluation.intervals import TrainingSpread, difference_half_width, training_spread
from optimrl_jax.evaluation.scores import interval_of, mean_score, pass_at_tau

KS = (1, 10)
DECILES = tuple(float(percent) for percent in range(100, 0, -10))


def scores(study: Study) -> Section:
    """Tabulate pass@1 and pass@10 at p_tau with test, training-run and combined intervals (Tables 2 and 7)."""
    rows, differences = [], []
    spreads = {tau: recipe_spread(study, tau) for tau in study.taus}
    for policy in study.policies:
        for k in known_ks(policy):
            for tau in study.taus:
                values, spread = pass_at_tau(policy.outcome, k=k, tau=tau), spreads[tau] if k == 1 else None
                names = {"policy": policy.label, "score": f"pass@{k}", "tau": f"p{tau:g}"}
                rows.append(names | _interval_row(study, values, spread))
                if policy is not study.baseline and k in known_ks(study.baseline):
                    change = values - pass_at_tau(study.baseline.outcome, k=k, tau=tau)
                    differences.append(names | _interval_row(study, change, spread, is_difference=True))
    caption = (
        f"percent of {len(study.problems)} problems; low, high: 95 % bootstrap over problems; training: half width of "
        "one launch of a recipe, pooled over recipes launched more than once; combined: both, in quadrature"
    )
    tables = [TableOf("scores", caption, rows)]
    if differences:
        caption = f"paired differences to {study.baseline.label}, points, over the same problems"
        tables.append(TableOf("differences", caption, differences))
    figures = [_bars(study, k) for k in KS if k in known_ks(study.baseline)]
    return Section("Scores", _scores_text(study), tables, figures)


def profiles(study: Study) -> Section:
    """Draw pass@1 over deciles and its gain between checkpoints of one run (Figure 3)."""
    title = "Decile profiles"
    if not study.has_leaderboard:
        return absent(title, "pass@1 over p100 to p10.", "needs problems with references")
    table = {policy.label: [pass_percent(policy, tau) for tau in DECILES] for policy in study.policies}
    pairs = checkpoint_pairs(study)
    figure = style.new_figure(9.6, 3.8, caption=f"n = {len(study.problems)} problems; marks: means over problems")
    panels = figure.subplots(1, 2 if pairs else 1, squeeze=False)[0]
    names = [f"p{tau:g}" for tau in DECILES]
    for index, (label, values) in enumerate(table.items()):
        panels[0].plot(values, marker=style.marker(index), color=style.colour(index), label=label)
    for index, (early, late) in enumerate(pairs):
        gain = np.subtract(table[late.label], table[early.label])
        look = {"marker": style.marker(index), "color": style.colour(index)}
        panels[1].plot(gain, label=f"{late.label} - {early.label}", **look)
    panels[0].set(ylabel="pass@1, %", ylim=(0, 105))
    for axes in panels[1:]:
        axes.set(ylabel="gain of pass@1, points", title="later - earlier checkpoint")
        axes.axhline(0, color="0.7", linewidth=0.8)
    for axes in panels:
        style.label_ticks(axes, x=names)
        axes.set_xlabel("no slower than this percentile")
        style.show_legend(axes)
    caption = "pass@1 at each decile" + ("; right: gains between checkpoints of one run" if pairs else "")
    rows = [{"policy": label} | dict(zip(names, values, strict=True)) for label, values in table.items()]
    return Section(
        title,
        "How many programs are correct and among the fastest p percent of references, from p100 (correctness) to p10.",
        [TableOf("profiles", f"pass@1, percent, n = {len(study.problems)} problems", rows)],
        [FigureOf("profiles", caption, figure)],
    )


def recipe_spread(study: Study, tau: float) -> TrainingSpread | None:
    """Pool launches of equal recipes at their last step.

    Args:
      study: whose policies know their recipe and seed.
      tau: percent, of p_tau.

    Returns:
      The spread of pass@1 as a share; None where no recipe was launched twice.
    """
    launches: dict[str, dict[object, PolicyRun]] = {}
    for policy in study.policies:
        if policy.facts.get("recipe"):
            of_seed = launches.setdefault(json.dumps(policy.facts["recipe"], sort_keys=True), {})
            known = of_seed.get(policy.facts["seed"])
            if known is None or (policy.facts["step"] or 0) > (known.facts["step"] or 0):
                of_seed[policy.facts["seed"]] = policy
    groups = [[pass_percent(policy, tau) / 100 for policy in members.values()] for members in launches.values()]
    repeated = [np.array(group) for group in groups if len(group) > 1]
    return training_spread(repeated) if repeated else None


def checkpoint_pairs(study: Study) -> list[tuple[PolicyRun, PolicyRun]]:
    """Pair the first and the last checkpoint of each run that has several; one that was timed twice is none."""
    ends = [(members[0], members[-1]) for members in checkpoints_by_run(study).values()]
    return [(first, last) for first, last in ends if first.facts["step"] != last.facts["step"]]


def checkpoints_by_run(study: Study) -> dict[str, list[PolicyRun]]:
    """Group policies that are checkpoints of one run, in order of their step."""
    by_run: dict[str, list[PolicyRun]] = {}
    for policy in study.policies:
        if policy.facts.get("step") is not None:
            source = policy.facts["source"]
            by_run.setdefault(source.rpartition("@")[0] or source, []).append(policy)
    return {run: sorted(members, key=lambda policy: policy.facts["step"]) for run, members in by_run.items()}


def known_ks(policy: PolicyRun) -> Sequence[int]:
    """List the k of pass@k that a policy has enough samples for."""
    return [k for k in KS if k <= policy.outcome.is_valid.shape[1]]


def pass_percent(policy: PolicyRun, tau: float) -> float:
    """Compute the mean pass@1 of a policy at p_tau.

    Args:
      policy: with its outcomes.
      tau: percent.

    Returns:
      Percent; nan where no problem has a valid sample.
    """
    return 100 * float(mean_score(pass_at_tau(policy.outcome, k=1, tau=tau)))


def _interval_row(
    study: Study, values: np.ndarray, spread: TrainingSpread | None, *, is_difference: bool = False
) -> Row:
    cell = interval_of(values, resamples=study.resamples, seed=study.seed)
    mean, low, high = (100 * cell[name] for name in ("mean", "low", "high"))
    test, training = (high - low) / 2, 100 * spread.half_width if spread else float("nan")
    combined = difference_half_width(training, test=test) if is_difference else float(np.hypot(test, training))
    return {
        "points" if is_difference else "percent": mean,
        "low": low,
        "high": high,
        "training_half_width": training,
        "combined_half_width": combined,
        "problems": int(np.isfinite(values).sum()),
    }


def _scores_text(study: Study) -> str:
    if not study.has_leaderboard:
        return "No problem has references: scores are of correctness alone (p100)."
    return (
        "A program counts at p_tau where it passes every test and its place on the leaderboard of the human references "
        "is within the fastest tau percent; p100 asks for correctness alone. Faulted samples take no part."
    )


def _bars(study: Study, k: int) -> FigureOf:
    caption = f"n = {len(study.problems)} problems; whiskers: 95 % bootstrap over problems"
    figure = style.new_figure(8.0, 3.8, caption=caption)
    axes = figure.subplots()
    policies = [policy for policy in study.policies if k in known_ks(policy)]
    width = 0.8 / len(policies)
    for position, policy in enumerate(policies):
        rows = [_interval_row(study, pass_at_tau(policy.outcome, k=k, tau=tau), None) for tau in study.taus]
        mean, low, high = (np.array([row[name] for row in rows]) for name in ("percent", "low", "high"))
        x = np.arange(len(study.taus)) + (position - (len(policies) - 1) / 2) * width
        whiskers, look = style.whiskers(mean, low, high), style.bar_look(position)
        axes.bar(x, mean, width * 0.92, yerr=whiskers, label=policy.label, capsize=2, **look)
    style.label_ticks(axes, x=[f"p{tau:g}" for tau in study.taus], size=8)
    axes.set(xlabel="no slower than this percentile of the references", ylabel=f"pass@{k}, %", ylim=(0, 105))
    style.show_legend(axes)
    return FigureOf(f"pass_at_{k}", f"pass@{k} at p_tau; {caption}", figure)
