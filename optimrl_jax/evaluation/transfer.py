"""Trained under one constraint, judged under another: the train-by-eval heatmap over 60 columns (Figure 4)."""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from optimrl_jax import environment
from optimrl_jax.arrays import Execution, References, Tests
from optimrl_jax.environment import families
from optimrl_jax.evaluation.leaderboards import rank_correlation

# Held while a column's own parameter moves: the limit of filtered tests and the tolerated share of timeouts.
FILTERED_LIMIT_S = 0.5
TOLERANCE = 0.1
DECILES = (*families.PERCENTS, 100.0)


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """One column: an environment used to judge, under the family that it belongs to and its parameter as text."""

    family: str
    parameter: str
    env: environment.Environment


def evaluators() -> tuple[Evaluator, ...]:
    """The 60 columns, families in the paper's order and easy settings first within each.

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


_judge = jax.jit(environment.judge)


def passes(columns: Sequence[Evaluator], tests: Tests, references: References, execution: Execution) -> np.ndarray:
    """Which stored samples of one problem pass under each column: c_strict and g, bool[columns, r]."""
    outcomes = [_judge(column.env, tests, references, execution) for column in columns]
    return np.stack([np.asarray(outcome.c_strict * outcome.g) > 0 for outcome in outcomes])


def transfer_matrix(
    columns: Sequence[Evaluator],
    problems: Sequence[tuple[Tests, References]],
    executions: Sequence[Sequence[Execution]],
) -> np.ndarray:
    """pass@1 of each policy under each column, [policies, columns]; `executions[policy][problem]` are stored runs."""
    return np.array(
        [
            np.mean(
                [
                    passes(columns, tests, references, execution).mean(axis=1)
                    for (tests, references), execution in zip(problems, of_policy, strict=True)
                ],
                axis=0,
            )
            for of_policy in executions
        ]
    )


def columns_near_best(matrix: np.ndarray, *, points: float) -> np.ndarray:
    """In how many columns each policy is within `points` of the best one, int[policies]."""
    return (matrix >= matrix.max(axis=0) - points - 1e-9).sum(axis=1)


def discrimination(matrix: np.ndarray) -> tuple[float, float]:
    """(spread between policies, averaged over a family's columns; span over its columns, averaged over policies).

    A good evaluator has both: it separates policies at one setting and covers easy to hard over its settings (sec. 5).
    """
    return float(np.ptp(matrix, axis=0).mean()), float(np.ptp(matrix, axis=1).mean())


def leaderboard_agreement(left: np.ndarray, right: np.ndarray) -> float:
    """Spearman's rho of two families' leaderboards: policies by their mean over each family's columns.

    nan where one side does not tell the policies apart.
    """
    means = [block.mean(axis=1) for block in (left, right)]
    return rank_correlation(*means)
