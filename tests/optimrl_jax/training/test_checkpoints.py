"""Checkpoints come back exactly; a cut one is reported and the one before is used."""

import logging

import jax
import numpy as np
import pytest

from optimrl_jax.grpo.loop import Learner
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.settings import CheckpointSettings
from optimrl_jax.training import checkpoints
from tests.optimrl_jax.grpo.groups import SETTINGS, copied_params, group
from tests.optimrl_jax.model import tiny


@pytest.fixture(scope="module")
def states():
    own = Learner(copied_params(), tiny.SETTINGS, SETTINGS)
    found = []
    for seed in range(3):
        own.learn([group(seed, reward=(1, -1, 0, 1))])
        found.append(jax.tree.map(np.asarray, own.trainer.state))
    return own, found


def saved(tmp_path, found):
    store = checkpoints.Checkpoints(tmp_path)
    for step, state in enumerate(found, start=1):
        store.save(step, checkpoints.to_trees(state), {"batch": step})
    store.close()


def restored(tmp_path, own):
    store = checkpoints.Checkpoints(tmp_path)
    found = store.restore(checkpoints.restore_targets(own.trainer.state))
    store.close()
    return found


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def assert_equal(left, right):
    for one, other in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_newest_of_two_kept_checkpoints_comes_back_bit_for_bit(states, tmp_path):
    own, found = states
    assert restored(tmp_path, own) is None
    saved(tmp_path, found)
    assert sorted(path.name for path in (tmp_path / checkpoints.FOLDER).iterdir()) == ["2", "3"]
    back = restored(tmp_path, own)
    assert (back.step, back.metadata) == (3, {"batch": 3})
    assert_equal(checkpoints.from_trees(back.arrays), found[2])


@pytest.mark.parametrize("pattern", ["params/**/d/*", "optimizer/**/manifest.ocdbt", "facts/metadata"])
def test_a_cut_checkpoint_falls_back_to_the_one_before_and_says_so(states, tmp_path, pattern, caplog):
    own, found = states
    saved(tmp_path, found)
    for path in (tmp_path / checkpoints.FOLDER / "3").glob(pattern):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with caplog.at_level(logging.WARNING):
        back = restored(tmp_path, own)
    assert back.step == 2
    assert "checkpoint 3 cannot be read" in caplog.text
    assert_equal(checkpoints.from_trees(back.arrays), found[1])
    assert names_in(tmp_path / checkpoints.FOLDER) == ["2"]
    assert names_in(tmp_path / checkpoints.SET_ASIDE_FOLDER) == ["3"]


def test_steps_that_were_set_aside_can_be_written_and_set_aside_again(states, tmp_path):
    own, found = states
    saved(tmp_path, found)
    for name in ("3", "3.1"):
        for path in (tmp_path / checkpoints.FOLDER / "3" / "facts").glob("*"):
            path.write_bytes(b"")
        store = checkpoints.Checkpoints(tmp_path)
        assert store.restore(checkpoints.restore_targets(own.trainer.state)).step == 2
        assert name in names_in(tmp_path / checkpoints.SET_ASIDE_FOLDER)
        store.save(3, checkpoints.to_trees(found[2]), {"batch": 3})
        store.close()
        assert restored(tmp_path, own).step == 3


def test_a_tree_that_was_never_stored_is_refused_and_nothing_is_lost(states, tmp_path):
    own, found = states
    saved(tmp_path, found)
    store = checkpoints.Checkpoints(tmp_path)
    targets = checkpoints.restore_targets(own.trainer.state)
    targets["params"] = {**targets["params"], "another": targets["params"]["embedding"]}
    with pytest.raises(UserError, match="they are left as they are"):
        store.restore(targets)
    assert names_in(tmp_path / checkpoints.FOLDER) == ["2", "3"]
    assert restored(tmp_path, own).step == 3


def test_storage_that_fails_for_a_moment_is_read_again(states, tmp_path, monkeypatch):
    own, found = states
    saved(tmp_path, found)
    monkeypatch.setattr(checkpoints, "PAUSE_S", 0.0)
    read, failures = checkpoints.ocp.CheckpointManager.restore, [OSError(5, "Input/output error")] * 2

    def flaky(manager, *arguments, **options):
        if failures:
            raise failures.pop()
        return read(manager, *arguments, **options)

    monkeypatch.setattr(checkpoints.ocp.CheckpointManager, "restore", flaky)
    assert restored(tmp_path, own).step == 3
    assert not failures


def test_a_setting_says_which_checkpoints_stay(states, tmp_path):
    found = states[1]
    store = checkpoints.Checkpoints(tmp_path, kept=CheckpointSettings(keep=1, keep_every=2))
    for step in range(1, 6):
        store.save(step, checkpoints.to_trees(found[step % 3]), {})
    store.close()
    assert names_in(tmp_path / checkpoints.FOLDER) == ["2", "4", "5"]


def test_checkpoints_that_cannot_be_read_at_all_are_one_clear_line(states, tmp_path):
    own, found = states
    saved(tmp_path, found[:1])
    for path in (tmp_path / checkpoints.FOLDER / "1" / "facts").glob("*"):
        path.write_bytes(b"")
    with pytest.raises(UserError, match="expected at least one readable checkpoint"):
        restored(tmp_path, own)
    with pytest.raises(UserError, match="expected the workdir of a job"):
        checkpoints.load_policy(tmp_path / "absent")
