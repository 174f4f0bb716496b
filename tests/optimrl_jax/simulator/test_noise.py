"""The noise study against closed forms, the paper's table, and what its figures claim."""

import numpy as np
import pytest
from scipy import stats

from optimrl_jax.simulator import noise, noise_plots

LCB, DMC = noise.REGIMES["lcb"], noise.REGIMES["dmc"]
QUIET = noise.Noise()
ADDITIVE = noise.Noise(additive_s=0.1)


def single(win_share: float, tests: int) -> float:
    """Chance that B wins more of an odd number of tests when it wins each with `win_share`."""
    return float(stats.binom.sf(tests // 2, tests, win_share))


def test_one_test_is_won_as_often_as_two_normals_say():
    """P(eta_B - eta_A < 0.2) with standard deviation 0.15 each: Phi(0.943) = 0.827."""
    found = noise.tests_sweep(LCB, QUIET, [1], trials=40_000, seed=0)
    expected = stats.norm.cdf(noise.GAP / (noise.TEST_SPREAD * np.sqrt(2)))
    assert expected == pytest.approx(0.827, abs=1e-3)
    assert found.win_rate[0] == pytest.approx(expected, abs=0.008)


def test_the_win_rate_over_many_tests_is_a_binomial_majority():
    share = stats.norm.cdf(noise.GAP / (noise.TEST_SPREAD * np.sqrt(2)))
    counts = (1, 3, 5, 9)
    found = noise.tests_sweep(DMC, QUIET, counts, trials=20_000, seed=1)
    np.testing.assert_allclose(found.win_rate, [single(share, n) for n in counts], atol=0.012)


def test_multiplicative_noise_adds_in_variance_for_both_regimes_alike():
    """Given the true pair, the observed gap is normal: averaged here over the true pairs themselves."""
    size, draw = 0.3, np.random.default_rng(5)
    own, other = (1 + sign * 0.1 + draw.normal(0, noise.TEST_SPREAD, 200_000) for sign in (-1, 1))
    expected = stats.norm.cdf((other - own) / (size * np.hypot(own, other))).mean()
    for regime in noise.REGIMES.values():
        found = noise.tests_sweep(regime, noise.Noise(multiplicative=size), [1], trials=40_000, seed=2)
        assert found.win_rate[0] == pytest.approx(expected, abs=0.01)


def test_decisions_by_hand():
    """B takes 1 and 3 s, A 2 and 2 s: a draw by wins; B alone breaks 2.5 s; nobody breaks 4 s."""
    found = noise.ObservedPairs(
        np.array([[2.0, 2.0]]), np.array([[1.0, 3.0]]), np.array([[2.0, 2.0]]), np.array([[1.0, 3.0]])
    )
    assert noise.win_rate_credit(found) == 0.5
    assert noise.timeout_credit(found, 2.5) == 0
    assert noise.timeout_credit(found, 4.0) == 0.5
    assert noise.timeout_credit(found, 1.5) == 0.5
    assert noise.oracle_threshold_s(found) == 2.5


def test_a_threshold_helps_only_in_a_narrow_band_and_hardly_under_additive_noise_on_short_tests():
    thresholds_s = np.geomspace(0.05, 2, 30)
    clean = noise.threshold_sweep(LCB, noise.Noise(multiplicative=0.1), thresholds_s, trials=3000, seed=3)
    noisy = noise.threshold_sweep(LCB, ADDITIVE, thresholds_s, trials=3000, seed=3)
    assert clean.timeout[0] == clean.timeout[-1] == 0.5
    assert clean.timeout.max() > 0.55
    assert noisy.timeout.max() < clean.timeout.max()
    assert noisy.timeout.max() < 0.65 < 0.7 < noisy.win_rate[0]
    assert np.ptp(clean.win_rate) == 0


def test_no_fixed_threshold_beats_the_one_chosen_after_the_fact():
    for regime in noise.REGIMES.values():
        for kind in (noise.Noise(multiplicative=0.1), ADDITIVE):
            chosen = noise.noise_sweep(regime, [kind], trials=2000, seed=7).timeout[0]
            fixed = noise.threshold_sweep(regime, kind, np.geomspace(0.05, 40, 60), trials=2000, seed=7).timeout
            assert chosen >= fixed.max() > 0.5


def test_more_tests_help_the_win_rate_more_than_the_timeout():
    found = noise.tests_sweep(LCB, ADDITIVE, (5, 35, 122), trials=4000, seed=4)
    assert (np.diff(found.win_rate) > 0).all()
    assert found.win_rate[-1] - found.win_rate[0] > 2 * (found.timeout[-1] - found.timeout[0])


def test_additive_noise_parts_the_regimes_and_multiplicative_noise_hardly_does():
    additive = [noise.noise_sweep(regime, [noise.Noise(additive_s=0.3)], trials=4000, seed=6) for regime in (LCB, DMC)]
    assert additive[0].timeout[0] < 0.57 < additive[0].win_rate[0] < additive[1].win_rate[0]
    assert additive[1].timeout[0] > 0.6
    assert additive[1].win_rate[0] > 0.99


def test_the_same_seed_gives_the_same_study():
    again = [noise.noise_sweep(LCB, [ADDITIVE], trials=50, seed=9) for _ in range(2)]
    np.testing.assert_array_equal(again[0], again[1])


def test_the_burden_of_a_fixed_overhead_by_hand():
    assert noise.burdened_share([0.05, 0.1, 0.2, 1.0], perturbation_s=0.053, burden=0.5) == 0.5


def test_the_papers_table_of_fallback_exposure_comes_out():
    """Table 27, percent, to the digits printed there."""
    rates, tests = np.array([2.0, 0.5, 0.1, 0.01, 0.001])[:, None] / 100, np.array([10, 30, 50, 100, 150])
    printed = [
        [18.3, 45.5, 63.6, 86.7, 95.2],
        [4.9, 14.0, 22.2, 39.4, 52.9],
        [1.0, 3.0, 4.9, 9.5, 13.9],
        [0.1, 0.3, 0.5, 1.0, 1.5],
        [0.01, 0.03, 0.05, 0.10, 0.15],
    ]
    found = 100 * noise.fallback_exposure(rates, tests)
    np.testing.assert_array_equal(found[:4].round(1), printed[:4])
    np.testing.assert_array_equal(found[4].round(2), printed[4])


@pytest.mark.parametrize("figure", ["threshold_figure", "tests_figure", "magnitude_figure"])
def test_each_figure_has_four_panels_with_both_metrics(figure):
    drawn = getattr(noise_plots, figure)(trials=20, seed=0)
    assert [len(axes.lines) for axes in drawn.axes] == [3, 3, 3, 3]
