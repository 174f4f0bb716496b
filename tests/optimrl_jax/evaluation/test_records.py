"""Stored executions come back as they were, and a broken file is named."""

import numpy as np
import pytest

from optimrl_jax.errors import UserError
from optimrl_jax.evaluation import records


def sample(number, *, tests=3):
    status = np.arange(tests, dtype=np.int8) % 3
    return records.SampleRecord("grpo", "twin/a", number, "print(1)\n# é", status, np.full(tests, 0.25, np.float32))


def test_records_of_different_lengths_come_back_as_written(tmp_path):
    path = tmp_path / "records.parquet"
    written = [sample(0), sample(1, tests=5)]
    records.write_records(path, written, key="abc")
    assert records.stored_key(path) == "abc"
    for before, after in zip(written, records.read_records(path), strict=True):
        assert (before.policy, before.problem_id, before.sample, before.program) == (
            after.policy,
            after.problem_id,
            after.sample,
            after.program,
        )
        np.testing.assert_array_equal(before.status, after.status)
        np.testing.assert_array_equal(before.duration_s, after.duration_s)
    assert [path.name for path in tmp_path.iterdir()] == ["records.parquet"]


def test_no_file_has_no_key(tmp_path):
    assert records.stored_key(tmp_path / "records.parquet") is None


@pytest.mark.parametrize("reader", [records.read_records, records.stored_key])
def test_a_broken_file_is_named(tmp_path, reader):
    path = tmp_path / "records.parquet"
    records.write_records(path, [sample(0)], key="abc")
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(UserError, match=r"records\.parquet: expected stored evaluation records"):
        reader(path)
