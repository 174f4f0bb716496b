"""Do conclusions hold when the service speeds up or slows down? Alpha/beta sweeps over stored runs (App. C.9, C.10).

Executions stay as they were recorded; only the calibration of the reference durations moves. Pure arrays.
"""

import dataclasses
import typing
from collections.abc import Sequence

import jax
import numpy as np

from optimrl_jax import environment
from optimrl_jax.arrays import AffineMap, Execution, Outcome, References, Tests
from optimrl_jax.evaluation.pass_at_k import pass_at_k_table


def calibration_line(
    prefix: str, *, start: tuple[float, float], stop: tuple[float, float], count: int, first: int
) -> dict[str, AffineMap]:
    """Space `count` calibrations Gamma evenly from `start` to `stop` (alpha, beta in s), numbered from `first`."""
    points = np.linspace(start, stop, count)
    return {f"{prefix}{first + index}": AffineMap(float(a), float(b)) for index, (a, b) in enumerate(points)}


# The two grids of App. C.10.
REWARD_CALIBRATIONS = calibration_line("ab", start=(0.594939, 0.054482), stop=(0.719699, 0.048993), count=8, first=1)
SCORING_CALIBRATIONS = calibration_line("s", start=(0.701876, 0.049777), stop=(0.606033, 0.038306), count=10, first=0)

# Sweeps of one number with the other held, as in App. C.9.
BETA_CALIBRATIONS = calibration_line("b", start=(0.7019, 0.0498), stop=(0.7019, 0.0344), count=7, first=0)
ALPHA_CALIBRATIONS = calibration_line("a", start=(0.7019, 0.0498), stop=(0.5692, 0.0498), count=7, first=0)


@jax.jit
def _judged(envs: environment.Environment, tests: Tests, references: References, execution: Execution) -> Outcome:
    return jax.vmap(environment.judge, in_axes=(0, None, None, None))(envs, tests, references, execution)


def rescored(
    env: environment.Environment,
    calibrations: Sequence[AffineMap],
    tests: Tests,
    references: References,
    execution: Execution,
) -> Outcome:
    """Outcomes of one problem's stored samples under each calibration, every field [calibrations, r]."""
    envs = [dataclasses.replace(env, alpha=gamma.slope, beta_s=gamma.offset_s) for gamma in calibrations]
    stacked = jax.tree.map(lambda *values: np.asarray(values, np.float32), *envs)
    return _judged(stacked, tests, references, execution)


def sensitivity(
    env: environment.Environment,
    calibrations: Sequence[AffineMap],
    problems: Sequence[tuple[Tests, References, Execution]],
    *,
    ks: Sequence[int],
    taus: Sequence[int],
) -> np.ndarray:
    """Mean pass@k at p_tau under each calibration, [calibrations, ks, taus], from stored samples [r] of each problem.

    `env` must rank by leaderboard for the paper's p_tau (`qp_ranked`); every problem needs the same number of samples.
    """
    outcomes = [rescored(env, calibrations, *problem) for problem in problems]
    c_strict = np.stack([np.asarray(outcome.c_strict) for outcome in outcomes], axis=1)
    q = np.stack([np.asarray(outcome.q) for outcome in outcomes], axis=1)
    return np.stack([pass_at_k_table(c, q_of, ks, taus).mean(axis=-1) for c, q_of in zip(c_strict, q, strict=True)])


class CalibrationSeparation(typing.NamedTuple):
    """Of a score matrix [reward calibrations, scoring calibrations]: `reward_spread` is max - min over rewards at each
    scoring point, `scoring_drop` first minus last scoring point of each reward; both in the scores' unit."""

    reward_spread: np.ndarray
    scoring_drop: np.ndarray


def calibration_separation(scores: np.ndarray) -> CalibrationSeparation:
    """Which of the two axes moves a score: the calibration of training or the one of scoring."""
    scores = np.asarray(scores, float)
    return CalibrationSeparation(np.ptp(scores, axis=0), scores[:, 0] - scores[:, -1])


def relative_gain(scores: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """score / baseline - 1, elementwise; nan where the baseline is 0."""
    scores, baseline = np.broadcast_arrays(np.asarray(scores, float), np.asarray(baseline, float))
    return np.divide(scores, baseline, out=np.full(scores.shape, np.nan), where=baseline != 0) - 1
