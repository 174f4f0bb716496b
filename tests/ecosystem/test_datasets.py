"""An exported dataset read by `datasets.load_dataset`: the same splits, problems and durations."""

import json
import pathlib

import pytest

from beam_pipelines import build_dataset, export_parquet
from optimrl_jax.data.dataset import load_records
from tests.ecosystem.environments import python_with, run_script

SCRIPT = pathlib.Path(__file__).parent / "read_dataset.py"


@pytest.fixture(scope="module")
def python():
    return python_with("datasets", "datasets")


def test_splits_problems_and_durations_are_read_as_they_were_exported(tmp_path, python, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    flags = ("--source=mini", "--limit=4", "--calls=1", "--repeats=1", "--min_robust_cv=0")
    build_dataset.main([*flags, f"--output={tmp_path / 'built'}"])
    export_parquet.main([f"--dataset={tmp_path / 'built'}", f"--output={tmp_path / 'exported'}"])
    found = json.loads(run_script(python, SCRIPT, str(tmp_path / "exported")))
    assert set(found) == {"rl_train", "rl_test"}
    for split, rows in found.items():
        records = load_records(tmp_path / "built", split)
        assert [row["id"] for row in rows] == [record.id for record in records]
        for row, record in zip(rows, records, strict=True):
            assert row["inputs"] == list(record.test_input)
            assert row["programs"] == list(record.reference_program)
            assert row["duration_s"] == record.duration_s.tolist()
