"""Intervals over problems against what they must cover, and the spread of launches against the paper's arithmetic."""

import numpy as np
import pytest
from scipy import stats

from optimrl_jax.evaluation.intervals import bootstrap_interval, difference_half_width, training_spread


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


def test_launches_of_several_recipes_share_one_spread():
    """Recipe A scored 10 and 12, recipe B 30, 31 and 32, recipe C once: deviations 1, 1, 1, 0, 1 over 3 degrees."""
    found = training_spread([np.array([10.0, 12.0]), np.array([30.0, 31.0, 32.0]), np.array([7.0])])
    assert found.freedom == 3
    assert found.deviation == pytest.approx(np.sqrt(4 / 3))
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, 3) * np.sqrt(4 / 3))


def test_a_recipes_own_level_does_not_widen_the_spread():
    scores = [np.array([1.0, 2.0, 4.0]), np.array([5.0, 5.5])]
    moved = [scores[0] + 100, scores[1] - 3]
    assert training_spread(moved).half_width == pytest.approx(training_spread(scores).half_width)


def test_the_papers_gap_at_p50_is_several_half_widths_of_a_difference():
    """Training +-1.4 and test +-4.3 at p50 (Table 7): 19.7 points are 9.9 and 4.2 half widths."""
    assert 19.7 / difference_half_width(1.4) == pytest.approx(9.9, abs=0.1)
    assert difference_half_width(1.4, test=4.3) == pytest.approx(4.7, abs=0.05)
    assert 19.7 / difference_half_width(1.4, test=4.3) == pytest.approx(4.2, abs=0.05)


def test_a_spread_without_a_second_launch_is_refused():
    with pytest.raises(ValueError, match="launched twice"):
        training_spread([np.array([1.0]), np.array([2.0])])
