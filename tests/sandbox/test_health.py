"""Counts say how a service fares: the paper's rates, and bursts that an average hides."""

import random
import statistics

import pytest

from sandbox.service import health
from sandbox.service.health import Windows


def counted(is_unsettled, *, size: int = 100) -> Windows:
    windows = Windows(size)
    for one in is_unsettled:
        windows = windows.after(one)
    return windows


def test_rates_split_requests_by_who_settled_them():
    assert health.rates({"requests": 100, "unsettled": 10, "recovered": 7}) == pytest.approx((0.9, 0.07, 0.03))
    assert health.rates({}) == (1, 0, 0)
    assert health.any_failure_share(0.01, 100) == pytest.approx(0.634, abs=1e-3)


def test_a_burst_shows_in_its_window_and_not_in_the_average():
    faults = [False] * 300
    faults[100:105] = [True] * 5
    assert counted(faults)[3:5] == (3, 1)
    assert statistics.fmean(faults) < health.BURST_SHARE


def test_windows_counted_one_by_one_are_those_of_the_whole_series():
    chance = random.Random(0)
    series = [chance.random() < 0.02 for _ in range(10_030)]
    whole = [sum(series[start : start + 100]) > 2 for start in range(0, 10_000, 100)]
    assert 0 < sum(whole) < len(whole)
    assert counted(series) == Windows(100, 30, sum(series[10_000:]), len(whole), sum(whole), whole[-1])


def test_a_service_is_degraded_from_the_third_fault_until_a_window_without_a_burst():
    windows, seen = Windows(), []
    for one in [True] * 3 + [False] * 297:
        windows = windows.after(one)
        seen.append(windows.is_degraded)
    assert seen == [False] * 2 + [True] * 197 + [False] * 101
