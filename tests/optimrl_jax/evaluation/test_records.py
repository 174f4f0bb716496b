"""Stored evaluations come back as they were, hold what analyses need, and a broken file is named."""

import dataclasses

import numpy as np
import pytest

from optimrl_jax.evaluation import records
from optimrl_jax.jobs.errors import UserError
from tests.optimrl_jax.records import ragged, record


def sample(number, *, tests=5, problem="twin/double"):
    status = np.arange(tests, dtype=np.int8) % 3
    return records.SampleRecord(
        "grpo", problem, number, "print(1)\n# é", status, np.full(tests, 0.25, np.float32), 7, True
    )


def evaluation(samples, problems=None):
    problems = problems or [record()]
    return records.Evaluation([records.stored_problem(problem) for problem in problems], samples, {"key": "abc"})


def test_an_evaluation_comes_back_as_written(tmp_path):
    problems = [record(), *ragged(3, problems=3)]
    written = evaluation([sample(0), sample(1, tests=4, problem="twin/p0")], problems)
    records.write_evaluation(tmp_path, written)
    found = records.read_evaluation(tmp_path)
    assert records.stored_facts(tmp_path) == found.facts == {"key": "abc"}
    for before, after in zip([*written.samples, *written.problems], [*found.samples, *found.problems], strict=True):
        for name, value in vars(before).items():
            np.testing.assert_array_equal(value, getattr(after, name), err_msg=name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["problems.parquet", "records.parquet"]


def test_runs_of_a_policy_are_stacked_in_order_of_problems_and_samples():
    stored = evaluation([sample(1), sample(0)])
    (found,) = records.executions_of(stored, "grpo")
    assert found.status.shape == (2, 5)
    with pytest.raises(UserError, match="policy 'absent'"):
        records.executions_of(stored, "absent")


def test_content_changes_with_tests_and_references_and_not_with_words():
    known = records.content_sha256(record())
    assert records.content_sha256(dataclasses.replace(record(), statement="Another wording.")) == known
    for changed in (
        {"test_output": ("0\n",) * 5},
        {"reference_program": ("print(1)",) * 4},
        {"checker": "words"},
        {"duration_s": record().duration_s * 2},
    ):
        assert records.content_sha256(dataclasses.replace(record(), **changed)) != known


def test_no_file_has_no_facts(tmp_path):
    assert records.stored_facts(tmp_path) == {}


@pytest.mark.parametrize("reader", [records.read_evaluation, records.stored_facts])
def test_a_broken_file_is_named(tmp_path, reader):
    records.write_evaluation(tmp_path, evaluation([sample(0)]))
    path = tmp_path / records.RECORDS
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(UserError, match=r"records\.parquet: expected stored evaluation records"):
        reader(tmp_path)
