"""Trained under one constraint, judged under another: the train-by-eval heatmap over 60 columns (Figure 4)."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from optimrl_jax import environment
from optimrl_jax.arrays import AffineMap, Execution
from optimrl_jax.environment import families
from optimrl_jax.evaluation.leaderboards import spearman_rho
from optimrl_jax.evaluation.replay import ProblemGroup, judge_groups
from optimrl_jax.evaluation.scores import mean_score, pass_per_problem

# Held while a column's own parameter moves: the limit of filtered tests and the tolerated share of timeouts.
FILTERED_LIMIT_S = 0.5
TOLERANCE = 0.1
DECILES = (*families.PERCENTS, 100.0)


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """One column of the heatmap.

    Attributes:
      family: name of the family that it belongs to.
      parameter: its setting, as text.
      env: the environment that judges.
    """

    family: str
    parameter: str
    env: environment.Environment


def evaluators() -> tuple[Evaluator, ...]:
    """List the 60 columns, families in the paper's order and easy settings first within each.

    7 absolute and 7 length filters, 9 relative filters, 7 absolute timeouts, and the 10 deciles of relative timeouts,
    ranked-worst timeouts and leaderboard percentiles. Relative timeouts at p100 carry no constraint but correctness
    (sec. 5).
    """
    columns = [
        *_filters("absolute_filter", families.DURATIONS_S[::-1], "{:g} s"),
        *_filters("length_filter", families.CHARACTERS[::-1], "{:g} chars"),
        *_filters("relative_filter", families.PERCENTS, "{:g} %"),
        *_timeouts("absolute_timeout", families.DURATIONS_S[::-1], "{:g} s"),
        Evaluator("relative_timeout", "p100", environment.build("mc_mo", tolerance=1.0)),
        *_timeouts("relative_timeout", families.PERCENTS[::-1], "p{:g}"),
        *_timeouts("ranked_timeout", DECILES[::-1], "p{:g}"),
    ]
    for percent in DECILES[::-1]:
        env = environment.build("qp_ranked", threshold=percent / 100)
        columns.append(Evaluator("qp_ranked", f"p{percent:g}", env))
    return tuple(columns)


def _filters(family: str, values: Sequence[float], text: str) -> list[Evaluator]:
    held = {"limit": FILTERED_LIMIT_S, "tolerance": TOLERANCE}
    return [Evaluator(family, text.format(v), environment.build(family, filter_limit=v, **held)) for v in values]


def _timeouts(family: str, values: Sequence[float], text: str) -> list[Evaluator]:
    return [Evaluator(family, text.format(v), environment.build(family, limit=v, tolerance=TOLERANCE)) for v in values]


def transfer_matrix(
    columns: Sequence[Evaluator],
    groups: Sequence[ProblemGroup],
    executions: Sequence[Sequence[Execution]],
    *,
    gamma: AffineMap,
) -> np.ndarray:
    """Compute pass@1 of each policy under each column (Figure 4).

    A sample passes where it is strictly correct and its gate is open; faulted samples take no part.

    Args:
      columns: environments to judge under.
      groups: all problems.
      executions: `executions[policy][problem]`, `[n, k]` stored runs.
      gamma: calibration of the groups' reference seconds.

    Returns:
      `[policies, columns]` in [0, 1].
    """
    envs = [dataclasses.replace(column.env, alpha=gamma.slope, beta_s=gamma.offset_s) for column in columns]
    rows = []
    for of_policy in executions:
        outcome = judge_groups(envs, groups, of_policy)
        is_passing = (outcome.c_strict > 0) & (outcome.g > 0)
        rows.append(mean_score(pass_per_problem(is_passing, outcome.is_valid, 1)))
    return np.array(rows)


def columns_near_worst(matrix: np.ndarray, *, places: int = 5) -> np.ndarray:
    """Count the columns in which each policy is among the last `places` policies (sec. 5).

    Args:
      matrix: `[policies, columns]` scores.
      places: from the end.

    Returns:
      int`[policies]`.
    """
    position = np.argsort(np.argsort(matrix, axis=0, kind="stable"), axis=0)
    return (position < places).sum(axis=1)


def columns_near_best(matrix: np.ndarray, *, points: float) -> np.ndarray:
    """Count the columns in which each policy is within `points` of the best one (sec. 5).

    Args:
      matrix: `[policies, columns]` scores.
      points: in the unit of the scores.

    Returns:
      int`[policies]`.
    """
    return (matrix >= matrix.max(axis=0) - points - 1e-9).sum(axis=1)


def discrimination(matrix: np.ndarray) -> tuple[float, float]:
    """Measure how well columns separate policies and how far they span easy to hard (sec. 5).

    A good evaluator does both: it separates policies at one setting and covers easy to hard over its settings.

    Args:
      matrix: `[policies, columns]` scores.

    Returns:
      The spread between policies, averaged over columns, and the span over columns, averaged over policies.
    """
    return float(np.ptp(matrix, axis=0).mean()), float(np.ptp(matrix, axis=1).mean())


def leaderboard_agreement(left: np.ndarray, right: np.ndarray) -> float:
    """Correlate the leaderboards of two families: policies by their mean over each family's columns.

    Args:
      left: `[policies, columns]` scores under one family.
      right: likewise under the other.

    Returns:
      Spearman's rho; nan where one side does not tell the policies apart.
    """
    means = [block.mean(axis=1) for block in (left, right)]
    return spearman_rho(*means)
