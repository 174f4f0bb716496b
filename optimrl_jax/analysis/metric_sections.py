"""Sections about ranking scores: QAR against QP, and the screening of the 17 metrics (App. D.3)."""

import functools
import itertools

import jax
import numpy as np
from matplotlib.figure import Figure

from optimrl_jax import environment
from optimrl_jax.analysis.sections import FigureOf, Row, Section, TableOf, absent
from optimrl_jax.analysis.study import PolicyRun, Study, is_passing
from optimrl_jax.arrays import Array, Execution, References, Status, TestKind, Tests
from optimrl_jax.environment import padding
from optimrl_jax.environment.calibration import calibrated
from optimrl_jax.evaluation import style
from optimrl_jax.evaluation.leaderboards import spearman_rho
from optimrl_jax.evaluation.replay import judge_groups

FEWEST_SAMPLES = 2
SPREADS = ("within_problem_std", "between_passes_std")


def scalarizations(study: Study) -> Section:
    """Compare the two post-execution scalars a(y) and q_QP over correct samples (Figure 40)."""
    title = "Mean percentile against leaderboard percentile"
    if not study.has_leaderboard:
        return absent(title, "QAR against QP.", "needs problems with references")
    rows: list[Row] = []
    figure = style.new_figure(6.0, 4.2, caption="a mark for each correct sample; the line is y = x")
    axes = figure.subplots()
    for index, policy in enumerate(study.policies):
        gamma = {"alpha": policy.gamma.slope, "beta_s": policy.gamma.offset_s}
        outcome = judge_groups([environment.build("qar_ranked", **gamma)], policy.groups, policy.executions)
        on = is_passing(policy)
        qar, qp = np.asarray(outcome.q[0])[on], np.asarray(policy.outcome.q)[on]
        is_varied = qar.size > 1 and np.ptp(qar) > 0 and np.ptp(qp) > 0
        rows.append(
            {
                "policy": policy.label,
                "samples": int(qar.size),
                "spearman": spearman_rho(qar, qp),
                "pearson": float(np.corrcoef(qar, qp)[0, 1]) if is_varied else float("nan"),
                "mean_difference": float(np.abs(qar - qp).mean()) if qar.size else float("nan"),
            }
        )
        axes.scatter(
            qar, qp, s=14, alpha=0.6, color=style.colour(index), marker=style.marker(index), label=policy.label
        )
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
    axes.set(xlabel="a(y), mean per-test percentile", ylabel="q_QP, leaderboard percentile")
    style.show_legend(axes)
    return Section(
        title,
        "QP spreads what QAR compresses, and saturates at the top of the ladder.",
        [TableOf("scalarizations", "over correct samples; 0 is fastest on both scales", rows)],
        [FigureOf("scalarizations", "both scalars of every correct sample", figure)],
    )


def metrics(study: Study) -> Section:
    """Screen the 17 ranking metrics: spread within problems against change between passes (Figure 39, Table 39)."""
    title = "Ranking metrics"
    if not study.has_leaderboard:
        return absent(title, "The 17 metrics.", "needs problems with references")
    values = {policy.label: _metrics_of(policy) for policy in study.policies}
    reruns = [(a, b) for a, b in itertools.combinations(study.policies, 2) if a.programs == b.programs]
    rows: list[Row] = []
    for name, metric in environment.METRICS.items():
        within = [_spread(values[policy.label][name], is_passing(policy)) for policy in study.policies]
        changes = [
            _change(values[a.label][name], values[b.label][name], is_passing(a) & is_passing(b)) for a, b in reruns
        ]
        signal = float(np.nanmean(within)) if np.isfinite(within).any() else float("nan")
        noise = float(np.nanmean(changes)) if len(changes) and np.isfinite(changes).any() else float("nan")
        known = np.concatenate([values[p.label][name][is_passing(p)] for p in study.policies])
        rows.append(
            {
                "metric": name,
                "better": "higher" if metric.is_higher_better else "lower",
                "mean": float(np.nanmean(known)) if np.isfinite(known).any() else float("nan"),
                "within_problem_std": signal,
                "between_passes_std": noise,
                "signal_to_noise": signal / noise if noise > 0 else float("nan"),
                "undefined_share": float(np.mean(~np.isfinite(known))) if known.size else float("nan"),
            }
        )
    figure = _spread_figure(rows)
    text = "A good score tells programs of one problem apart and gives the same program the same number again."
    if not reruns:
        text += " Changes between passes need records of two passes of the same programs."
    caption = "over correct samples; within: deviation among programs of a problem; between: of one program over passes"
    return Section(title, text, [TableOf("metrics", caption, rows)], [FigureOf("metrics", caption, figure)])


def _spread_figure(rows: list[Row]) -> Figure:
    figure = style.new_figure(7.4, 4.6, caption="bars: mean over problems; win rates as percent of tests")
    axes = figure.subplots()
    scale = np.array([100 if row["metric"].endswith("win_rate") else 1 for row in rows])
    known = [name for name in SPREADS if np.isfinite([row[name] for row in rows]).any()]
    for index, name in enumerate(known):
        y = np.arange(len(rows)) + 0.4 * index - 0.2
        spread = scale * np.nan_to_num([row[name] for row in rows])
        axes.barh(y, spread, 0.38, color=style.colour(index), label=name.replace("_", " "))
    axes.set_yticks(range(len(rows)), [row["metric"] for row in rows], fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="standard deviation, percent points")
    style.show_legend(axes)
    return figure


def _metrics_of(policy: PolicyRun) -> dict[str, np.ndarray]:
    """Compute every metric of every sample, `[b, n]`."""
    shape = policy.outcome.is_valid.shape
    found = {name: np.full(shape, np.nan) for name in environment.METRICS}
    for group in policy.groups:
        k = group.tests.mask.shape[1]
        for row, index in enumerate(group.index):
            tests, references = (jax.tree.map(lambda part, row=row: part[row], tree) for tree in group[1:])
            run = padding.pad_execution(policy.executions[index], k)
            scores = _score(tests, references, run, policy.gamma.slope, policy.gamma.offset_s)
            for name, values in scores.items():
                found[name][index] = np.asarray(values)
    return found


@functools.partial(jax.jit, static_argnums=(3, 4))
def _score(tests: Tests, references: References, run: Execution, alpha: float, beta_s: float) -> dict[str, Array]:
    is_pool = tests.mask & (tests.kind == TestKind.OPTIMIZATION)
    pool = references._replace(is_usable=references.is_usable & is_pool[:, None])
    is_measured = (run.status == Status.SUCCESS) & is_pool
    return environment.ranking_metrics(
        calibrated(pool, alpha=alpha, beta_s=beta_s), run.duration_s, is_measured=is_measured, stored_s=pool.duration_s
    )


def _spread(values: np.ndarray, on: np.ndarray) -> float:
    """Average over problems the deviation among their samples; nan where no problem has two."""
    deviations = [
        np.nanstd(row[is_on])
        for row, is_on in zip(values, on, strict=True)
        if np.isfinite(row[is_on]).sum() >= FEWEST_SAMPLES
    ]
    return float(np.mean(deviations)) if deviations else float("nan")


def _change(left: np.ndarray, right: np.ndarray, on: np.ndarray) -> float:
    """Estimate the standard deviation of one sample's metric over two passes, pooled over samples."""
    difference = (left - right)[on & np.isfinite(left) & np.isfinite(right)]
    return float(np.sqrt(np.mean(difference**2) / 2)) if difference.size else float("nan")
