"""Fixed rollouts under other states of the service."""

import dataclasses

import jax
import numpy as np
import pytest

from optimrl_jax import environment
from optimrl_jax.arrays import Execution, Status, Tests
from optimrl_jax.environment.service import validate_state

R, K = 40, 50
KEY = jax.random.key(3)
TESTS = Tests(np.where(np.arange(K) < 25, 0, 2).astype(np.int32), np.ones(K, np.int32), np.ones(K, bool))
STATUS = np.random.default_rng(0).choice([0, 0, 0, 1, 2, 4], size=(R, K)).astype(np.int32)
SECONDS = np.where(STATUS == 1, 10.0, np.where(STATUS == 4, 0.0, 0.5)).astype(np.float32)
RECORDED = Execution(STATUS, SECONDS)
MEASURED = np.isin(STATUS, (Status.SUCCESS, Status.FAILURE))
under_state = jax.jit(environment.under_state)


def under(state, key=KEY):
    return jax.tree.map(np.asarray, under_state(state, TESTS, RECORDED, key=key))


def test_a_healthy_service_returns_what_was_recorded():
    found = under(environment.SERVICE_STATES["healthy"])
    np.testing.assert_array_equal(found.status, STATUS)
    np.testing.assert_allclose(found.duration_s, SECONDS, rtol=1e-6)


def test_a_slow_service_stretches_what_it_measured_and_nothing_else():
    found = under(environment.SERVICE_STATES["slow_50"])
    np.testing.assert_allclose(found.duration_s[MEASURED], 0.75, rtol=1e-6)
    np.testing.assert_array_equal(found.duration_s[~MEASURED], SECONDS[~MEASURED])


def test_added_milliseconds_lie_within_their_bounds():
    added_s = under(environment.SERVICE_STATES["added_5_50_ms"]).duration_s[MEASURED] - 0.5
    assert 0.005 - 1e-6 <= added_s.min() < 0.01 < 0.045 < added_s.max() <= 0.05 + 1e-6


def test_noise_on_short_tests_leaves_long_ones_alone():
    state = environment.ServiceState(short_std_s=0.02)
    short = under_state(state, TESTS, RECORDED._replace(duration_s=SECONDS * 0.002), key=KEY)
    assert np.asarray(short.duration_s)[MEASURED].mean() > 0.01
    np.testing.assert_allclose(under(state).duration_s[MEASURED], 0.5, atol=0.001)


def test_a_success_that_reaches_the_cap_is_a_timeout():
    found = under(environment.ServiceState(slowdown=25.0))
    assert (found.status[STATUS == Status.SUCCESS] == Status.TIMEOUT).all()
    assert (found.duration_s[STATUS == Status.SUCCESS] == 10).all()
    assert (found.status[STATUS == Status.FAILURE] == Status.FAILURE).all()


LOST = environment.ServiceState(fault_share=1.0)


@pytest.mark.parametrize(
    ("fallback", "correctness", "optimization"),
    [
        ("discard", Status.FAULT, Status.FAULT),
        ("conservative", Status.SUCCESS, Status.TIMEOUT),
        ("timeout", Status.TIMEOUT, Status.TIMEOUT),
        ("quarantine", Status.FAULT, Status.FAULT),
    ],
)
def test_each_fallback_settles_lost_successes_in_its_way(fallback, correctness, optimization):
    found = under(dataclasses.replace(LOST, fallback=fallback))
    succeeded = STATUS == Status.SUCCESS
    assert set(found.status[succeeded & (TESTS.kind == 0)]) == {correctness}
    assert set(found.status[succeeded & (TESTS.kind == 2)]) == {optimization}
    assert (found.status[STATUS == Status.NOT_RUN] == Status.NOT_RUN).all()


def test_a_quarantine_waits_for_its_threshold():
    few = environment.ServiceState(fault_share=0.02, fallback="quarantine", quarantine_share=0.5)
    assert not (under(few).status == Status.FAULT).any()


def test_faults_come_as_often_as_told():
    found = under(environment.ServiceState(fault_share=0.2, fallback="discard"))
    lost = (found.status == Status.FAULT)[STATUS != Status.NOT_RUN].mean()
    assert lost == pytest.approx(0.2, abs=0.04)


def test_one_key_gives_one_result_and_another_key_another():
    state = environment.SERVICE_STATES["burst"]
    np.testing.assert_array_equal(under(state).duration_s, under(state).duration_s)
    assert (under(state).duration_s != under(state, jax.random.key(4)).duration_s).any()


def test_a_burst_covers_whole_windows_of_steps():
    hit = np.array([bool(environment.is_burst(step, key=KEY, share=0.5, steps=10)) for step in range(200)])
    windows = hit.reshape(20, 10)
    assert (windows == windows[:, :1]).all()
    assert 0 < windows[:, 0].sum() < 20


@pytest.mark.parametrize("name", environment.SERVICE_STATES)
def test_every_named_state_is_one_a_service_can_be_in(name):
    assert validate_state(environment.SERVICE_STATES[name]) is environment.SERVICE_STATES[name]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"fallback": "pray"}, "service.fallback = 'pray': expected one of discard"),
        ({"slowdown": 0.0}, "service.slowdown = 0.0"),
        ({"scale_std": -0.1}, "service.scale_std = -0.1"),
        ({"fault_share": 1.2}, "service.fault_share = 1.2"),
        ({"added_low_s": 0.2}, "service.added_low_s = 0.2: expected at most 0.0"),
    ],
)
def test_an_impossible_state_is_refused(fields, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        validate_state(environment.ServiceState(**fields))
