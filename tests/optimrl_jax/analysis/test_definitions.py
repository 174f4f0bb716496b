"""Definitions of other papers, each by a case worked by hand."""

import math

import numpy as np
import pytest

from optimrl_jax.analysis import definitions

REFERENCES = np.array([1.0, 2.0, 4.0, 4.4])
SECONDS = np.array([1.0, 3.0, 9.0, 0.5])
PASSING = np.array([True, True, True, False])


def test_places_and_ratios_are_those_of_their_papers():
    np.testing.assert_allclose(definitions.beyond(SECONDS, PASSING, REFERENCES), [1.0, 1.4 / 3.4, 0.0, 0.0])
    np.testing.assert_allclose(definitions.normalized_time(SECONDS, PASSING, REFERENCES), [1, 3, 9, np.nan])
    np.testing.assert_allclose(definitions.relative_time(SECONDS, PASSING, REFERENCES), [1, 1 / 3, 1 / 9, 0])
    np.testing.assert_allclose(definitions.speedup(SECONDS, PASSING, 3.0), [3, 1, 1, 1])
    share = definitions.expert_share(SECONDS, PASSING, before_s=4.0, expert_s=1.0)
    np.testing.assert_allclose(share, [1, 1 / 3, 1 / 9, 1 / 4])


def test_a_wrong_sample_that_never_ran_is_divided_by_nothing():
    seconds, is_passing = np.array([0.0, 2.0]), np.array([False, True])
    with np.errstate(all="raise"):
        assert definitions.relative_time(seconds, is_passing, REFERENCES).tolist() == [0.0, 0.5]
        assert definitions.speedup(seconds, is_passing, 4.0).tolist() == [1.0, 2.0]
        assert definitions.expert_share(seconds, is_passing, before_s=4.0, expert_s=1.0).tolist() == [0.25, 0.5]


def test_one_reference_alone_is_the_fastest_and_the_slowest():
    assert definitions.beyond(np.array([1.0, 2.0]), np.ones(2, bool), np.array([1.5])).tolist() == [1.0, 0.0]


def test_references_that_are_close_are_one_cluster_and_a_sample_gets_all_that_it_matches():
    """Clusters {4.4, 4}, {2}, {1}: 3 s matches the slowest cluster alone, 1 s all of them, 9 s none."""
    assert [part.tolist() for part in definitions.clusters(REFERENCES)] == [[4.4, 4.0], [2.0], [1.0]]
    found = definitions.differential_performance(SECONDS, PASSING, REFERENCES)
    np.testing.assert_allclose(found, [1.0, 0.5, 0.0, np.nan])
    by_cluster = definitions.differential_performance(SECONDS, PASSING, REFERENCES, by_cluster=True)
    np.testing.assert_allclose(by_cluster, [1.0, 1 / 3, 0.0, np.nan])


def test_levels_are_censored_from_the_first_that_reaches_the_limit():
    """The best reference takes 1, 2, 4 s: limit 8 s. Sample 0 equals it; 1 takes 4.5, 8 s and so ends at level two."""
    reference_s = np.array([[1.0, 2.0], [2.0, 3.0], [4.0, 5.0]])
    seconds = np.array([[1.0, 2.0, 4.0], [4.5, 8.0, 1.0], [1.0, 2.0, 4.0]])
    found = definitions.level_efficiency(seconds, np.array([True, True, False]), reference_s)
    np.testing.assert_allclose(found, [1.0, 3 * (8 - 4.5) / (8 - 1) / 10, 0.0])
    assert np.isnan(definitions.level_efficiency(seconds[:, :2], np.ones(3, bool), reference_s[:2])).all()


def test_the_expected_best_of_k_is_the_mean_over_all_draws():
    """Of 1, 2, 4: pairs have 2, 4, 4."""
    values = np.array([4.0, 1.0, 2.0])
    assert definitions.expected_best(values, 1) == pytest.approx(7 / 3)
    assert definitions.expected_best(values, 2) == pytest.approx(10 / 3)
    assert definitions.expected_best(values, 3) == 4
    assert math.isnan(definitions.expected_best(values, 4))


def test_a_gain_counts_as_far_as_it_is_beyond_doubt():
    """Ten runs at 2 s or just above against ten at 1 s: half, less one percent to stay above."""
    before, after = 2 + np.arange(10) / 1000, 1 + np.arange(10) / 1000
    assert 0.49 <= definitions.significant_gain(before, after) <= 0.5
    assert definitions.significant_gain(after, before) == 0.0
    every = [definitions.significant_gain(before * scale, after) for scale in (0.6, 1.0, 2.0)]
    assert every == sorted(every)


@pytest.mark.parametrize(("growth", "expected"), enumerate(definitions.GROWTHS))
def test_growth_of_seconds_is_recognized_beside_a_constant_cost(growth, expected):
    sizes = np.array([10, 100, 300, 1000, 3000])
    shape = list(definitions.GROWTHS.values())[growth](sizes.astype(float))
    seconds = 0.02 + 0.5 * shape / max(1.0, shape.max())
    found = definitions.growth_class(sizes, seconds)
    assert list(definitions.GROWTHS)[found] == expected


def test_growth_is_unknown_where_sizes_are_alike():
    assert definitions.growth_class(np.array([10.0, 11, 12, 13]), np.ones(4)) is None
    assert definitions.growth_class(np.array([10.0, 100.0]), np.ones(2)) is None
