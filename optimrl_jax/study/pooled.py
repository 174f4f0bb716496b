"""Scores of a row over seeds, as gains over the policy that each seed started from. Pure NumPy.

Seeds differ most by their SFT policy. A gain is taken within a seed, problem by problem, so that this part cancels;
what is left between seeds is pooled over all rows, as Table 7 does with repeated launches.
"""

import typing
from collections.abc import Mapping, Sequence

import numpy as np

from optimrl_jax.evaluation.intervals import TrainingSpread, training_spread
from optimrl_jax.evaluation.scores import interval_of


class PooledGain(typing.NamedTuple):
    """A difference in points, with the interval of both kinds of chance.

    Attributes:
      mean: over seeds and problems, in points.
      half_width: 95 %, from problems and from launches in quadrature; nan with one seed and one row.
      seeds: how many stand behind it.
    """

    mean: float
    half_width: float
    seeds: int

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.half_width


def launch_spread(gains: Mapping[str, np.ndarray]) -> TrainingSpread | None:
    """Pool how far launches of one row lie from one another, over all rows (Table 7).

    Args:
      gains: `[s, b]` gains of each row over its start, as shares.

    Returns:
      The spread as a share; None where no row has two seeds.
    """
    launches = [np.nanmean(of_row, axis=1) for of_row in gains.values() if len(of_row) > 1]
    return training_spread(launches) if launches else None


def pooled_gain(
    gains: np.ndarray, *, spread: TrainingSpread | None, launches: int = 1, resamples: int = 2000, seed: int = 0
) -> PooledGain:
    """Average gains over seeds and problems.

    The half width from problems is a bootstrap of the means over seeds; that from launches is the spread of one launch
    divided by the root of the seeds, and larger by the root of two where two launches are compared.

    Args:
      gains: `[s, b]` shares, nan where a problem has no score.
      spread: of one launch; None: only problems are counted, and the interval is too narrow.
      launches: policies trained in the difference: 1 against the start, 2 against another row.
      resamples: of the bootstrap.
      seed: of its draws.

    Returns:
      Points, 100 times the shares.
    """
    found = interval_of(_mean_over_seeds(gains), resamples=resamples, seed=seed)
    of_problems = (found["high"] - found["low"]) / 2
    of_launches = spread.half_width * np.sqrt(launches / len(gains)) if spread else 0.0
    return PooledGain(100 * found["mean"], 100 * float(np.hypot(of_problems, of_launches)), len(gains))


def stack_seeds(of_seeds: Sequence[np.ndarray]) -> np.ndarray:
    """Stack the scores `[b]` of each seed to `[s, b]`.

    Raises:
      ValueError: for seeds that were evaluated on different numbers of problems.
    """
    sizes = {len(values) for values in of_seeds}
    if len(sizes) != 1:
        raise ValueError(f"problems = {sorted(sizes)}: expected the same problems for every seed")
    return np.stack(of_seeds)


def _mean_over_seeds(values: np.ndarray) -> np.ndarray:
    is_known = np.isfinite(values)
    count = is_known.sum(axis=0)
    return np.where(count > 0, np.where(is_known, values, 0).sum(axis=0) / np.maximum(count, 1), np.nan)
