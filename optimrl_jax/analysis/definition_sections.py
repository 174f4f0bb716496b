"""Section about other papers' definitions of efficiency, computed from the same executions (Tables 43 and 44)."""

import typing
from collections.abc import Callable

import jax
import numpy as np
from scipy import stats

from optimrl_jax import rewards
from optimrl_jax.analysis import definitions
from optimrl_jax.analysis.sections import FigureOf, Row, Section, TableOf, absent
from optimrl_jax.analysis.study import PolicyRun, Study, is_passing, mean_seconds, reference_seconds, timed_tests
from optimrl_jax.arrays import Array, Execution, Outcome, References, Status, Tests
from optimrl_jax.environment import padding
from optimrl_jax.environment.calibration import calibrated
from optimrl_jax.evaluation import style
from optimrl_jax.evaluation.leaderboards import spearman_rho
from optimrl_jax.evaluation.records import StoredProblem
from optimrl_jax.evaluation.scores import pass_at_k

BEST_OF = 10


class Measured(typing.NamedTuple):
    """The samples of one problem that met no fault, beside its references.

    Attributes:
      problem: whose tests they ran.
      seconds: `[n]` mean over timed tests.
      is_passing: `[n]`.
      reference_s: `[h]` mean seconds of the references that passed everything.
      by_test_s: `[n, k]` on timed tests.
      references_by_test_s: `[k, h]`, nan where a reference did not pass the test.
      q: `[n]` place on the leaderboard, 0 fastest.
      paid: `[n]` by name of a composition of `rewards.SPEEDUP_COMPOSITIONS`.
    """

    problem: StoredProblem
    seconds: np.ndarray
    is_passing: np.ndarray
    reference_s: np.ndarray
    by_test_s: np.ndarray
    references_by_test_s: np.ndarray
    q: np.ndarray
    paid: dict[str, np.ndarray]

    @property
    def median_s(self) -> float:
        """Seconds of the human median, which stands for the program before."""
        return float(np.median(self.reference_s))


OfSamples = Callable[[Measured], np.ndarray]


def _of_totals(score: Callable[..., np.ndarray], **options: bool) -> OfSamples:
    """Apply a definition that reads mean seconds to the samples of a problem."""
    return lambda measured: score(measured.seconds, measured.is_passing, measured.reference_s, **options)


def _levels(measured: Measured) -> np.ndarray:
    return definitions.level_efficiency(measured.by_test_s, measured.is_passing, measured.references_by_test_s)


def _speedup(measured: Measured) -> np.ndarray:
    return definitions.speedup(measured.seconds, measured.is_passing, measured.median_s)


def _is_optimized(measured: Measured) -> np.ndarray:
    return (_speedup(measured) >= definitions.OPTIMIZED).astype(float)


def _efficient_at(measured: Measured, k: int) -> float:
    """Estimate the chance that one of k samples is correct and faster than every reference (efficient@k)."""
    n = len(measured.seconds)
    is_faster = measured.is_passing & (measured.seconds < measured.reference_s.min())
    return float(pass_at_k(np.array(n), is_faster.sum(), k)) if n >= k else float("nan")


def _grows_like_humans(measured: Measured) -> np.ndarray:
    """Mark correct samples whose seconds grow no faster with the input than the fastest reference's; nan if unknown."""
    sizes = np.asarray(measured.problem.characters, float)[timed_tests(measured.problem)]
    whole = np.isfinite(measured.references_by_test_s).all(axis=0)
    totals = np.where(whole, measured.references_by_test_s.sum(axis=0), np.inf)
    human = definitions.growth_class(sizes, measured.references_by_test_s[:, int(totals.argmin())])
    found = np.full(len(measured.seconds), np.nan)
    if human is None:
        return found
    for index, own_s in enumerate(measured.by_test_s):
        own = definitions.growth_class(sizes, own_s) if measured.is_passing[index] else None
        found[index] = float(own is not None and own <= human)
    return found


def _paid(name: str) -> OfSamples:
    """Read what a composition pays."""
    return lambda measured: measured.paid[name]


