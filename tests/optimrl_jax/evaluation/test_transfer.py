"""The train-by-eval heatmap: its 60 columns, replaying, and how columns are compared."""

import collections

import numpy as np
import pytest

from optimrl_jax import environment
from optimrl_jax.arrays import AffineMap, Execution
from optimrl_jax.environment import padding
from optimrl_jax.evaluation import replay, transfer
from tests.optimrl_jax.records import ragged


def test_there_are_60_columns_in_seven_families():
    columns = transfer.evaluators()
    assert len(columns) == len({(column.family, column.parameter) for column in columns}) == 60
    sizes = collections.Counter(column.family for column in columns)
    assert list(sizes.values()) == [7, 7, 9, 7, 10, 10, 10]


@pytest.fixture(scope="module")
def replayed():
    problems, columns = ragged(7, problems=3), transfer.evaluators()
    draw = np.random.default_rng(0)
    runs = [
        Execution(np.zeros((4, k), np.int8), draw.uniform(0.001, 0.2, (4, k)).astype(np.float32))
        for k in (len(problem.test_kind) for problem in problems)
    ]
    slower = [run._replace(duration_s=run.duration_s * 4) for run in runs]
    groups = replay.group_problems(problems, [problem.duration_s for problem in problems])
    matrix = transfer.transfer_matrix(columns, groups, [runs, slower], gamma=AffineMap())
    return columns, problems, [runs, slower], matrix


def test_a_cell_is_the_share_of_samples_that_its_environment_passes(replayed):
    columns, problems, policies, matrix = replayed
    assert matrix.shape == (2, 60)
    for column in (0, 25, 33, 45, 55):
        shares = []
        for problem, execution in zip(problems, policies[1], strict=True):
            k, h = padding.shape_of([problem])
            arrays = padding.pad_tests(problem, k), padding.pad_references(problem, k, h)
            outcome = environment.judge(columns[column].env, *arrays, padding.pad_execution(execution, k))
            shares.append(float((outcome.c_strict * outcome.g).mean()))
        assert matrix[1, column] == pytest.approx(np.mean(shares))


def test_the_slower_policy_wins_nowhere_and_p100_asks_for_correctness_alone(replayed):
    columns, _, _, matrix = replayed
    assert (matrix[0] >= matrix[1]).all()
    assert (matrix[0] > matrix[1]).any()
    p100 = [index for index, column in enumerate(columns) if column.parameter == "p100"]
    leaderboard = next(index for index in p100 if columns[index].family == "qp_ranked")
    relative = next(index for index in p100 if columns[index].family == "relative_timeout")
    assert matrix[0, leaderboard] == matrix[1, leaderboard] == matrix[0, relative]


def test_easier_columns_come_first_within_leaderboards_and_timeouts(replayed):
    columns, _, _, matrix = replayed
    for family in ("absolute_timeout", "qp_ranked"):
        chosen = [index for index, column in enumerate(columns) if column.family == family]
        assert (np.diff(matrix[:, chosen], axis=1) <= 1e-9).all()


def test_comparisons_by_hand():
    """Two columns of three policies: best 50 and 20."""
    matrix = np.array([[50.0, 19.5], [49.0, 20.0], [30.0, 5.0]])
    np.testing.assert_array_equal(transfer.columns_near_best(matrix, points=1), [2, 2, 0])
    np.testing.assert_array_equal(transfer.columns_near_worst(matrix, places=1), [0, 0, 2])
    assert transfer.discrimination(matrix) == pytest.approx((17.5, (30.5 + 29 + 25) / 3))
    assert transfer.leaderboard_agreement(matrix, matrix[:, :1]) == pytest.approx(1)
    assert transfer.leaderboard_agreement(matrix, -matrix) == pytest.approx(-1)
    assert np.isnan(transfer.leaderboard_agreement(matrix, np.ones((3, 2))))
