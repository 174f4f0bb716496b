"""The ranking metrics and the definitions of other papers, sample by sample."""

import functools
import itertools
import math

import numpy as np
from scipy import stats

from optimrl_jax.arrays import Status
from tests.optimrl_jax.analysis.expected.arithmetic import (
    NAN,
    PROBLEMS,
    TIMED,
    board,
    correlation,
    labelled,
    mean_or_nan,
    mean_places,
    places,
    programs,
    rank_correlation,
    references,
)  # fmt: skip

HIGHER = ("top_25_share", "top_50_share", "mean_win_rate", "median_win_rate")
CAP_S = 10.0


def tables(page):
    return {
        "scalarizations": scalarizations(), "metrics": metrics(), "other_definitions": other_definitions(),
        "definitions_agreement": definitions_agreement(),
    }  # fmt: skip


def counted(seed, name, b):
    own = programs(seed, name, b)
    return own.is_right & own.is_valid


def scalarizations():
    rows = []
    for label, seed, name in labelled():
        on = np.concatenate([counted(seed, name, b) for b in PROBLEMS])
        rows_s = [programs(seed, name, b).seconds[:, TIMED] for b in PROBLEMS]
        qar = np.concatenate([mean_places(rows_s[b], board(seed, b)) for b in PROBLEMS])[on]
        qp = np.concatenate([places(seed, name, b) for b in PROBLEMS])[on]
        rows.append({"policy": label, "samples": on.sum(), "spearman": rank_correlation(qar, qp),
                     "pearson": correlation(qar, qp), "mean_difference": np.mean(np.abs(qar - qp))})  # fmt: skip
    return rows


def percentile_of(value, others):
    """Place with average ties, 0 to 100."""
    return 100 * (np.sum(others < value) + np.sum(others == value) / 2) / len(others)


def summaries(values):
    return {"mean": float(np.mean(values)), "median": float(np.median(values))}


def slope(difficulty_s, seconds):
    """Least squares through the origin; over centred ones with an intercept. Rounded: ties are ties."""
    return np.round(seconds @ difficulty_s / (difficulty_s @ difficulty_s), 5)


@functools.cache
def metrics_of(seed, name, b):
    """The 17 scores of each sample of a problem."""
    board_s = board(seed, b)
    difficulty_s = np.median(board_s, axis=0)
    centred = difficulty_s - difficulty_s.mean()
    by_mean = np.argsort(board_s.mean(axis=0))
    found = []
    for row in programs(seed, name, b).seconds[:, TIMED]:
        percentiles = np.array([percentile_of(row[t], board_s[:, t]) for t in range(5)])
        score = {
            "mean_percentile": percentiles.mean(),
            "median_percentile": np.median(percentiles),
            "trimmed_mean_percentile": np.sort(percentiles)[1:-1].mean(),
            "log_mean_percentile": percentiles.mean(),
            "top_25_share": 100 * np.mean(percentiles < 25),
            "top_50_share": 100 * np.mean(percentiles < 50),
            "total_duration": percentile_of(round(row.sum(), 5), board_s.sum(axis=1).round(5)),
            "slope_with_intercept": percentile_of(slope(centred, row), slope(centred, board_s)),
            "slope_without_intercept": percentile_of(slope(difficulty_s, row), slope(difficulty_s, board_s)),
            "mean_win_rate": np.mean(row < board_s.mean(axis=0)),
            "median_win_rate": np.mean(row < np.median(board_s, axis=0)),
        }
        # Of five tests a tenth is at least one, a quarter 1 and a half 2.
        for name_of, summary in (("mean", np.mean), ("median", np.median)):
            for dropped, kept in (("easiest_10", by_mean[1:]), ("hardest_25", by_mean[:-1]),
                                  ("hardest_50", by_mean[:-2])):  # fmt: skip
                score[f"{name_of}_percentile_without_{dropped}"] = summary(percentiles[kept])
        found.append(score)
    return found


def values_of(metric, seed, name, b):
    return np.array([one[metric] for one in metrics_of(seed, name, b)])


