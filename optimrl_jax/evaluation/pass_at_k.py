"""Unbiased pass@k: the chance that at least one of k programs drawn from n counted ones passes. Pure NumPy."""

import numpy as np


def pass_at_k(n: np.ndarray, m: np.ndarray, k: int) -> np.ndarray:
    """1 - C(n - m, k)/C(n, k), elementwise in [0, 1], for m passing programs among n (paper L160).

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