EDITS = "PIE, PerfCodeGen, SBLLM"
# Scores of a sample: (paper, whether larger is better, samples of one problem -> [n]).
SAMPLE_SCORES: dict[str, tuple[str, bool, OfSamples]] = {
    "beyond": ("Mercury", True, _of_totals(definitions.beyond)),
    "normalized_time": ("EffiBench", False, _of_totals(definitions.normalized_time)),
    "relative_time": ("EffiBench-X", True, _of_totals(definitions.relative_time)),
    "dps": ("EvalPerf", True, _of_totals(definitions.differential_performance)),
    "dps_norm": ("EvalPerf", True, _of_totals(definitions.differential_performance, by_cluster=True)),
    "eff@1": ("ENAMEL", True, _levels),
    "optimized": (EDITS, True, _is_optimized),
    "speedup": (EDITS, True, _speedup),
    "human_growth": ("BigO(Bench)", True, _grows_like_humans),
    "relative_speedup": ("Performance-Aligned LLMs", True, _paid("relative_speedup")),
    "gated_speedup": ("SuperCoder", True, _paid("gated_speedup")),
    "status_ladder": ("HPC online RL", True, _paid("status_ladder")),
    "additive_blend": ("Afterburner", True, _paid("additive_blend")),
    "bucketed_speedup": ("MaxCode", True, _paid("bucketed_speedup")),
}
# Scores of a problem: (paper, whether larger is better, samples of one problem -> score).
PROBLEM_SCORES: dict[str, tuple[str, bool, Callable[[Measured], float]]] = {
    f"eff@{BEST_OF}": ("ENAMEL", True, lambda m: definitions.expected_best(_levels(m), BEST_OF)),
    "efficient@1": ("COFFE", True, lambda m: _efficient_at(m, 1)),
    f"efficient@{BEST_OF}": ("COFFE", True, lambda m: _efficient_at(m, BEST_OF)),
    f"best_speedup@{BEST_OF}": ("PIE, EffiCoder", True, lambda m: definitions.expected_best(_speedup(m), BEST_OF)),
}


def other_definitions(study: Study) -> Section:
    """Score every policy by the definitions of other papers, and say how they order samples (Tables 43 and 44)."""
    title = "Other papers' definitions of efficiency"
    if not study.has_leaderboard:
        return absent(title, "Mercury, EffiBench, ENAMEL, PIE and others.", "needs problems with references")
    measured = {policy.label: gather_samples(study, policy) for policy in study.policies}
    rows: list[Row] = []
    for name, (paper, is_larger_better, _) in (SAMPLE_SCORES | PROBLEM_SCORES).items():
        row: Row = {"definition": name, "paper": paper, "better": "larger" if is_larger_better else "smaller"}
        rows.append(row | {label: score(problems, name) for label, problems in measured.items()})
    rows += _joint_rows(study, measured)
    agreement = [{"definition": name, "spearman": _agreement(measured, name)} for name in SAMPLE_SCORES]
    figure = style.new_figure(7.0, 4.0, caption="bars: rank correlation over all correct samples; 1: the same order")
    axes = figure.subplots()
    axes.barh(range(len(agreement)), [row["spearman"] for row in agreement], color=style.colour(0))
    style.label_ticks(axes, y=[row["definition"] for row in agreement], size=8)
    axes.invert_yaxis()
    axes.set(xlabel="correlation with 1 - q_QP", xlim=(-1, 1))
    return Section(
        title,
        "The same executions under definitions of other papers. Wall seconds stand in for counted instructions, the "
        "human median for the program before, the fastest human for the expert; records keep no memory to score.",
        [
            TableOf("other_definitions", "means over samples, then problems; nan: undefined everywhere", rows),
            TableOf("definitions_agreement", "order of correct samples, against the leaderboard", agreement),
        ],
        [FigureOf("other_definitions", "how definitions order correct samples", figure)],
    )


def gather_samples(study: Study, policy: PolicyRun) -> list[Measured]:
    """Gather the samples of a policy that met no fault, for each problem with a whole reference.

    Args:
      study: with the problems.
      policy: one of its policies.
    """
    found, paid = [], _payments(policy)
    seconds, passing, references = (
        mean_seconds(study, policy),
        is_passing(policy),
        reference_seconds(study, policy.timing),
    )
    for index, problem in enumerate(study.problems):
        valid, whole_s = policy.outcome.is_valid[index], references[index][np.isfinite(references[index])]
        if not valid.any() or not whole_s.size:
            continue
        on, runs = timed_tests(problem), policy.timing.references[index]
        by_test_s = np.asarray(policy.executions[index].duration_s, float)[valid][:, on]
        pool_s = np.where(runs.status == Status.SUCCESS, runs.duration_s, np.nan)[:, on].T
        q = np.asarray(policy.outcome.q)[index][valid]
        own_paid = {name: values[index][valid] for name, values in paid.items()}
        totals = (seconds[index][valid], passing[index][valid], whole_s)
        found.append(Measured(problem, *totals, by_test_s, pool_s, q, own_paid))
    return found


