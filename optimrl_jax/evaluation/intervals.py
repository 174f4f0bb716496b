"""How far a score could move: with other problems (bootstrap, seeded) and with another launch of the same recipe."""

import typing
from collections.abc import Sequence

import numpy as np
from scipy import special


def bootstrap_interval(
    values: np.ndarray, *, resamples: int, seed: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Compute the bootstrap percentile interval of a mean over problems.

    The same seed draws the same problems, so that intervals of paired differences are paired. One value gives an
    interval of width 0.

    Args:
      values: `[b]` one score for each problem.
      resamples: draws of `b` problems with replacement.
      seed: of the draws.
      confidence: share of the draws inside the interval.

    Returns:
      Lower and upper end, in the unit of `values`.

    Raises:
      ValueError: for an array that is empty or not 1-d, or a confidence outside (0, 1).
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


class TrainingSpread(typing.NamedTuple):
    """How far one run's score may lie from its recipe's mean.

    Attributes:
      half_width: of the interval at the confidence asked for, in the scores' unit.
      deviation: pooled standard deviation, in the same unit.
      freedom: its degrees of freedom.
    """

    half_width: float
    deviation: float
    freedom: int


def training_spread(launches: Sequence[np.ndarray], *, confidence: float = 0.95) -> TrainingSpread:
    """Pool repeated launches of several recipes into one spread (Table 7).

    s^2 = sum of squared deviations from each recipe's own mean / sum of (launches - 1); the half width is s times
    Student's quantile. A recipe launched once adds nothing.

    Args:
      launches: `[launches]` scores of each recipe.
      confidence: of the interval.

    Raises:
      ValueError: where no recipe was launched twice, or for a confidence outside (0, 1).
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence = {confidence}: expected a share in (0, 1)")
    scores = [np.asarray(of_recipe, float) for of_recipe in launches]
    freedom = sum(max(0, of_recipe.size - 1) for of_recipe in scores)
    if freedom == 0:
        raise ValueError("launches: expected at least one recipe that was launched twice")
    squares = sum(((of_recipe - of_recipe.mean()) ** 2).sum() for of_recipe in scores if of_recipe.size)
    deviation = float(np.sqrt(squares / freedom))
    # The quantile of `scipy.stats`, which takes every job the better part of a second to import.
    quantile = float(special.stdtrit(freedom, (1 + confidence) / 2))
    return TrainingSpread(quantile * deviation, deviation, freedom)


def difference_half_width(training: float, *, test: float = 0.0) -> float:
    """Compute the half width for the difference of two single runs (Table 7).

    It is sqrt(2) times that of one run, with the half width from problems added in quadrature.

    Args:
      training: half width of one run (`TrainingSpread.half_width`).
      test: half width from resampling problems; 0 where both runs face one fixed test set.
    """
    return float(np.hypot(np.sqrt(2) * training, test))
