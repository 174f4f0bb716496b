"""Alpha/beta sweeps: the paper's grids and published matrix, and rescoring against judging anew."""

import numpy as np
import pytest

from optimrl_jax import environment
from optimrl_jax.arrays import AffineMap, Execution
from optimrl_jax.evaluation import replay, sensitivity
from tests.optimrl_jax.records import ragged

# Strict p10 pass@1 of ranked p30 and QP runs, ab1-ab8 by s0, s5, s9 (App. C.10).
P30 = np.array(
    [
        [41.0, 41.9, 41.1, 40.5, 39.3, 40.4, 40.7, 40.8],
        [36.2, 36.8, 36.3, 35.3, 34.8, 35.3, 35.5, 35.2],
        [5.3, 5.7, 5.4, 5.3, 5.0, 5.2, 5.1, 5.2],
    ]
).T
QP = np.array(
    [
        [40.3, 39.3, 39.7, 39.4, 39.3, 39.8, 39.1, 39.1],
        [35.1, 33.8, 34.2, 33.4, 33.0, 32.2, 32.4, 32.7],
        [5.2, 4.9, 4.6, 4.6, 3.8, 4.2, 4.1, 4.4],
    ]
).T


def test_the_papers_grids_come_out():
    """ab3 and s5 of App. C.10, to its six digits."""
    assert len(sensitivity.REWARD_CALIBRATIONS) == 8
    assert len(sensitivity.SCORING_CALIBRATIONS) == 10
    ab3, s5 = sensitivity.REWARD_CALIBRATIONS["ab3"], sensitivity.SCORING_CALIBRATIONS["s5"]
    np.testing.assert_allclose(ab3, (0.630585, 0.052914), atol=1e-6)
    np.testing.assert_allclose(s5, (0.648630, 0.043404), atol=1e-6)


def test_scoring_moves_the_published_scores_and_training_hardly_does():
    """App. C.10: spreads of 2.6 and 2.0 points for ranked p30, 1.2 and 2.9 for QP; drops of about 35 points."""
    found = [sensitivity.calibration_separation(matrix) for matrix in (P30, QP)]
    np.testing.assert_allclose(found[0].reward_spread[:2], [2.6, 2.0], atol=1e-6)
    np.testing.assert_allclose(found[1].reward_spread[:2], [1.2, 2.9], atol=1e-6)
    assert all(34 < drop < 37 for one in found for drop in one.scoring_drop)
    advantage = (P30 - QP).mean(axis=0)
    np.testing.assert_allclose(advantage, [1.2, 2.3, 0.8], atol=0.06)


def test_relative_gains_by_the_papers_numbers():
    """App. C.9: 56.3, 55.8 and 57.8 % over a baseline of 38.8 % are gains of 45, 44 and 49 %."""
    np.testing.assert_allclose(sensitivity.relative_gain([56.3, 55.8, 57.8], 38.8), [0.45, 0.44, 0.49], atol=0.005)
    assert np.isnan(sensitivity.relative_gain([1.0], [0.0])).all()


def scored(calibrations, *, seed=2):
    problems = ragged(seed, problems=6)
    draw = np.random.default_rng(seed)
    runs = [
        Execution(np.zeros((5, k), np.int8), draw.uniform(0.001, 0.15, (5, k)).astype(np.float32))
        for k in (len(problem.test_kind) for problem in problems)
    ]
    groups = replay.group_problems(problems, [problem.duration_s for problem in problems])
    return sensitivity.calibrated_scores(calibrations, groups, runs, ks=(1, 2), taus=(100, 50, 20)), groups, runs


def test_rescoring_equals_judging_anew_under_each_calibration():
    calibrations = list(sensitivity.SCORING_CALIBRATIONS.values())
    table, groups, runs = scored(calibrations)
    for row, gamma in enumerate(calibrations):
        env = environment.build("qp_ranked", alpha=gamma.slope, beta_s=gamma.offset_s)
        outcome = replay.judge_groups([env], groups, runs)
        counts = (outcome.c_strict[0] > 0) & (outcome.q[0] <= 0.5 + 1e-6)
        assert table[row, 0, 1] == pytest.approx(counts.mean())


def test_shorter_references_make_the_same_runs_score_lower_except_at_p100():
    table, _, _ = scored([AffineMap(alpha, 0.0) for alpha in (1.5, 1.0, 0.7, 0.4, 0.2)], seed=4)
    assert table.shape == (5, 2, 3)
    assert np.ptp(table[:, :, 0], axis=0) == pytest.approx(0)
    assert (np.diff(table[:, :, 1:], axis=0) <= 1e-9).all()
    assert table[0, 0, 1] > table[-1, 0, 1]
