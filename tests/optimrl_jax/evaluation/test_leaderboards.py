"""Which durations candidates are ranked against, and how the timing pass stood to the stored ones."""

import numpy as np
import pytest

from optimrl_jax.arrays import AffineMap
from optimrl_jax.evaluation import leaderboards


def test_an_affine_drift_is_recovered_exactly():
    stored = np.array([0.001, 0.01, 0.1, 1.0, 5.0])
    drift = leaderboards.fit_affine(stored, 1.5 * stored + 0.002)
    assert drift.map.slope == pytest.approx(1.5)
    assert drift.map.offset_s == pytest.approx(0.002)
    assert drift.spearman == pytest.approx(1.0)
    assert drift.relative_rmse == pytest.approx(0.0, abs=1e-9)


def test_the_map_is_that_of_ordinary_least_squares():
    draw = np.random.default_rng(1)
    stored = draw.uniform(0.001, 8.0, 200)
    fresh = 1.2 * stored + 0.05 + draw.normal(0, 0.01, 200)
    slope, offset = np.polyfit(stored, fresh, 1)
    np.testing.assert_allclose(leaderboards.fit_affine(stored, fresh).map, (slope, offset))


@pytest.mark.parametrize("pairs", [0, 2])
def test_too_few_pairs_leave_the_durations_alone(pairs):
    drift = leaderboards.fit_affine(np.arange(1.0, pairs + 1), np.arange(2.0, pairs + 2))
    assert (drift.map, drift.pairs) == ((1.0, 0.0), pairs)
    assert np.isnan(drift.spearman)


def test_arrays_that_do_not_pair_up_are_refused():
    with pytest.raises(ValueError, match="equal length"):
        leaderboards.fit_affine(np.ones(3), np.ones(4))


def test_rank_correlation_by_hand():
    assert leaderboards.spearman_rho(np.array([1.0, 2, 3, 4]), np.array([10.0, 20, 40, 30])) == pytest.approx(0.8)
    assert leaderboards.spearman_rho(np.array([1.0, 1, 2]), np.array([5.0, 5, 9])) == pytest.approx(1.0)
    assert np.isnan(leaderboards.spearman_rho(np.ones(4), np.arange(4.0)))


def test_each_leaderboard_says_seconds_and_calibration():
    stored = [np.array([[0.1, 0.2, 10.0]])]
    fresh = [np.array([[0.3, np.nan, 10.0]])]
    gamma = AffineMap(0.5, 0.01)
    drift = leaderboards.DriftFit(map=AffineMap(2.0, 0.05), spearman=1.0, relative_rmse=0.0, pairs=9)
    assert leaderboards.stored_leaderboard(stored, fresh, drift, gamma) == (stored, gamma)
    assert leaderboards.mapped_leaderboard(stored, fresh, drift, gamma) == (stored, drift.map)
    times = leaderboards.fresh_leaderboard(stored, fresh, drift, gamma)
    assert times.reference_s[0][0] == pytest.approx([0.3, 0.45, 10.0])
    assert times.gamma == AffineMap()
