"""Bootstrap over problems: how far a mean could move with other problems of the same kind. Pure NumPy, seeded."""

import numpy as np


def bootstrap_interval(
    values: np.ndarray, *, resamples: int, seed: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Percentile interval of the mean of `values` [b] over `resamples` draws of b problems with replacement.

    The same seed draws the same problems, so that intervals of paired differences are paired. One value gives an
    interval of width 0. Raises ValueError for an empty array or a confidence outside (0, 1).
    """
    values = np.asarray(values, float)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"values of shape {values.shape}: expected a 1-d array with at least one value")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence = {confidence}: expected a share in (0, 1)")
    drawn = np.random.default_rng(seed).integers(0, values.size, size=(resamples, values.size))
    tail = (1 - confidence) / 2
    low, high = np.quantile(values[drawn].mean(axis=1), [tail, 1 - tail])
    return float(low), float(high)
