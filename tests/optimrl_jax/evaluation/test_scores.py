"""pass@k against counting, alone and as a table over p_tau."""

import itertools
import math

import numpy as np
import pytest

from optimrl_jax.arrays import Outcome
from optimrl_jax.evaluation.scores import counts_at_tau, pass_at_k, pass_at_tau


@pytest.mark.parametrize(("n", "m", "k"), [(5, 0, 1), (5, 2, 1), (5, 2, 3), (5, 4, 2), (6, 6, 6), (4, 1, 4)])
def test_pass_at_k_counts_the_draws_that_contain_a_passing_program(n, m, k):
    draws = list(itertools.combinations([True] * m + [False] * (n - m), k))
    assert float(pass_at_k(n, m, k)) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_thousands_of_samples_neither_overflow_nor_lose_digits():
    exact = 1 - math.comb(4990, 100) / math.comb(5000, 100)
    assert float(pass_at_k(5000, 10, 100)) == pytest.approx(exact, rel=1e-12)


def test_pass_at_1_is_the_share_that_passes():
    np.testing.assert_allclose(pass_at_k(20, np.arange(21), 1), np.arange(21) / 20)


@pytest.mark.parametrize(("n", "m", "k"), [(5, 1, 6), (5, 1, 0), (5, 6, 1), (5, -1, 1)])
def test_counts_that_cannot_be_are_refused(n, m, k):
    with pytest.raises(ValueError, match="expected"):
        pass_at_k(n, m, k)


def pass_table(c_strict, q, ks, taus, is_valid=None):
    """pass@k at p_tau of each problem, [ks, taus, b]."""
    is_valid = np.ones(np.shape(q), bool) if is_valid is None else is_valid
    outcome = Outcome(c=c_strict, c_strict=c_strict, g=c_strict, q=q, is_valid=is_valid)
    return np.array([[pass_at_tau(outcome, k=k, tau=tau) for tau in taus] for k in ks])


def test_faulted_samples_take_no_part():
    """Two of four samples are faults of ours, the other two are correct and first."""
    c_strict, q = np.array([[1.0, 1.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 1.0, 1.0]])
    is_valid = np.array([[True, True, False, False]])
    table = pass_table(c_strict, q, ks=(1, 2, 3), taus=(50,), is_valid=is_valid)
    assert table[:2, 0, 0].tolist() == [1.0, 1.0]
    assert np.isnan(table[2, 0, 0])


def test_p_tau_by_hand():
    """Four samples: one wrong but fast, one correct and slowest, two correct at 30 % and at 50 %."""
    c_strict = np.array([[0.0, 1.0, 1.0, 1.0]])
    q_qp = np.array([[0.0, 1.0, 0.3, 0.5]])
    table = pass_table(c_strict, q_qp, ks=(1, 2), taus=(100, 50, 30, 10))
    np.testing.assert_allclose(table[0, :, 0], [3 / 4, 2 / 4, 1 / 4, 0])
    np.testing.assert_allclose(table[1, :, 0], [1, 5 / 6, 1 / 2, 0])


def test_p100_ignores_the_leaderboard_and_stricter_percentiles_never_score_higher():
    draw = np.random.default_rng(0)
    c_strict, q_qp = draw.integers(0, 2, (50, 8)).astype(float), draw.random((50, 8))
    table = pass_table(c_strict, q_qp, ks=(1, 4), taus=(100, 90, 50, 10))
    np.testing.assert_allclose(table[0, 0], c_strict.mean(axis=1))
    np.testing.assert_array_equal(table, pass_table(c_strict, np.where(q_qp > 0.9, 1, q_qp), (1, 4), (100, 90, 50, 10)))
    assert (np.diff(table, axis=1) <= 0).all()
    assert (table[1] >= table[0]).all()


def test_the_order_of_samples_changes_nothing():
    draw = np.random.default_rng(1)
    c_strict, q_qp, order = draw.integers(0, 2, (5, 6)), draw.random((5, 6)), draw.permutation(6)
    shuffled = pass_table(c_strict[:, order], q_qp[:, order], (1, 3), (100, 40))
    np.testing.assert_array_equal(pass_table(c_strict, q_qp, (1, 3), (100, 40)), shuffled)


@pytest.mark.parametrize("tau", [0, -1, 101])
def test_a_percentile_outside_its_range_is_refused(tau):
    with pytest.raises(ValueError, match="expected a percentile"):
        counts_at_tau(np.ones(2), np.zeros(2), tau)
