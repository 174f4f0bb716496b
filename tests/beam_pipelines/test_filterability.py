"""Robust CV and length correlation (App. B.7)."""

import dataclasses
import statistics

import numpy as np
import pytest

from beam_pipelines import matrices
from beam_pipelines.records import Test
from beam_pipelines.stages import filterability
from tests.beam_pipelines import planted


def measured(seconds, *, kinds=None, characters=None, std_s=0.0):
    """A problem with one correct and one incorrect solution; the correct one took these seconds on the tests."""
    kinds = kinds or [2] * len(seconds)
    both = np.column_stack([seconds, np.full(len(seconds), 99.0)])
    problem = planted.executed(["SS"] * len(seconds), kinds=kinds, correct=1, seconds=both)
    lengths = characters or [1] * len(seconds)
    tests = tuple(Test(kind, "x" * n, "", "t") for kind, n in zip(kinds, lengths, strict=True))
    return with_timings(dataclasses.replace(problem, tests=tests), std_s=std_s)


def with_timings(problem, *, std_s=0.0):
    """The problem as the timing stage leaves it, from one execution of each correct solution."""
    first = problem.executed.take(range(len(problem.correct)), axis=1)
    timings = dataclasses.replace(matrices.combine_rounds([first]), std_s=np.full(first.verdict.shape, std_s))
    return dataclasses.replace(problem, timings=timings, executions=None)


def test_robust_cv_is_interquartile_range_over_median():
    # 1..5: quartiles 2 and 4, median 3.
    assert filterability.robust_cv(np.array([5.0, 1, 3, 2, 4])) == pytest.approx(2 / 3)


def test_robust_cv_agrees_with_the_standard_library_on_random_durations():
    draw = np.random.default_rng(3)
    for size in range(2, 40):
        seconds = draw.uniform(0.001, 2, size)
        low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
        assert filterability.robust_cv(seconds) == pytest.approx((high - low) / middle)


def test_robust_cv_does_not_depend_on_unit_or_order():
    seconds = np.random.default_rng(4).uniform(0.001, 2, 17)
    assert filterability.robust_cv(1000 * seconds[::-1]) == pytest.approx(filterability.robust_cv(seconds))


def test_a_suite_without_spread_or_with_one_test_is_not_filterable():
    assert filterability.robust_cv(np.array([2.0])) == 0
    assert filterability.robust_cv(np.array([])) == 0
    assert filterability.robust_cv(np.array([0.0, 0.0])) == 0
    assert (
        filterability.decide_filterability(measured([0.1] * 9), min_robust_cv=0.3).split == filterability.NON_FILTERABLE
    )


def test_only_optimization_tests_and_correct_solutions_decide():
    spread = measured([0.1, 0.2, 0.3, 0.4, 0.5, 0.1, 0.1], kinds=[2] * 5 + [0, 1])
    marked = filterability.decide_filterability(spread, min_robust_cv=0.3)
    assert marked.robust_cv == pytest.approx(0.2 / 0.3)
    assert marked.split == filterability.FILTERABLE


def test_a_timeout_counts_ten_seconds_and_a_failure_nothing():
    problem = with_timings(planted.executed(["TS", "WS", "SS"], kinds=[2, 2, 2], correct=2, seconds=0.5))
    assert filterability.mean_durations(problem, {2}) == pytest.approx([5.25, 0.5, 0.5])


def test_length_correlation_is_one_where_duration_grows_with_length_and_zero_where_it_is_undefined():
    assert (
        filterability.decide_filterability(measured([1, 2, 3], characters=[10, 20, 30]), min_robust_cv=0.3).length_r
        == 1
    )
    assert filterability.length_r(measured([1, 2, 3]), {2}) == 0
    x, y = np.random.default_rng(5).normal(size=(2, 30))
    by_hand = ((x - x.mean()) * (y - y.mean())).mean() / (x.std() * y.std())
    assert filterability.pearson(x, y) == pytest.approx(by_hand)


def test_the_side_is_decided_on_the_durations_that_are_stored():
    problem = measured([0.1, 0.2, 0.3, 0.4, 0.5])
    marked = filterability.decide_filterability(problem, min_robust_cv=0.3)
    stored = filterability.usable_mean(problem.timings.duration_s, problem.timings.status)
    assert marked.robust_cv == filterability.robust_cv(stored)
    assert dict(marked.trace[-1].notes)["undecided"] == 0


def test_a_spread_that_the_instruments_noise_explains_is_named_and_not_trained_on():
    # Quartiles 2.25 and 3.15 ms, median 2.7 ms: a robust CV of 1/3, of a spread as wide as the deviation.
    flat = measured(np.linspace(0.0018, 0.0036, 9), std_s=0.0007)
    marked = filterability.decide_filterability(flat, min_robust_cv=0.3)
    notes = dict(marked.trace[-1].notes)
    assert marked.robust_cv >= 0.3 > notes["robust_cv_low"]
    assert (marked.split, notes["undecided"]) == (filterability.NON_FILTERABLE, 1)
    wide = filterability.decide_filterability(measured([0.1, 0.2, 0.3, 0.4], std_s=0.0007), min_robust_cv=0.3)
    assert (wide.split, dict(wide.trace[-1].notes)["undecided"]) == (filterability.FILTERABLE, 0)
