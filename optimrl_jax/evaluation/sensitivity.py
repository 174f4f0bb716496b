"""Do conclusions hold when the service speeds up or slows down? Alpha/beta sweeps over stored runs (App. C.9, C.10).

Executions stay as they were recorded; only the calibration of the reference durations moves. Pure arrays.
"""

import typing
from collections.abc import Sequence

import numpy as np

from optimrl_jax.arrays import AffineMap, Execution
from optimrl_jax.evaluation.replay import ProblemGroup, judge_groups, ranking_environment
from optimrl_jax.evaluation.scores import mean_score, pass_at_tau


def calibration_line(
    prefix: str, *, start: tuple[float, float], stop: tuple[float, float], count: int, first: int
) -> dict[str, AffineMap]:
    """Space calibrations Gamma evenly along a line.

    Args:
      prefix: of their names.
      start: (alpha, beta in seconds) of the first.
      stop: likewise of the last.
      count: how many there are.
      first: number of the first, as its name has it.
    """
    points = np.linspace(start, stop, count)
    return {f"{prefix}{first + index}": AffineMap(float(a), float(b)) for index, (a, b) in enumerate(points)}


# The two grids of App. C.10.
REWARD_CALIBRATIONS = calibration_line("ab", start=(0.594939, 0.054482), stop=(0.719699, 0.048993), count=8, first=1)
SCORING_CALIBRATIONS = calibration_line("s", start=(0.701876, 0.049777), stop=(0.606033, 0.038306), count=10, first=0)

# Sweeps of one number with the other held, as in App. C.9.
BETA_CALIBRATIONS = calibration_line("b", start=(0.7019, 0.0498), stop=(0.7019, 0.0344), count=7, first=0)
ALPHA_CALIBRATIONS = calibration_line("a", start=(0.7019, 0.0498), stop=(0.5692, 0.0498), count=7, first=0)


def calibrated_scores(
    calibrations: Sequence[AffineMap],
    groups: Sequence[ProblemGroup],
    executions: Sequence[Execution],
    *,
    ks: Sequence[int],
    taus: Sequence[float],
) -> np.ndarray:
    """Score one policy's stored samples under each calibration of the reference durations.

    Args:
      calibrations: Gamma of each point of a sweep.
      groups: all problems, with seconds as stored.
      executions: `[n, k]` of each problem.
      ks: of pass@k.
      taus: of p_tau.

    Returns:
      Mean pass@k at p_tau, `[calibrations, ks, taus]`; nan where no problem has k valid samples.
    """
    outcome = judge_groups([ranking_environment(gamma) for gamma in calibrations], groups, executions)
    cells = [[mean_score(pass_at_tau(outcome, k=k, tau=tau)) for tau in taus] for k in ks]
    return np.moveaxis(np.array(cells), -1, 0)


class CalibrationSeparation(typing.NamedTuple):
    """How far a score matrix `[reward calibrations, scoring calibrations]` varies along each axis, in the scores' unit.

    Attributes:
      reward_spread: `[scoring calibrations]` max - min over rewards at each scoring point.
      scoring_drop: `[reward calibrations]` first minus last scoring point of each reward.
    """

    reward_spread: np.ndarray
    scoring_drop: np.ndarray


def calibration_separation(scores: np.ndarray) -> CalibrationSeparation:
    """Measure which of two axes moves a score: the calibration of training or the one of scoring.

    Args:
      scores: `[reward calibrations, scoring calibrations]`.
    """
    scores = np.asarray(scores, float)
    return CalibrationSeparation(np.ptp(scores, axis=0), scores[:, 0] - scores[:, -1])


def relative_gain(scores: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """Compute score / baseline - 1, elementwise.

    Args:
      scores: any shape.
      baseline: in the same unit, broadcast against them.

    Returns:
      Gains without unit; nan where the baseline is 0.
    """
    scores, baseline = np.broadcast_arrays(np.asarray(scores, float), np.asarray(baseline, float))
    return np.divide(scores, baseline, out=np.full(scores.shape, np.nan), where=baseline != 0) - 1
