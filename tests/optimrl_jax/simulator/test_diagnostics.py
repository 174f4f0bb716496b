"""Every diagnostic by hand, against a slow version, and on curves whose answer is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from optimrl_jax.simulator import diagnostics

X = np.linspace(0, 1, 50)
HAND = np.array([[0.0, 0.0, 1.0, 1.0]])


def test_hand_worked_curve():
    """0, 0, 1, 1 over four steps, window 2: the smoothed curve is 0, 1/2, 1."""
    x = np.array([0, 1 / 3, 2 / 3, 1])
    np.testing.assert_allclose(diagnostics.smoothed(HAND, window=2), [[0, 0.5, 1]])
    assert diagnostics.auc(HAND) == 0.5
    assert diagnostics.variance(HAND, window=2) == pytest.approx((0 + 0.25 + 0) / 3)
    assert diagnostics.diagonal_deviation(HAND, x) == pytest.approx((0 + 1 / 3 + 1 / 3 + 0) / 4)
    assert diagnostics.quality_correlation(HAND) == pytest.approx(2 / np.sqrt(5))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 40), st.data())
def test_smoothing_variance_and_correlation_agree_with_slow_versions(seed, n, data):
    window = data.draw(st.integers(1, n))
    curve = np.random.default_rng(seed).integers(0, 6, n) / 5
    trend = [sum(curve[i : i + window]) / window for i in range(n - window + 1)]
    wobble = [(curve[i + window - 1] - trend[i]) ** 2 for i in range(n - window + 1)]
    np.testing.assert_allclose(diagnostics.smoothed(curve[None], window=window)[0], trend, atol=1e-12)
    assert diagnostics.variance(curve[None], window=window)[0] == pytest.approx(np.mean(wobble), abs=1e-12)
    rho = diagnostics.quality_correlation(curve[None])[0]
    if np.ptp(curve) == 0:
        assert np.isnan(rho)
    else:
        assert rho == pytest.approx(stats.spearmanr(np.arange(n), curve).statistic)


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (2.0, -0.5), (5.0, -3.5), (-3.0, 2.0), (0.2, 0.1), (20.0, -9.0)])
def test_a_clipped_line_is_found_again(a, b):
    curve = np.clip(a * X + b, 0, 1)[None]
    slope, offset = diagnostics.clipped_line(curve, X)
    assert slope[0] == pytest.approx(a, rel=1e-3)
    assert offset[0] == pytest.approx(b, rel=1e-3, abs=1e-3)
    assert diagnostics.steepness(curve, X)[0] == pytest.approx(a / (1 + abs(a)), abs=1e-3)


def test_noisy_curves_are_fitted_as_well_as_by_a_global_search():
    draw = np.random.default_rng(0)
    lines = draw.uniform(-1, 6, (8, 1)) * (X - draw.uniform(0.2, 0.8, (8, 1))) + 0.5
    curves = np.clip(np.clip(lines, 0, 1) + draw.normal(0, 0.08, (8, 50)), 0, 1)
    slope, offset = diagnostics.clipped_line(curves, X)
    for curve, a, b in zip(curves, slope, offset, strict=True):

        def loss(line, curve=curve):
            return ((np.clip(line[0] * X + line[1], 0, 1) - curve) ** 2).sum()

        grid = optimize.brute(loss, ((-4, 40), (-12, 3)), Ns=40)
        assert loss((a, b)) <= loss(grid) * 1.001 + 1e-9


@pytest.mark.parametrize("level", [0.0, 0.3, 1.0])
def test_a_flat_curve_has_no_slope_no_wobble_and_no_order(level):
    found = diagnostics.diagnose(np.full((1, 50), level), X, window=5)
    assert found["steepness"][0] == pytest.approx(0, abs=1e-9)
    assert found["variance"][0] == pytest.approx(0, abs=1e-20)
    assert found["auc_raw"][0] == pytest.approx(level)
    assert np.isnan(found["quality_correlation_raw"][0])


def test_the_diagonal_is_the_best_curve_and_its_mirror_the_worst_ordered():
    found = diagnostics.diagnose(np.stack([X, 1 - X]), X, window=5)
    assert found["diagonal_deviation"][0] == 0
    assert found["quality_correlation_raw"] == pytest.approx([1, -1])
    assert found["steepness"] == pytest.approx([0.5, -0.5])
    assert set(found) == set(diagnostics.DIAGNOSTICS)


def test_degenerate_environments_are_named_and_ranked_last():
    curves = np.stack([np.full(50, 0.01), np.full(50, 0.99), 1 - X, X, np.clip(3 * X - 2, 0, 1)])
    found = diagnostics.diagnose(curves, X, window=5)
    why = diagnostics.degeneracy(found, least_auc=0.05, most_auc=0.95, least_correlation=0.1)
    assert why.tolist() == ["sparse", "saturated", "unordered", "", ""]
    assert diagnostics.rank_configurations(found, why).tolist()[3:] == [1, 2]
    assert sorted(diagnostics.rank_configurations(found, why).tolist()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("window", [0, 51])
def test_a_window_longer_than_the_run_is_refused(window):
    with pytest.raises(ValueError, match="window"):
        diagnostics.smoothed(np.zeros((1, 50)), window=window)
