"""Turns replayed outcomes into pass@k at p_tau with intervals. Pure NumPy; one score is one dict of plain floats."""

from collections.abc import Mapping, Sequence

import numpy as np

from optimrl_jax.evaluation.bootstrap import bootstrap_interval
from optimrl_jax.evaluation.pass_at_k import counts_at_tau, pass_at_k
from optimrl_jax.evaluation.replay import ReplayedSamples

Scores = dict[str, dict[str, dict[str, float]]]


def per_problem(replayed: ReplayedSamples, *, k: int, tau: int) -> np.ndarray:
    """Unbiased pass@k at p_tau of each problem, [b] in [0, 1] (Eq. 1).

    A sample counts if c_strict and, below tau = 100, q <= tau / 100; p100 is plain correctness. Faulted samples do not
    take part; a problem with fewer than k valid samples is nan.
    """
    counts = replayed.is_valid & counts_at_tau(replayed.c_strict, replayed.q, tau)
    n, m = replayed.is_valid.sum(axis=1), counts.sum(axis=1)
    return np.where(n >= k, pass_at_k(np.maximum(n, k), m, k), np.nan)


def pass_scores(
    replayed: ReplayedSamples, *, ks: Sequence[int], taus: Sequence[int], resamples: int, seed: int
) -> Scores:
    """{"pass@k": {"p_tau": {"mean", "low", "high"}}}: means over problems with 95 % bootstrap intervals."""
    scores: Scores = {}
    for k in ks:
        scores[f"pass@{k}"] = {}
        for tau in taus:
            values = per_problem(replayed, k=k, tau=tau)
            scores[f"pass@{k}"][f"p{tau}"] = interval_of(values, resamples=resamples, seed=seed)
    return scores


def interval_of(values: np.ndarray, *, resamples: int, seed: int) -> dict[str, float]:
    """Mean of the finite values with its 95 % bootstrap interval over problems; nan where there are none."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return {"mean": float("nan"), "low": float("nan"), "high": float("nan")}
    low, high = bootstrap_interval(finite, resamples=resamples, seed=seed)
    return {"mean": float(finite.mean()), "low": float(low), "high": float(high)}


def gains(
    base: ReplayedSamples, other: ReplayedSamples, *, ks: Sequence[int], taus: Sequence[int], resamples: int, seed: int
) -> Scores:
    """Paired difference `other - base` of each score, with intervals over the same problems."""
    return {
        f"pass@{k}": {
            f"p{tau}": interval_of(
                per_problem(other, k=k, tau=tau) - per_problem(base, k=k, tau=tau), resamples=resamples, seed=seed
            )
            for tau in taus
        }
        for k in ks
    }


def mean_and_interval(scores: Mapping[str, Scores], *, k: int) -> tuple[dict, dict]:
    """Splits {policy: scores} into {policy: {p_tau: mean}} and {policy: {p_tau: [low, high]}} for one k."""
    chosen = {policy: of_policy[f"pass@{k}"] for policy, of_policy in scores.items()}
    means = {policy: {tau: cell["mean"] for tau, cell in row.items()} for policy, row in chosen.items()}
    intervals = {
        policy: {tau: [cell["low"], cell["high"]] for tau, cell in row.items()} for policy, row in chosen.items()
    }
    return means, intervals
