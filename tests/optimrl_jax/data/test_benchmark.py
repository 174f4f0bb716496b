"""Benchmarks of tests alone become problems without references; a line that does not fit is named."""

import json

import pytest

from optimrl_jax.arrays import TestKind
from optimrl_jax.data.benchmark import read_benchmark
from optimrl_jax.jobs.errors import UserError

LINE = {"id": "a", "statement": "Add.", "tests": [{"input": "1 2\n", "output": "3\n"}], "difficulty": "hard"}


def test_a_line_becomes_a_problem_without_references(tmp_path):
    path = tmp_path / "lcb.jsonl"
    path.write_text(json.dumps(LINE) + "\n\n" + json.dumps(LINE | {"id": "b", "difficulty": 1}) + "\n")
    first, second = read_benchmark(path)
    assert (first.difficulty, second.difficulty) == (3, 1)
    assert first.duration_s.shape == first.status.shape == (1, 0)
    assert first.test_kind.tolist() == [TestKind.ORIGINAL]
    assert first.tests_of(frozenset({0})) == (0,)


@pytest.mark.parametrize("change", [{"tests": []}, {"tests": [{"input": "1"}]}, {"difficulty": "odd"}, {"id": None}])
def test_a_line_that_does_not_fit_is_named(tmp_path, change):
    row = LINE | change
    if change.get("id", "") is None:
        del row["id"]
    (tmp_path / "lcb.jsonl").write_text(json.dumps(LINE) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(UserError, match=r"lcb\.jsonl:2: expected id, statement and tests"):
        read_benchmark(tmp_path / "lcb.jsonl")


def test_an_empty_or_missing_file_is_named(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(UserError, match="expected at least one problem"):
        read_benchmark(tmp_path / "empty.jsonl")
    with pytest.raises(UserError, match="expected a readable file"):
        read_benchmark(tmp_path / "absent.jsonl")
