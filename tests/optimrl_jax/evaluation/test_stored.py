"""Sweeps and heatmaps replayed from a file of stored records."""

import numpy as np
import pytest

from optimrl_jax import environment
from optimrl_jax.evaluation import records as stored_records
from optimrl_jax.evaluation import sensitivity, transfer
from optimrl_jax.evaluation.stored import stored_problems
from tests.optimrl_jax import records


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "records.parquet"
    problems = records.ragged(3, problems=3)
    samples = [
        stored_records.SampleRecord(
            policy, problem.id, sample, "", np.zeros(k, np.int8), np.full(k, seconds, np.float32)
        )
        for problem in problems
        for k in [len(problem.test_kind)]
        for policy, speeds in (("fast", (0.001, 0.02)), ("slow", (0.08, 0.3)))
        for sample, seconds in enumerate(speeds)
    ]
    stored_records.write_records(path, samples[::-1], key="twin")
    return problems, stored_records.read_records(path)


def test_samples_come_back_in_order_and_padded_to_one_shape(replayed):
    found = stored_problems(*replayed, policy="fast")
    assert {one[2].status.shape for one in found} == {(2, 8)}
    k = len(replayed[0][0].test_kind)
    np.testing.assert_allclose(found[0][2].duration_s[:, :k], [[0.001] * k, [0.02] * k])


def test_the_fast_policy_leads_the_heatmap_and_the_alpha_sweep(replayed):
    fast, slow = (stored_problems(*replayed, policy=policy) for policy in ("fast", "slow"))
    columns = [column for column in transfer.evaluators() if column.family == "qp_ranked"]
    matrix = transfer.transfer_matrix(
        columns, [one[:2] for one in fast], [[one[2] for one in own] for own in (fast, slow)]
    )
    assert (matrix[0] >= matrix[1]).all()
    assert matrix[0, -1] > matrix[1, -1]
    env = environment.build("qp_ranked")
    scores = [
        sensitivity.sensitivity(env, list(sensitivity.SCORING_CALIBRATIONS.values()), own, ks=(1,), taus=(100, 30))
        for own in (fast, slow)
    ]
    assert scores[0].shape == (10, 1, 2)
    assert (scores[0][..., 0] == 1).all()
    assert (scores[0][..., 1] > scores[1][..., 1]).all()


def test_a_problem_without_samples_is_refused(replayed):
    with pytest.raises(ValueError, match="policy 'absent'"):
        stored_problems(*replayed, policy="absent")