def metrics():
    """Within problems: deviation among right samples; between passes: of samples that are right in both."""
    rows = []
    for metric in metrics_of(0, "base", 0)[0]:
        values = functools.partial(values_of, metric)
        known = [values(seed, name, b)[counted(seed, name, b)] for _, seed, name in labelled() for b in PROBLEMS]
        within = []
        for _, seed, name in labelled():
            own = [values(seed, name, b)[counted(seed, name, b)] for b in PROBLEMS]
            within.append(np.mean([np.std(one) for one in own if len(one) > 1]))
        between = []
        for name in ("base", "fast"):
            change = np.concatenate(
                [(values(0, name, b) - values(1, name, b))[counted(0, name, b) & counted(1, name, b)]
                 for b in PROBLEMS]
            )  # fmt: skip
            between.append(np.sqrt(np.mean(change**2) / 2))
        signal, noise = np.mean(within), np.mean(between)
        rows.append({"metric": metric, "better": "higher" if metric in HIGHER else "lower",
                     "mean": np.mean(np.concatenate(known)), "within_problem_std": signal,
                     "between_passes_std": noise, "signal_to_noise": signal / noise if noise else NAN,
                     "undefined_share": 0.0})  # fmt: skip
    return rows


class Sample:
    """One program that met no fault, beside the references of its problem."""

    def __init__(self, seed, name, b, number):
        own, human = programs(seed, name, b), references(seed, b)
        self.seconds, self.is_right = own.seconds[number, TIMED], bool(own.is_right[number])
        self.mean_s, self.q = self.seconds.mean(), places(seed, name, b)[number]
        whole = human.is_right
        self.human_s = human.mean_s[whole]
        self.cells = np.where(human.status == Status.SUCCESS, human.seconds, NAN)[:, TIMED]
        # Seconds over the calibrated board, timeouts as the cap.
        self.median_ratio = np.median(board(seed, b), axis=0).sum() / self.seconds.sum()
        self.is_quadratic = name == "fast" and b == 0 and number % 4 == 1

    @property
    def speedup(self):
        return max(1.0, np.median(self.human_s) / self.mean_s) if self.is_right else 1.0


@functools.cache
def samples_of(seed, name, b):
    valid = np.flatnonzero(programs(seed, name, b).is_valid)
    return [Sample(seed, name, b, number) for number in valid]


def clusters(seconds):
    """References whose slower neighbour is at most a fifth slower stand together, slowest first."""
    found = []
    for one in sorted(seconds, reverse=True):
        if found and found[-1][-1] <= 1.2 * one:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def matched(s, *, by_cluster):
    parts = clusters(s.human_s)
    sizes = [1 if by_cluster else len(part) for part in parts]
    return sum(n for n, part in zip(sizes, parts, strict=True) if s.mean_s <= part[0]) / sum(sizes)


def level_score(s):
    """Tests by the median of references, in levels of 2, 2 and 1, with weights 3, 3 and 4."""
    if not s.is_right:
        return 0.0
    order = np.argsort(np.nanmedian(s.cells, axis=0), kind="stable")
    best_s = np.nanmin(s.cells, axis=0)
    limit_s, total = 2 * best_s.max(), 0.0
    for weight, level in ((3, order[:2]), (3, order[2:4]), (4, order[4:])):
        slowest_s = s.seconds[level].max()
        if slowest_s >= limit_s:
            break
        total += weight * (limit_s - slowest_s) / (limit_s - best_s[level].max())
    return total / 10


def capped(s):
    return min(s.median_ratio, 4.0)


def gain(s):
    extra = capped(s) - 1
    return extra / 3 if extra > 0 else extra


def right(s, value, otherwise):
    return value if s.is_right else otherwise


# name: (paper, whether larger is better, score of a sample).
BY_SAMPLE = {
    "beyond": ("Mercury", True, lambda s: right(
        s, (max(s.human_s) - np.clip(s.mean_s, min(s.human_s), max(s.human_s))) / np.ptp(s.human_s), 0.0)),
    "normalized_time": ("EffiBench", False, lambda s: right(s, s.mean_s / min(s.human_s), NAN)),
    "relative_time": ("EffiBench-X", True, lambda s: right(s, min(1.0, min(s.human_s) / s.mean_s), 0.0)),
    "dps": ("EvalPerf", True, lambda s: right(s, matched(s, by_cluster=False), NAN)),
    "dps_norm": ("EvalPerf", True, lambda s: right(s, matched(s, by_cluster=True), NAN)),
    "eff@1": ("ENAMEL", True, level_score),
    "optimized": ("PIE, PerfCodeGen, SBLLM", True, lambda s: float(s.speedup >= 1.1)),
    "speedup": ("PIE, PerfCodeGen, SBLLM", True, lambda s: s.speedup),
    # Planted: every reference grows as the weights of its tests, and a part of `fast` as their square.
    "human_growth": ("BigO(Bench)", True, lambda s: right(s, float(not s.is_quadratic), 0.0)),
    "relative_speedup": ("Performance-Aligned LLMs", True, lambda s: right(s, gain(s), -1.0)),
    "gated_speedup": ("SuperCoder", True, lambda s: right(s, capped(s) / 4, 0.0)),
    # Wrong programs fail one test and pass the others.
    "status_ladder": ("HPC online RL", True, lambda s: right(s, capped(s) / 4, -0.75)),
    "additive_blend": ("Afterburner", True, lambda s: 0.2 + right(
        s, 0.3 + 0.5 * math.tanh(math.log(s.median_ratio)), -0.3)),
    "bucketed_speedup": ("MaxCode", True, lambda s: right(
        s, sum(s.median_ratio >= bound for bound in (1, 1.25, 1.5, 2, 3, 4)) / 6, -1.0)),
}  # fmt: skip


