"""Turns replayed outcomes into pass@k at p_tau with intervals. Pure NumPy; one score is one dict of plain floats.

A sample that met a fault of the sandbox takes no part in any score: `is_valid` is an argument of everything here.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from optimrl_jax.arrays import GATE_MARGIN, Array, Outcome
from optimrl_jax.environment.checks import check_tau
from optimrl_jax.evaluation.intervals import bootstrap_interval

Scores = dict[str, dict[str, dict[str, float]]]


def pass_at_k(n: np.ndarray, m: np.ndarray, k: int) -> np.ndarray:
    """Estimate the chance that one of k programs drawn from n passes: 1 - C(n - m, k)/C(n, k), unbiased (Eq. 1).

    Computed as a product of ratios, so that n in the thousands neither overflows nor loses digits.

    Args:
      n: programs that count, any shape.
      m: those among them that pass.
      k: programs drawn.

    Returns:
      Values in [0, 1], elementwise.

    Raises:
      ValueError: unless 1 <= k <= n and 0 <= m <= n everywhere.
    """
    n, m = np.broadcast_arrays(np.asarray(n, np.int64), np.asarray(m, np.int64))
    if not (k >= 1 and (k <= n).all()):
        raise ValueError(f"k = {k}: expected 1 <= k <= n = {n.min() if n.size else 0}")
    if not ((m >= 0) & (m <= n)).all():
        raise ValueError("m: expected 0 <= m <= n")
    missed = np.ones(n.shape)
    for drawn in range(k):
        missed *= np.maximum(n - m - drawn, 0) / (n - drawn)
    return 1 - missed


def counts_at_tau(c_strict: Array, q_qp: Array, tau: float) -> np.ndarray:
    """Mark the samples that count at p_tau: strictly correct and, below tau = 100, q_QP <= tau/100 (sec. 4).

    p100 asks for nothing but correctness. A margin of 1e-6 forgives float32.

    Args:
      c_strict: `[*r]` strict correctness, positive where it holds.
      q_qp: `[*r]` leaderboard percentile in [0, 1].
      tau: percent.

    Returns:
      bool`[*r]`.

    Raises:
      ValueError: unless 0 < tau <= 100.
    """
    check_tau(tau)
    is_correct = np.asarray(c_strict) > 0
    return is_correct if tau == 100 else is_correct & (np.asarray(q_qp) <= tau / 100 + GATE_MARGIN)


def pass_per_problem(is_passing: Array, is_valid: Array, k: int) -> np.ndarray:
    """Compute unbiased pass@k of each problem; faulted samples take no part.

    Args:
      is_passing: `[..., b, n]` samples that count as solved.
      is_valid: `[..., b, n]` samples without a fault.
      k: of pass@k.

    Returns:
      `[..., b]` in [0, 1]; nan for a problem with fewer than k valid samples.
    """
    counts = np.broadcast_to(np.asarray(is_valid), np.shape(is_passing))
    n, m = counts.sum(axis=-1), (np.asarray(is_passing) & counts).sum(axis=-1)
    return np.where(n >= k, pass_at_k(np.maximum(n, k), m, k), np.nan)


def pass_at_tau(outcome: Outcome, *, k: int, tau: float) -> np.ndarray:
    """Compute unbiased pass@k at p_tau of each problem (Eq. 1).

    Args:
      outcome: `[..., b, n]` under the ranking environment.
      k: of pass@k.
      tau: percent.

    Returns:
      `[..., b]` in [0, 1]; nan for a problem with fewer than k valid samples.
    """
    return pass_per_problem(counts_at_tau(outcome.c_strict, outcome.q, tau), outcome.is_valid, k)


def mean_score(values: np.ndarray) -> np.ndarray:
    """Average over problems, the last axis, leaving out those without enough valid samples; nan where none has."""
    is_known = np.isfinite(values)
    count = is_known.sum(axis=-1)
    total = np.where(is_known, values, 0.0).sum(axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def pass_scores(outcome: Outcome, *, ks: Sequence[int], taus: Sequence[float], resamples: int, seed: int) -> Scores:
    """Tabulate {"pass@k": {"p_tau": {"mean", "low", "high"}}}: means over problems with 95 % bootstrap intervals.

    Args:
      outcome: `[b, n]` of one policy.
      ks: of pass@k.
      taus: percentiles in (0, 100].
      resamples: of the bootstrap over problems.
      seed: draws the same problems for all policies, so that differences are paired.
    """
    return {
        f"pass@{k}": {
            f"p{tau:g}": interval_of(pass_at_tau(outcome, k=k, tau=tau), resamples=resamples, seed=seed) for tau in taus
        }
        for k in ks
    }


def interval_of(values: np.ndarray, *, resamples: int, seed: int) -> dict[str, float]:
    """Average the finite values, with a 95 % bootstrap interval over problems.

    Args:
      values: `[b]` one score for each problem.
      resamples: of the bootstrap.
      seed: of its draws.

    Returns:
      {"mean", "low", "high"}; nan where no value is finite.
    """
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return {"mean": float("nan"), "low": float("nan"), "high": float("nan")}
    low, high = bootstrap_interval(finite, resamples=resamples, seed=seed)
    return {"mean": float(finite.mean()), "low": float(low), "high": float(high)}


def paired_gains(
    base: Outcome, other: Outcome, *, ks: Sequence[int], taus: Sequence[float], resamples: int, seed: int
) -> Scores:
    """Tabulate the paired difference `other - base` of each score, with intervals over the same problems.

    Args:
      base: `[b, n]` of the baseline.
      other: `[b, n]` on the same problems.
      ks: of pass@k.
      taus: percentiles in (0, 100].
      resamples: of the bootstrap.
      seed: of its draws.
    """
    return {
        f"pass@{k}": {
            f"p{tau:g}": interval_of(
                pass_at_tau(other, k=k, tau=tau) - pass_at_tau(base, k=k, tau=tau), resamples=resamples, seed=seed
            )
            for tau in taus
        }
        for k in ks
    }


def mean_and_interval(scores: Mapping[str, Scores], *, k: int) -> tuple[dict, dict]:
    """Split scores into {policy: {p_tau: mean}} and {policy: {p_tau: [low, high]}} for one k.

    Args:
      scores: of each policy (`pass_scores`).
      k: one that they hold.
    """
    rows = {policy: of_policy[f"pass@{k}"] for policy, of_policy in scores.items()}
    means = {policy: {tau: cell["mean"] for tau, cell in row.items()} for policy, row in rows.items()}
    intervals = {
        policy: {tau: [cell["low"], cell["high"]] for tau, cell in row.items()} for policy, row in rows.items()
    }
    return means, intervals
