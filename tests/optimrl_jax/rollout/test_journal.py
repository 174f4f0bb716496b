"""Every rollout is on disk with what became of it, and a command shows the best, the worst and the oddest."""

import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from optimrl_jax import show_rollouts
from optimrl_jax.arrays import AffineMap
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.rollout import groups as groups_lib
from optimrl_jax.rollout import journal
from optimrl_jax.rollout.execution import CandidateRun
from tests.optimrl_jax.grpo.groups import group

REWARDS = (1.0, -1.0, 1.0, 1.0)


def write(workdir, *, batch=0, rewards=REWARDS, name="p/one", drift=AffineMap()):  # noqa: B008 - a tuple
    is_cut = np.array([False, True, False, False])
    one = group(0, reward=rewards)._replace(batch=np.int32(batch), is_cut=is_cut)
    seconds = [0.4, 0.1, 0.2, 0.3]
    runs = [CandidateRun(np.array([0, 1], np.int8), np.array([s, 0.0], np.float32), drift) for s in seconds]
    with journal.RolloutJournal(workdir / journal.FOLDER, groups_lib.advantages) as book:
        book.add(
            one,
            problem=name,
            completions=[f"completion {n}" for n in range(4)],
            programs=[f"print({n})" for n in range(4)],
            runs=runs,
        )
    return one


def test_rows_hold_what_was_sampled_and_what_became_of_it(tmp_path):
    one = write(tmp_path)
    rows = journal.read_rollouts(tmp_path / journal.FOLDER)
    lengths = one.rollouts.is_completion.sum(axis=1)
    expected = np.asarray(groups_lib.advantages(one.reward, lengths, one.is_valid))
    np.testing.assert_allclose([row["advantage"] for row in rows], expected, rtol=1e-6)
    assert [row["reward"] for row in rows] == list(REWARDS)
    assert [row["is_cut"] for row in rows] == [False, True, False, False]
    assert rows[2]["program"] == "print(2)"
    assert rows[2]["status"] == [0, 1]
    assert rows[2]["problem"] == "p/one"


def test_rows_hold_the_drift_that_they_were_judged_under_and_the_command_shows_it(tmp_path, capsys):
    write(tmp_path, drift=AffineMap(1 / 3, 0.002))
    rows = journal.read_rollouts(tmp_path / journal.FOLDER)
    assert [journal.drift_of(row) for row in rows] == [AffineMap(1 / 3, 0.002)] * 4
    show_rollouts.main([f"--workdir={tmp_path}", "--count=1"])
    assert "stored seconds read as 0.333 * stored +0.0020 s" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("has_columns", [False, True])
def test_rollouts_of_runs_that_kept_no_drift_have_none(tmp_path, has_columns):
    write(tmp_path)
    (shard,) = (tmp_path / journal.FOLDER).iterdir()
    table = pq.read_table(shard).drop_columns(["drift_slope", "drift_offset_s"])
    if has_columns:
        table = pa.Table.from_pylist(table.to_pylist(), schema=journal.SCHEMA)
    pq.write_table(table, shard)
    rows = journal.read_rollouts(tmp_path / journal.FOLDER)
    assert [journal.drift_of(row) for row in rows] == [AffineMap()] * 4
    assert rows[2]["program"] == "print(2)"
    assert set(rows[2]) == set(journal.SCHEMA.names)


def test_a_repeated_step_counts_once_and_the_newer_one(tmp_path):
    write(tmp_path, batch=3)
    write(tmp_path, batch=3, rewards=(-1.0, -1.0, -1.0, 1.0))
    write(tmp_path, batch=1)
    rows = journal.read_rollouts(tmp_path / journal.FOLDER)
    assert [row["batch"] for row in rows] == [1] * 4 + [3] * 4
    assert [row["reward"] for row in rows[4:]] == [-1.0, -1.0, -1.0, 1.0]


def test_best_is_the_fastest_of_the_best_and_odd_what_its_group_is_not(tmp_path, capsys):
    write(tmp_path)
    rows = journal.read_rollouts(tmp_path / journal.FOLDER)
    assert show_rollouts.best(rows)[0]["sample"] == 2
    assert show_rollouts.worst(rows)[0]["sample"] == 1
    assert show_rollouts.oddest(rows)[0]["sample"] == 1
    show_rollouts.main([f"--workdir={tmp_path}", "--count=1"])
    shown = capsys.readouterr().out
    for text in (
        "best: reward 1.000",
        "worst: reward -1.000",
        "oddest: reward -1.000",
        "ran out of tokens",
        "print(2)",
    ):
        assert text in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--show=finest"], "--show = 'finest': expected some of best,worst,oddest"),
        (["--count=0"], "--count = 0: expected a positive number"),
        ([], "expected a job that has written rollouts"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        show_rollouts.main([f"--workdir={tmp_path}", *arguments])


def test_a_directory_that_cannot_be_made_costs_rollouts_and_no_step(tmp_path, caplog):
    (tmp_path / journal.FOLDER).write_text("in the way")
    with caplog.at_level(logging.WARNING):
        write(tmp_path)
    assert "4 rollouts were not written" in caplog.text
