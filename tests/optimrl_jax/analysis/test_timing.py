"""Statistics of repeated passes are those worked out by hand."""

import numpy as np
import pytest

from optimrl_jax.analysis import speed_sections
from optimrl_jax.analysis.study import open_studies
from optimrl_jax.analysis.timing import corrections, reruns
from optimrl_jax.evaluation import records
from tests.optimrl_jax.analysis import planted

NAN = np.nan


def test_coverage_counts_cells_and_names_the_worst_problem():
    seconds = [np.array([[1.0, NAN], [1.0, 1.0]]), np.array([[NAN, NAN, 1.0, 1.0]])]
    ran = [np.ones((2, 2), bool), np.array([[False, True, True, True]])]
    found = reruns.coverage(seconds, ran)
    assert found == pytest.approx((100 * 5 / 7, 100 * 5 / 8, 50.0, 8))


def test_the_scatter_of_a_cell_is_its_deviation_over_passes_and_missing_cells_take_no_part():
    noise = reruns.short_run_noise(np.array([[1.0, 2.0, NAN], [3.0, 2.0, 5.0]]))
    assert noise.cv == pytest.approx([np.sqrt(2) / 2, 0.0])
    assert noise.std_s == pytest.approx([np.sqrt(2), 0.0])
    spread = reruns.spread_of(np.array([1.0, 3.0, NAN]))
    assert (spread.mean, spread.median, spread.n) == (2.0, 2.0, 2)


def test_variance_splits_into_cells_and_repetitions():
    found = reruns.variance_decomposition(np.array([[1.0, 5.0], [3.0, 7.0]]))
    assert found == pytest.approx((4.0, 1.0, 5.0))


def test_mean_percentiles_count_faster_references_and_leave_a_reference_out_of_its_own_board():
    board = np.array([[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, NAN, NAN]])
    assert reruns.mean_percentile(np.array([[2.5, 1.5], [NAN, NAN]]), board) == pytest.approx([50.0, NAN], nan_ok=True)
    own = reruns.mean_percentile(board.T, board, leaves_out=np.arange(4))
    assert own == pytest.approx([0.0, (1 / 3 + 1) / 2 * 100, 200 / 3, 100.0])


def test_a_pass_that_finds_light_tests_heavy_flips_the_order():
    stored = np.array([[1.0], [2.0], [3.0]])
    order = reruns.workload_order(stored, [2 * stored, 4 - stored])
    assert order.slopes == pytest.approx([2.0, -1.0])
    assert order.r_squared == pytest.approx([1.0, 1.0])
    assert order.is_flipped
    assert not reruns.workload_order(stored, [stored, 3 * stored]).is_flipped
    assert reruns.workload_order(stored[:1], [stored[:1]]) is None


def test_drift_is_the_median_ratio_of_cells_that_both_have():
    assert reruns.drift_ratio(np.array([1.0, 2.0, 4.0, NAN]), np.array([1.0, 3.0, 8.0, 9.0])) == 1.5


def test_an_affine_clock_is_found_and_predicts_unseen_problems_where_a_factor_does_not():
    x = np.linspace(0.01, 1, 60)
    found = corrections.fit_corrections(x, 0.6 * x + 0.05, np.arange(60) % 3)
    assert found["affine"].coefficients == pytest.approx([0.6, 0.05])
    assert found["affine"].unseen_r_squared == pytest.approx(1.0)
    assert found["affine"].unseen_rmse_s == pytest.approx(0.0, abs=1e-9)
    assert found["multiplicative"].unseen_r_squared < 0.99
    assert corrections.fit_corrections(x[:3], x[:3], np.zeros(3)) == {}


def test_seconds_without_any_relation_fit_no_family_on_unseen_problems():
    draw = np.random.default_rng(0)
    x, y = draw.uniform(0.1, 1, 200), draw.uniform(0.1, 1, 200)
    found = corrections.fit_corrections(x, y, np.arange(200) % 4)
    assert max(one.unseen_r_squared for one in found.values()) < 0.05


def test_seconds_are_compared_within_a_pass_alone(tmp_path):
    """In the slow pass, the fast policy takes 2.5 units and the offset: as long as base in the other pass."""
    for name, slowdown in (("service", 1.0), ("local", 2.0)):
        (tmp_path / name).mkdir()
        records.write_evaluation(tmp_path / name, planted.evaluation(slowdown=slowdown))
    (study,) = open_studies([tmp_path / "service", tmp_path / "local"])
    assert [(policy.label, rival.label) for policy, rival in study.rivalries] == [
        ("service:fast", "service:base"),
        ("local:fast", "local:base"),
    ]
    rates = speed_sections.win_rates(study).tables[0].rows
    assert {(row["against"], row["percent"]) for row in rates} == {("service:base", 100.0), ("local:base", 100.0)}
