"""The prepared dataset: readable without TensorFlow, views that cost nothing, contents as recorded."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow_datasets as tfds

from beam_pipelines import storage
from beam_pipelines.dmc_optim import dmc_optim_dataset_builder as dmc_optim
from beam_pipelines.records import Test
from tests.beam_pipelines import planted


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    root = tmp_path_factory.mktemp("dataset")
    for name in "abcd":
        storage.write_record(
            planted.timed(name, incorrect=() if name == "b" else (planted.WRONG_ANSWER,)), directory=str(root / "r")
        )
    return dmc_optim.prepare_dataset(root, records_directory=root / "r", splits=planted.SPLITS)


def ids(directory, split):
    return {row["id"].decode() for row in tfds.builder_from_directory(directory).as_data_source(split=split)}


def test_splits_and_views_hold_their_problems(directory):
    assert ids(directory, "rl_train") == {"planted/a", "planted/b"}
    assert ids(directory, "filterable") == {"planted/a", "planted/b", "planted/c"}
    assert ids(directory, "non_filterable") == {"planted/d"}
    assert ids(directory, "cleaned") == set(planted.SPLITS)


def test_views_share_the_files_of_the_splits(directory):
    stored = {path.stat().st_ino for path in directory.glob("*.array_record-*")}
    assert len(stored) == 3
    assert len(list(directory.glob("*.array_record-*"))) == 3 + 2 + 3


def test_an_example_holds_what_was_recorded(directory):
    rows = {row["id"].decode(): row for row in tfds.builder_from_directory(directory).as_data_source(split="cleaned")}
    row, problem = rows["planted/a"], planted.timed("a")
    assert [text.decode() for text in row["reference_program"]] == [one.program for one in problem.correct]
    assert [text.decode() for text in row["test_input"]] == [test.input for test in problem.tests]
    assert row["duration_s"].shape == row["status"].shape == (2, 6)
    np.testing.assert_allclose(row["duration_s"][0], 0.25 * np.arange(1, 7))
    assert (row["duration_s"].dtype, row["runs"].dtype, row["status"].dtype) == (np.float32, np.int32, np.int8)
    assert row["test_kind"].dtype == np.int8
    assert row["measured_under"] == b'{"host": "here"}'
    assert len(rows["planted/b"]["incorrect_program"]) == 0


def test_training_splits_hold_no_incorrect_programs(directory):
    builder = tfds.builder_from_directory(directory)
    assert all(len(row["incorrect_program"]) == 0 for row in builder.as_data_source(split="filterable"))
    assert all(len(row["incorrect_program"]) == 1 for row in builder.as_data_source(split="non_filterable"))


def test_the_light_variant_has_one_solution_a_label_and_no_optimization_tests(tmp_path):
    tests = (*planted.problem().tests, Test(2, "9\n", "9\n", "g"))
    storage.write_record(planted.timed("a", tests=tests), directory=str(tmp_path / "r"))
    light = dmc_optim.prepare_dataset(
        tmp_path, records_directory=tmp_path / "r", splits={"planted/a": "non_filterable"}, is_light=True
    )
    (row,) = tfds.builder_from_directory(light).as_data_source(split="non_filterable")
    assert (row["test_kind"].tolist(), row["duration_s"].shape) == ([0, 0], (2, 1))
    assert (len(row["reference_program"]), len(row["incorrect_program"])) == (1, 1)


def test_pools_are_further_splits_of_the_same_problems(tmp_path):
    for name in "abcd":
        storage.write_record(planted.timed(name), directory=str(tmp_path / "r"))
    pools = {"pool_mixed": {"planted/a", "planted/d"}, "pool_filterable": set()}
    path = dmc_optim.prepare_dataset(tmp_path, records_directory=tmp_path / "r", splits=planted.SPLITS, pools=pools)
    assert ids(path, "pool_mixed") == {"planted/a", "planted/d"}
    assert "pool_filterable" not in tfds.builder_from_directory(path).info.splits


READER = """
import sys
import grain
import tensorflow_datasets as tfds
source = tfds.builder_from_directory(sys.argv[1]).as_data_source(split="cleaned")
batches = grain.MapDataset.source(source).shuffle(seed=0).map(lambda row: row["id"]).batch(2)
found = sorted(name.decode() for batch in batches for name in batch)
print(found == ["planted/a", "planted/b", "planted/c", "planted/d"], "tensorflow" in sys.modules)
"""


def test_grain_reads_it_in_a_process_without_tensorflow(directory):
    done = subprocess.run([sys.executable, "-c", READER, directory], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
