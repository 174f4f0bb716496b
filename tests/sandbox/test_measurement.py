"""The estimate of a duration from repeated runs and the probes around them."""

import math
import random

import pytest

from sandbox import fallback, measurement
from sandbox.measurement import Timing
from sandbox.protocol import RunRequest, TestResult, Verdict


def result(test: int = 0) -> TestResult:
    return TestResult(test, Verdict.SUCCESS, 9.0)


def test_the_smallest_undisturbed_run_counts():
    # The run of 0.8 s is smallest, but its probes took 1.5 times the best: a clock that jumped, not a fast program.
    timings = {0: [Timing(1.0, 1.0, 1.0), Timing(0.8, 0.8, 1.5), Timing(1.1, 1.1, 1.05)]}
    (estimate,) = measurement.estimated([result()], timings)
    assert (estimate.wall_s, estimate.cpu_s, estimate.runs) == (1.0, 1.0, 3)


def test_all_runs_count_where_none_of_a_test_was_undisturbed():
    timings = {0: [Timing(1.0, 1.0, 2.0), Timing(0.9, 0.9, 2.0)], 1: [Timing(1.0, 1.0, 1.0)] * 2}
    first, _ = measurement.estimated([result(0), result(1)], timings)
    assert first.wall_s == 0.9


def test_the_deviation_is_drawn_towards_that_of_the_whole_request():
    # Relative variances 0 and 0.02 (runs 1.0 and 1.2), pooled 0.01; each test has one degree of freedom of its own.
    timings = {0: [Timing(2.0, 2.0, 1.0)] * 2, 1: [Timing(1.0, 1.0, 1.0), Timing(1.2, 1.2, 1.0)]}
    steady, unsteady = measurement.estimated([result(0), result(1)], timings)
    prior = measurement.PRIOR_RUNS
    assert steady.wall_std_s == pytest.approx(2.0 * math.sqrt(prior * 0.01 / (prior + 1)))
    assert unsteady.wall_std_s == pytest.approx(math.sqrt((prior * 0.01 + 0.02) / (prior + 1)))


def test_the_estimate_scales_with_durations_and_not_with_the_unit_of_probes():
    chance = random.Random(3)
    timings = {k: [Timing(*(chance.uniform(1, 2) for _ in range(3))) for _ in range(4)] for k in range(6)}
    scaled = {k: [Timing(10 * t.wall_s, 10 * t.cpu_s, 7 * t.probe_s) for t in runs] for k, runs in timings.items()}
    results = [result(k) for k in timings]
    for one, ten in zip(measurement.estimated(results, timings), measurement.estimated(results, scaled), strict=True):
        assert ten.wall_s == pytest.approx(10 * one.wall_s)
        assert ten.wall_std_s == pytest.approx(10 * one.wall_std_s)


def test_nothing_is_recovered_where_nobody_said_which_seconds_matter():
    fault = TestResult(0, Verdict.SANDBOX_FAULT, 0.0)
    request = RunRequest("print(6)", "0" * 64)
    for policy in fallback.POLICIES.values():
        assert fallback.settle(request, fault, result(), policy=policy) == fault


@pytest.mark.parametrize("policy", fallback.POLICIES.values())
def test_a_local_fault_settles_nothing(policy):
    fault, local = TestResult(0, Verdict.SANDBOX_FAULT, 0.0), TestResult(0, Verdict.SANDBOX_FAULT, 1.0)
    request = RunRequest("print(6)", "0" * 64, optimization_tests=(0,))
    assert fallback.settle(request, fault, local, policy=policy) == fault