def best_of(values, k):
    """Mean of the largest of k, over all draws of k."""
    return float(np.mean([max(draw) for draw in itertools.combinations(values, k)]))


def beats_all(samples, k):
    faster = sum(s.is_right and s.mean_s < min(s.human_s) for s in samples)
    return 1 - math.comb(len(samples) - faster, k) / math.comb(len(samples), k)


BY_PROBLEM = {
    "eff@10": ("ENAMEL", lambda own: best_of([level_score(s) for s in own], 10)),
    "efficient@1": ("COFFE", lambda own: beats_all(own, 1)),
    "efficient@10": ("COFFE", lambda own: beats_all(own, 10)),
    "best_speedup@10": ("PIE, EffiCoder", lambda own: best_of([s.speedup for s in own], 10)),
}


def other_definitions():
    rows = []
    for name, (paper, is_larger_better, score) in BY_SAMPLE.items():
        row = {"definition": name, "paper": paper, "better": "larger" if is_larger_better else "smaller"}
        for label, seed, policy in labelled():
            means = [mean_or_nan([score(s) for s in samples_of(seed, policy, b)]) for b in PROBLEMS]
            row[label] = mean_or_nan(means)
        rows.append(row)
    for name, (paper, score) in BY_PROBLEM.items():
        row = {"definition": name, "paper": paper, "better": "larger"}
        rows.append(row | {label: np.mean([score(samples_of(seed, policy, b)) for b in PROBLEMS])
                           for label, seed, policy in labelled()})  # fmt: skip
    shares = {"definition": "expert_share", "paper": "SWE-fficiency", "better": "larger"}
    gains = {"definition": "significant_gain", "paper": "SWE-Perf", "better": "larger"}
    return [
        *rows,
        shares | {label: expert_share(seed, policy) for label, seed, policy in labelled()},
        gains | {label: significant_gain(seed) if policy == "fast" else NAN for label, seed, policy in labelled()},
    ]


def expert_share(seed, policy):
    """Harmonic mean over all samples: seconds of the fastest human over own, or over the median human where wrong."""
    shares = [
        min(s.human_s) / (s.mean_s if s.is_right else np.median(s.human_s))
        for b in PROBLEMS
        for s in samples_of(seed, policy, b)
    ]
    return len(shares) / sum(1 / share for share in shares)


def is_slower(before, after):
    return stats.mannwhitneyu(before, after, alternative="greater").pvalue < 0.1


def significant_gain(seed):
    """The largest whole percent by which right programs of base can be shortened and still be slower beyond doubt."""
    found = []
    for b in PROBLEMS:
        before, after = ([s.mean_s for s in samples_of(seed, name, b) if s.is_right] for name in ("base", "fast"))
        if before and after and not is_slower(np.array(before) * 0.99, after):
            found.append(0)
        elif before and after:
            certain = (p for p in range(99, 0, -1) if is_slower(np.array(before) * (1 - p / 100), after))
            found.append(next(certain, 0) / 100)
    return np.mean(found)


def definitions_agreement():
    everything = [s for _, seed, policy in labelled() for b in PROBLEMS for s in samples_of(seed, policy, b)]
    correct = [s for s in everything if s.is_right]
    rows = []
    for name, (_, is_larger_better, score) in BY_SAMPLE.items():
        values = [score(s) * (1 if is_larger_better else -1) for s in correct]
        rows.append({"definition": name, "spearman": rank_correlation(np.round(values, 6), [1 - s.q for s in correct])})
    return rows
