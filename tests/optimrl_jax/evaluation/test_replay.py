"""Replayed outcomes and their scores, by hand on the twin problem."""

import numpy as np
import pytest

from optimrl_jax import environment
from optimrl_jax.arrays import AffineMap, Execution, Outcome, Status
from optimrl_jax.environment import padding
from optimrl_jax.evaluation import replay, scores
from tests.optimrl_jax.records import ragged, record


def replayed(rows, *, entry=None, board_s=None, gamma=AffineMap()):  # noqa: B008
    """`rows` of (seconds on every test, status on every test) as samples of one problem: outcomes [1, rows]."""
    entry = entry or record()
    k = len(entry.test_input)
    status = np.stack([np.full(k, state, np.int8) for _, state in rows])
    duration_s = np.stack([np.full(k, seconds, np.float32) for seconds, _ in rows])
    groups = replay.group_problems([entry], [entry.duration_s if board_s is None else board_s])
    judged = replay.judge_groups([replay.ranking_environment(gamma)], groups, [Execution(status, duration_s)])
    return Outcome(*(part[0] for part in judged))


def test_samples_are_judged_against_the_leaderboard_given():
    found = replayed([(0.005, 0), (0.025, 0), (0.05, 0), (0.005, Status.FAILURE), (0.005, Status.FAULT)])
    assert found.q[0, :3].tolist() == pytest.approx([0.0, 0.5, 1.0])
    assert found.c_strict[0].tolist() == [1, 1, 1, 0, 0]
    assert found.is_valid[0].tolist() == [True, True, True, True, False]


def test_a_slower_leaderboard_moves_the_places():
    entry = record()
    assert float(replayed([(0.035, 0)]).q[0, 0]) == pytest.approx(0.75)
    assert float(replayed([(0.035, 0)], board_s=entry.duration_s * 2).q[0, 0]) == pytest.approx(0.25)
    assert float(replayed([(0.035, 0)], gamma=AffineMap(2.0, 0.0)).q[0, 0]) == pytest.approx(0.25)


def test_ragged_problems_and_any_environments_are_judged_as_one_by_one():
    problems = [*ragged(5, problems=6), record(test_kind=(0, *(2,) * 12))]
    draw = np.random.default_rng(0)
    executions = [
        Execution(
            draw.choice([0, 0, 0, 1, 2], (3, k)).astype(np.int8), draw.uniform(0.001, 0.1, (3, k)).astype(np.float32)
        )
        for k in (len(problem.test_kind) for problem in problems)
    ]
    envs = [environment.build(f, limit=30.0) for f in ("qp_ranked", "relative_timeout", "qp_ranked", "qar_ranked")]
    groups = replay.group_problems(problems, [problem.duration_s for problem in problems])
    assert len(groups) > 1
    found = replay.judge_groups(envs, groups, executions)
    for index, problem in enumerate(problems):
        k, h = padding.shape_of([problem])
        arrays = padding.pad_tests(problem, k), padding.pad_references(problem, k, h)
        for place, env in enumerate(envs):
            expected = environment.judge(env, *arrays, padding.pad_execution(executions[index], k))
            for part, of_expected in zip(found, expected, strict=True):
                np.testing.assert_allclose(part[place, index], of_expected, atol=1e-6)


def test_problems_without_references_are_judged_by_correctness_alone():
    entry = record(duration_s=np.zeros((5, 0), np.float32), status=np.zeros((5, 0), np.int8))
    found = replayed([(0.5, 0), (0.5, Status.FAILURE)], entry=entry)
    assert (found.c_strict[0].tolist(), found.q[0].tolist()) == ([1, 0], [0, 0])


def test_a_success_without_seconds_is_a_fault_and_not_first():
    found = replayed([(0.0, 0), (float("nan"), 0), (0.005, 0)])
    assert found.is_valid[0].tolist() == [False, False, True]


def test_scores_count_what_is_correct_and_fast_enough():
    found = replayed([(0.005, 0), (0.025, 0), (0.05, 0), (0.005, Status.FAILURE), (0.005, Status.FAULT)])
    expected = {100: 3 / 4, 50: 2 / 4, 30: 1 / 4, 10: 1 / 4}
    assert {tau: float(scores.pass_at_tau(found, k=1, tau=tau)[0]) for tau in expected} == pytest.approx(expected)
    assert float(scores.pass_at_tau(found, k=4, tau=30)[0]) == 1.0
    assert np.isnan(scores.pass_at_tau(found, k=5, tau=30)[0])


def test_equal_policies_gain_nothing_and_intervals_hold_their_mean():
    found = replayed([(0.005, 0), (0.025, 0), (0.05, Status.FAILURE)])
    options = {"ks": (1,), "taus": (100, 30), "resamples": 200, "seed": 0}
    table = scores.pass_scores(found, **options)
    assert table["pass@1"]["p100"] == pytest.approx({"mean": 2 / 3, "low": 2 / 3, "high": 2 / 3})
    assert scores.paired_gains(found, found, **options)["pass@1"]["p30"] == {"mean": 0.0, "low": 0.0, "high": 0.0}


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
    drift = replay.fit_drift(problems, fresh)
    assert drift.map.slope == pytest.approx(2.0, rel=1e-3)
    assert drift.map.offset_s == pytest.approx(0.0, abs=1e-5)
