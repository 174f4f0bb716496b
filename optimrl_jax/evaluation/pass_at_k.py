"""Unbiased pass@k: the chance that at least one of k programs drawn from n counted ones passes. Pure NumPy."""

from collections.abc import Sequence

import numpy as np

from optimrl_jax.arrays import GATE_MARGIN
from optimrl_jax.environment.checks import check_tau


def pass_at_k(n: np.ndarray, m: np.ndarray, k: int) -> np.ndarray:
    """1 - C(n - m, k)/C(n, k), elementwise in [0, 1], for m passing programs among n (Eq. 1).

    Computed as a product of ratios, so that n in the thousands neither overflows nor loses digits. Raises ValueError
    unless 1 <= k <= n and 0 <= m <= n everywhere.
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


def counts_at_tau(c_strict: np.ndarray, q_qp: np.ndarray, tau: float) -> np.ndarray:
    """Which samples count at p_tau, bool, elementwise: strictly correct and, below tau = 100, q_QP <= tau/100 (Eq. 1).

    p100 asks for nothing but correctness. A margin of 1e-6 forgives float32. Raises ValueError unless 0 < tau <= 100.
    """
    check_tau(tau)
    is_correct = np.asarray(c_strict) > 0
    return is_correct if tau == 100 else is_correct & (np.asarray(q_qp) <= tau / 100 + GATE_MARGIN)


def pass_at_k_table(c_strict: np.ndarray, q_qp: np.ndarray, ks: Sequence[int], taus: Sequence[int]) -> np.ndarray:
    """pass@k at p_tau of every problem, [ks, taus, b] in [0, 1], from samples [b, n] (Eq. 1).

    The mean over the last axis is the paper's score; the last axis is what a bootstrap over problems resamples.
    """
    n = np.shape(c_strict)[-1]
    counts = np.stack([counts_at_tau(c_strict, q_qp, tau).sum(axis=-1) for tau in taus])
    return np.stack([pass_at_k(n, counts, k) for k in ks])
