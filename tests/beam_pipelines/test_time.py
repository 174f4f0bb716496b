"""Reference durations from repeated executions."""

import statistics

import pytest

from beam_pipelines.records import Execution, Timing
from beam_pipelines.stages.time import combined
from optimrl_jax.arrays import Status


def success(seconds, *, std_s=0.0):
    return Execution("success", seconds, std_s)


def test_the_duration_is_the_median_and_its_deviation_that_of_the_runs():
    timing = combined([success(0.3), success(0.1), success(0.2)])
    assert timing == Timing(0.2, pytest.approx(statistics.stdev([0.1, 0.2, 0.3])), 3, int(Status.SUCCESS))


def test_a_single_run_keeps_the_instruments_own_deviation():
    assert combined([success(0.3, std_s=0.01)]) == Timing(0.3, 0.01, 1, int(Status.SUCCESS))


def test_a_timeout_is_stored_as_ten_seconds_and_the_majority_decides():
    timeout = Execution("time_limit", 2.0)
    assert combined([timeout]) == Timing(10.0, 0.0, 1, int(Status.TIMEOUT))
    assert combined([timeout, timeout, success(1.9)]).status == Status.TIMEOUT
    assert combined([timeout, success(1.8), success(1.9)]) == Timing(
        pytest.approx(1.85), pytest.approx(0.0707, abs=1e-3), 2, int(Status.SUCCESS)
    )


def test_a_pair_that_never_ran_has_no_duration():
    assert combined([None]) == Timing(0.0, 0.0, 0, int(Status.NOT_RUN))


def test_a_failure_stays_a_failure():
    assert combined([Execution("wrong_output", 0.1)]).status == Status.FAILURE
