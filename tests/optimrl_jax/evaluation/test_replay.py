"""Replayed outcomes and their scores, by hand on the twin problem."""

import numpy as np
import pytest

from optimrl_jax import environment
from optimrl_jax.arrays import Execution, Status
from optimrl_jax.evaluation import replay, scores
from tests.optimrl_jax.records import ragged, record

ENV = environment.build("qp_ranked")


def replayed(rows, *, entry=None):
    """`rows` of (seconds on every test, status on every test) as samples of one problem."""
    entry = entry or record()
    k = len(entry.test_input)
    status = np.stack([np.full(k, state, np.int8) for _, state in rows])
    duration_s = np.stack([np.full(k, seconds, np.float32) for seconds, _ in rows])
    return replay.replay([entry], {0: Execution(status, duration_s)}, env=ENV, reference_s=[entry.duration_s])


def test_samples_are_judged_against_the_leaderboard_given():
    found = replayed([(0.005, 0), (0.025, 0), (0.05, 0), (0.005, Status.FAILURE), (0.005, Status.FAULT)])
    assert found.q[0, :3].tolist() == pytest.approx([0.0, 0.5, 1.0])
    assert found.c_strict[0].tolist() == [1, 1, 1, 0, 0]
    assert found.is_valid[0].tolist() == [True, True, True, True, False]


def test_a_slower_leaderboard_moves_the_places():
    entry = record()
    samples = {0: Execution(np.zeros((1, 5), np.int8), np.full((1, 5), 0.035, np.float32))}
    stored = replay.replay([entry], samples, env=ENV, reference_s=[entry.duration_s])
    slower = replay.replay([entry], samples, env=ENV, reference_s=[entry.duration_s * 2])
    assert (float(stored.q[0, 0]), float(slower.q[0, 0])) == pytest.approx((0.75, 0.25))


def test_scores_count_what_is_correct_and_fast_enough():
    found = replayed([(0.005, 0), (0.025, 0), (0.05, 0), (0.005, Status.FAILURE), (0.005, Status.FAULT)])
    expected = {100: 3 / 4, 50: 2 / 4, 30: 1 / 4, 10: 1 / 4}
    assert {tau: float(scores.per_problem(found, k=1, tau=tau)[0]) for tau in expected} == pytest.approx(expected)
    assert float(scores.per_problem(found, k=4, tau=30)[0]) == 1.0
    assert np.isnan(scores.per_problem(found, k=5, tau=30)[0])


def test_equal_policies_gain_nothing_and_intervals_hold_their_mean():
    found = replayed([(0.005, 0), (0.025, 0), (0.05, Status.FAILURE)])
    options = {"ks": (1,), "taus": (100, 30), "resamples": 200, "seed": 0}
    table = scores.pass_scores(found, **options)
    assert table["pass@1"]["p100"] == pytest.approx({"mean": 2 / 3, "low": 2 / 3, "high": 2 / 3})
    assert scores.gains(found, found, **options)["pass@1"]["p30"] == {"mean": 0.0, "low": 0.0, "high": 0.0}


def test_fresh_durations_keep_only_what_was_measured_again():
    entry = record(status=np.array([[0, 0, 2, 0]] * 5, np.int8))
    status = np.zeros((4, 5), np.int8)
    status[3] = Status.FAILURE
    fresh = replay.fresh_durations(entry, Execution(status, np.full((4, 5), 0.5, np.float32)))
    assert np.isnan(fresh).tolist() == [[False, False, True, True]] * 5


def test_drift_reads_optimization_tests_alone():
    problems = ragged(1)
    fresh = [np.where(p.test_kind[:, None] == 2, 2 * p.duration_s, 50 * p.duration_s) for p in problems]
    fresh = [np.where(p.duration_s >= 10, 10.0, seconds) for p, seconds in zip(problems, fresh, strict=True)]
    drift = replay.drift_of(problems, fresh)
    assert drift.map.slope == pytest.approx(2.0, rel=1e-3)
    assert drift.map.offset_s == pytest.approx(0.0, abs=1e-5)
