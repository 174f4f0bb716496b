"""Correct rollouts of an earlier run stand beside the human references, on their clock."""

import json

import numpy as np
import pytest

from optimrl_jax.arrays import AffineMap, Status
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.rollout import learned_pool
from optimrl_jax.rollout.execution import CandidateRun
from optimrl_jax.rollout.rewarder import Rewarder
from optimrl_jax.settings import Settings
from tests.optimrl_jax.analysis import planted_journal

RECORD = planted_journal.PROBLEM


def row(program, seconds, status=(0, 0), *, slope=1.0, offset_s=0.0):
    return {
        "program": program, "duration_s": list(seconds), "status": list(status), "batch": 3, "sample": 1,
        "drift_slope": slope, "drift_offset_s": offset_s,
    }  # fmt: skip


def test_the_fastest_distinct_programs_join_on_the_stored_clock():
    """A live clock that takes twice as long and 2 ms: 22 ms there are 10 ms here."""
    rows = [
        row("a", (0.022, 0.042)), row("a", (0.022, 0.012)), row("b", (0.032, 0.022)),
        row("late", (0.01, 10.0), status=(0, Status.TIMEOUT)), row("short", (0.01,), status=(0,)),
        row(RECORD.reference_program[0], (0.001, 0.001)),
    ]  # fmt: skip
    found = learned_pool.extend_references(RECORD, rows, AffineMap(2.0, 0.002))
    assert found.reference_program[4:] == ("a", "b")
    np.testing.assert_allclose(found.duration_s[:, 4:], [[0.01, 0.015], [0.005, 0.01]], rtol=1e-5)
    assert found.is_usable.all()
    assert len(found.reference_id) == len(found.reference_speed_class) == found.std_s.shape[1] == 6


def test_each_rollout_comes_back_by_its_own_drift_after_the_runs_calibration():
    """The run's clock reads 2 d + 2 ms; while it had drifted by 1.5 d + 1 ms, 10 ms took 34 ms."""
    rows = [
        row("other", (0.027, 0.047)),
        row("drifted", (0.034, 0.064), slope=1.5, offset_s=0.001),
    ]
    found = learned_pool.extend_references(RECORD, rows, AffineMap(2.0, 0.002))
    assert found.reference_program[4:] == ("drifted", "other")
    np.testing.assert_allclose(found.duration_s[:, 4:], [[0.01, 0.0125], [0.02, 0.0225]], rtol=1e-5)


def test_no_more_than_a_few_of_a_problem_join():
    rows = [row(f"p{n}", (0.01, 0.01 + n / 1000)) for n in range(20)]
    found = learned_pool.extend_references(RECORD, rows, AffineMap())
    assert found.reference_program[4:] == tuple(f"p{n}" for n in range(learned_pool.MOST_LEARNED))
    assert learned_pool.extend_references(RECORD, [], AffineMap()) is RECORD


def test_a_place_among_humans_becomes_a_place_among_humans_and_earlier_programs(tmp_path):
    """25 ms stand behind two of four humans; with a program of 15 ms in the pool behind three of five."""
    planted_journal.write_journal(tmp_path)
    (extended,) = learned_pool.with_learned_references([RECORD], str(tmp_path))
    assert extended.reference_program[4:] == ("print(1)",)
    np.testing.assert_allclose(extended.duration_s[1, 4], 0.015)
    chosen = {"environment": {"family": "qar_ranked"}, "reward": {"composition": "two_gate_graded"}}
    run = CandidateRun(np.zeros(2, np.int8), np.array([0.01, 0.025], np.float32))
    paid = [
        Rewarder([one], freeze(Settings, chosen))(0, [run], stream=0, batch=0).reward[0] for one in (RECORD, extended)
    ]
    assert paid == pytest.approx([0.5, 0.4])


def test_without_a_run_nothing_changes_and_a_run_without_rollouts_is_a_mistake(tmp_path):
    assert learned_pool.with_learned_references([RECORD], "") == [RECORD]
    (tmp_path / "job.json").write_text(json.dumps({"settings": {}}))
    with pytest.raises(UserError, match=r"data\.learned_references"):
        learned_pool.with_learned_references([RECORD], str(tmp_path))
