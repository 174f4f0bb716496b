"""What a dataset looks like, from hand-made examples."""

import numpy as np
import pytest

from beam_pipelines.report import dataset_statistics, standings
from optimrl_jax.arrays import Status
from tests.beam_pipelines import planted


def test_a_tests_duration_is_the_mean_over_references_with_a_run():
    made = planted.example([[1, 3], [10, 2], [4, 4]], kinds=[2, 2, 2], status=[[0, 0], [1, 2], [4, 2]])
    np.testing.assert_array_equal(dataset_statistics.mean_seconds(made), [2, 10, np.nan])


def test_filterability_counts_problems_by_category():
    ramp = planted.example([[1], [2], [3], [4], [5]], kinds=[2] * 5, lengths=[10, 20, 30, 40, 50])
    flat = planted.example([[1], [1], [1], [1], [1]], kinds=[2] * 5)
    single = planted.example([[1], [2]], kinds=[0, 2], origins=["public", ""])
    table = dataset_statistics.filterability_table([ramp, flat, single])
    assert table["optimization"] == {"problems": 2, "duration": 1, "length": 1, "both": 1, "neither": 1}
    assert table["public"]["problems"] == 0, "one test has no spread"


def test_a_base_takes_the_spread_away_that_short_tests_have():
    short = planted.example([[0.001], [0.002], [0.003], [0.004], [0.005]], kinds=[2] * 5)
    assert dataset_statistics.filterability_table([short])["optimization"]["duration"] == 1
    assert dataset_statistics.filterability_table([short], base_s=0.065)["optimization"]["duration"] == 0


def test_durations_pool_the_tests_of_all_problems():
    one = planted.example([[0.1, 0.3], [2, 2]], kinds=[0, 2])
    other = planted.example([[0.6, 0.6], [4, 6]], kinds=[0, 2])
    table = dataset_statistics.duration_table([one, other])
    assert set(table) == {"original", "optimization"}
    assert table["original"]["mean_s"] == pytest.approx(0.4)
    assert (table["optimization"]["tests"], table["optimization"]["slow_share"]) == (2, 1.0)
    assert table["optimization"]["p90_s"] == pytest.approx(2 + 0.9 * 3)


def test_tails_tell_problems_with_many_slow_tests_from_those_with_one_very_slow_test():
    many = planted.example([[1.5]] * 2 + [[0.1]] * 8, kinds=[2] * 10)
    one = planted.example([[4.0]] + [[0.1]] * 19, kinds=[2] * 20)
    tails = dataset_statistics.tail_table([many, one])["optimization"]
    assert (tails["slow_problems_share"], tails["very_slow_problems_share"]) == (0.5, 0.5)


def test_an_empty_dataset_has_empty_tables():
    assert dataset_statistics.duration_table([]) == {}
    assert dataset_statistics.filterability_table([])["optimization"]["problems"] == 0


def slow_positions(made):
    """Exact QP by hand: rank every reference on every test against the others, order by the mean, count the faster."""
    status, seconds = made["status"], made["duration_s"]
    usable = np.isin(status, (Status.SUCCESS, Status.TIMEOUT))
    h = seconds.shape[1]
    result = []
    for candidate in range(h):
        # The candidate joins the pool as one more participant beside its own recorded self.
        pool = np.column_stack([seconds, seconds[:, candidate]])
        mask = np.column_stack([usable, usable[:, candidate]])
        means = []
        for p in range(h + 1):
            places = []
            for k in np.flatnonzero(made["test_kind"] == 2):
                if mask[k, p] and mask[k].sum() > 1:
                    faster = sum(mask[k, o] and pool[k, o] < pool[k, p] for o in range(h + 1))
                    places.append(faster / (mask[k].sum() - 1))
            means.append(np.mean(places) if places else np.nan)
        result.append(sum(means[p] < means[h] - 1e-9 for p in range(h)) / h)
    return result


def test_references_stand_where_exact_ranking_by_hand_puts_them():
    draw = np.random.default_rng(0)
    for _ in range(5):
        k, h = int(draw.integers(2, 7)), int(draw.integers(2, 9))
        seconds = draw.integers(1, 5, (k, h)) / 100
        made = planted.example(seconds, kinds=[2] * (k - 1) + [0])
        np.testing.assert_allclose(standings.reference_percentiles(made), slow_positions(made), atol=1e-6)


def test_the_fastest_reference_stands_at_zero_and_one_without_runs_nowhere():
    made = planted.example([[3, 1, 2, 0]] * 2, kinds=[2, 2], status=[[0, 0, 0, 2]] * 2)
    positions = standings.reference_percentiles(made)
    assert positions[1] == 0
    assert positions[1] < positions[2] < positions[0]
    assert np.isnan(positions[3])
