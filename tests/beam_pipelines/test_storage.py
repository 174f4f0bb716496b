"""Records on disk: equal after a round trip, one file a problem, never half a file."""

import dataclasses
import resource

import pytest

from beam_pipelines import storage
from beam_pipelines.records import Rejection, StageCount
from tests.beam_pipelines import planted


def full_problem(name="sum"):
    problem = planted.problem(name, statement="é \ud800 \n")
    return dataclasses.replace(
        problem,
        executions=planted.executions(["STWRX.C", "SSSSSSS"]),
        timings=planted.timings(2, 6),
        measured_under=(("host", "here"),),
        robust_cv=0.5,
        length_r=0.25,
        trace=(StageCount("labels", 6, 1, 2, (("python2", 0.0),)),),
    )


def test_records_are_equal_after_a_round_trip():
    for record in (full_problem(), Rejection("a", "labels", "correct_only", "é")):
        assert storage.record_from_json(storage.record_to_json(record)) == record


def test_a_problem_that_is_written_twice_is_there_once(tmp_path):
    for name in ("a", "b", "a"):
        storage.write_record(full_problem(name), directory=str(tmp_path))
    assert sorted(record.id for record in storage.read_records(tmp_path)) == ["planted/a", "planted/b"]


def test_a_second_problem_under_a_taken_id_is_removed_with_a_reason(tmp_path):
    for statement in ("one", "two"):
        storage.write_record(dataclasses.replace(full_problem(), statement=statement), directory=str(tmp_path))
    assert storage.reject_repeated(tmp_path) == 1
    (rejection,) = [one for one in storage.read_records(tmp_path) if isinstance(one, Rejection)]
    assert (rejection.problem_id, rejection.stage, rejection.reason) == ("planted/sum", "read", "repeated_id")
    assert len(list(storage.read_problems(tmp_path))) == 1
    assert storage.reject_repeated(tmp_path) == 0


def test_a_record_with_a_key_has_one_file_whatever_became_of_it(tmp_path):
    problem = dataclasses.replace(full_problem(), key="0000001-00002")
    assert not storage.is_stored(problem, tmp_path)
    storage.write_record(problem, directory=str(tmp_path))
    storage.write_record(Rejection(problem.id, "labels", "correct_only", key=problem.key), directory=str(tmp_path))
    assert [type(record) for record in storage.read_records(tmp_path)] == [Rejection]
    assert storage.is_stored(problem, tmp_path)
    assert not storage.is_stored(full_problem(), tmp_path), "without a key nobody can tell"


def test_a_checkpoint_gives_back_what_a_stage_made_of_this_problem(tmp_path):
    problem = dataclasses.replace(full_problem(), key="0000001-00002")
    assert storage.read_checkpoint(problem, directory=str(tmp_path), stage="validate") is None
    storage.write_checkpoint(problem, directory=str(tmp_path), stage="validate")
    assert storage.read_checkpoint(problem, directory=str(tmp_path), stage="validate") == problem
    assert storage.read_checkpoint(problem, directory=str(tmp_path), stage="time") is None


def test_what_a_killed_writer_left_is_not_read(tmp_path):
    path = storage.write_record(full_problem(), directory=str(tmp_path))
    (tmp_path / "half.json.123.part").write_bytes(b"half")
    assert [record.id for record in storage.read_records(tmp_path)] == ["planted/sum"]
    assert path.endswith(".json.gz")


def test_a_record_for_which_there_is_no_room_leaves_nothing_and_says_where(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match=f"File too large: '{tmp_path}'"):
            storage.write_record(planted.problem(), directory=str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
