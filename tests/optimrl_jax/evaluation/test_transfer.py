"""The train-by-eval heatmap: its 60 columns, replaying, and how columns are compared."""

import collections

import jax
import numpy as np
import pytest

from optimrl_jax import environment
from optimrl_jax.evaluation import transfer
from tests.optimrl_jax.simulator import ragged


def test_there_are_60_columns_in_seven_families():
    columns = transfer.evaluators()
    assert len(columns) == len({(column.family, column.parameter) for column in columns}) == 60
    sizes = collections.Counter(column.family for column in columns)
    assert list(sizes.values()) == [7, 7, 9, 7, 10, 10, 10]


@pytest.fixture(scope="module")
def replayed():
    group, columns = ragged.problems(7, b=2, h=8), transfer.evaluators()
    problems = [ragged.judged_form(group, index) for index in range(2)]
    slower = [one[2]._replace(duration_s=np.minimum(10, one[2].duration_s * 4)) for one in problems]
    policies = [[one[2] for one in problems], slower]
    return columns, problems, policies, transfer.transfer_matrix(columns, [one[:2] for one in problems], policies)


def test_a_cell_is_the_share_of_samples_that_its_environment_passes(replayed):
    columns, problems, policies, matrix = replayed
    assert matrix.shape == (2, 60)
    for column in (0, 25, 33, 45, 55):
        shares = []
        for (tests, references, _), execution in zip(problems, policies[1], strict=True):
            outcome = jax.jit(environment.judge)(columns[column].env, tests, references, execution)
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
    assert transfer.discrimination(matrix) == pytest.approx((17.5, (30.5 + 29 + 25) / 3))
    assert transfer.leaderboard_agreement(matrix, matrix[:, :1]) == pytest.approx(1)
    assert transfer.leaderboard_agreement(matrix, -matrix) == pytest.approx(-1)
    assert np.isnan(transfer.leaderboard_agreement(matrix, np.ones((3, 2))))