def _payments(policy: PolicyRun) -> dict[str, np.ndarray]:
    """Pay every sample by every composition that reads a speed-up, `[b, n]`."""
    found = {name: np.full(policy.outcome.is_valid.shape, np.nan) for name in rewards.SPEEDUP_COMPOSITIONS}
    for group in policy.groups:
        for row, index in enumerate(group.index):
            tests, references = (jax.tree.map(lambda part, row=row: part[row], tree) for tree in group[1:])
            run = padding.pad_execution(policy.executions[index], group.tests.mask.shape[1])
            outcome = Outcome(*(np.asarray(part)[index] for part in policy.outcome))
            alpha, beta_s = policy.gamma.slope, policy.gamma.offset_s
            for name, values in _pay(tests, references, run, outcome, alpha, beta_s).items():
                found[name][index] = np.asarray(values)
    return found


@jax.jit
def _pay(
    tests: Tests, references: References, run: Execution, outcome: Outcome, alpha: float, beta_s: float
) -> dict[str, Array]:
    speedup = rewards.speedup_over_median(tests, calibrated(references, alpha=alpha, beta_s=beta_s), run)
    return {name: reward(outcome, run, speedup) for name, reward in rewards.SPEEDUP_COMPOSITIONS.items()}


def score(problems: list[Measured], name: str) -> float:
    """Average a definition over samples and problems; nan where it is undefined everywhere.

    Args:
      problems: of one policy.
      name: a key of `SAMPLE_SCORES` or `PROBLEM_SCORES`.
    """
    if name in SAMPLE_SCORES:
        values = [SAMPLE_SCORES[name][2](problem) for problem in problems]
        means = [np.mean(part[np.isfinite(part)]) for part in values if np.isfinite(part).any()]
    else:
        means = [value for problem in problems if np.isfinite(value := PROBLEM_SCORES[name][2](problem))]
    return float(np.mean(means)) if means else float("nan")


def _joint_rows(study: Study, measured: dict[str, list[Measured]]) -> list[Row]:
    """Score what needs all samples at once, or another policy: the expert's share and the gain beyond doubt."""
    shares: Row = {"definition": "expert_share", "paper": "SWE-fficiency", "better": "larger"}
    gains: Row = {"definition": "significant_gain", "paper": "SWE-Perf", "better": "larger"}
    for policy in study.policies:
        of_policy = measured[policy.label]
        parts = [
            definitions.expert_share(m.seconds, m.is_passing, before_s=m.median_s, expert_s=m.reference_s.min())
            for m in of_policy
        ]
        shares[policy.label] = float(stats.hmean(np.concatenate(parts))) if parts else float("nan")
        rival = study.rival_of(policy)
        before = {m.problem.id: m for m in measured[rival.label]} if rival else {}
        found = [
            definitions.significant_gain(
                before[m.problem.id].seconds[before[m.problem.id].is_passing], m.seconds[m.is_passing]
            )
            for m in of_policy
            if m.problem.id in before and before[m.problem.id].is_passing.any() and m.is_passing.any()
        ]
        gains[policy.label] = float(np.mean(found)) if found else float("nan")
    return [shares, gains]


def _agreement(measured: dict[str, list[Measured]], name: str) -> float:
    """Correlate a definition with 1 - q_QP over correct samples of all policies."""
    score_of, is_larger_better = SAMPLE_SCORES[name][2], SAMPLE_SCORES[name][1]
    left, right = [], []
    for problem in (problem for problems in measured.values() for problem in problems):
        values = score_of(problem) * (1 if is_larger_better else -1)
        on = problem.is_passing & np.isfinite(values)
        left += values[on].tolist()
        right += (1 - problem.q[on]).tolist()
    return spearman_rho(np.array(left), np.array(right)) if len(left) > 1 else float("nan")
