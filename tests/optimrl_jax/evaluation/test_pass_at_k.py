"""pass@k against counting, and the bootstrap against what it must cover."""

import itertools
import math

import numpy as np
import pytest

from optimrl_jax.evaluation.bootstrap import bootstrap_interval
from optimrl_jax.evaluation.pass_at_k import pass_at_k


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


def test_the_interval_holds_the_mean_and_narrows_with_more_problems():
    draw = np.random.default_rng(0)
    few, many = draw.random(20), draw.random(2000)
    widths = []
    for values in (few, many):
        low, high = bootstrap_interval(values, resamples=1000, seed=1)
        assert low <= values.mean() <= high
        widths.append(high - low)
    assert widths[0] / widths[1] == pytest.approx(10, rel=0.3)


def test_about_95_of_100_intervals_cover_the_truth():
    draw = np.random.default_rng(3)
    covered = 0
    for seed in range(300):
        low, high = bootstrap_interval(draw.random(60), resamples=300, seed=seed)
        covered += low <= 0.5 <= high
    assert 0.89 <= covered / 300 <= 0.99


def test_the_same_seed_gives_the_same_interval_and_one_value_gives_a_point():
    values = np.random.default_rng(0).random(30)
    assert bootstrap_interval(values, resamples=50, seed=4) == bootstrap_interval(values, resamples=50, seed=4)
    assert bootstrap_interval(np.array([0.3]), resamples=50, seed=4) == (0.3, 0.3)


@pytest.mark.parametrize("values", [np.zeros(0), np.zeros((2, 2))])
def test_what_cannot_be_resampled_is_refused(values):
    with pytest.raises(ValueError, match="1-d array"):
        bootstrap_interval(values, resamples=5, seed=0)
