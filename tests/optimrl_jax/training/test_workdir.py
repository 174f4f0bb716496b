"""A workdir knows which job and which settings made it."""

import dataclasses
import json

import jax
import pytest

from optimrl_jax.jobs.checked_fields import flatten, thaw
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.settings import GrpoSettings, MeshSettings, SandboxSettings, Settings
from optimrl_jax.training import workdir


@pytest.fixture
def begun(tmp_path):
    """A workdir with a checkpoint in it."""
    (tmp_path / workdir.CHECKPOINT_FOLDER / "10").mkdir(parents=True)
    return tmp_path


def test_a_start_that_came_to_no_checkpoint_binds_nobody(tmp_path):
    workdir.claim_workdir(tmp_path, "sft", Settings())
    workdir.claim_workdir(tmp_path, "train", Settings(seed=1))
    claimed = json.loads((tmp_path / workdir.JOB_FILE).read_text())
    assert (claimed["job"], claimed["settings"]["seed"]) == ("train", 1)


def test_another_job_is_refused_in_one_line(begun):
    workdir.claim_workdir(begun, "sft", Settings())
    with pytest.raises(UserError, match=r"--workdir = .*: expected one of train, found that of sft"):
        workdir.claim_workdir(begun, "train", Settings())


def test_a_changed_setting_is_refused_with_what_it_was(begun):
    workdir.claim_workdir(begun, "train", Settings())
    for change, message in (
        ({"seed": 7}, r"seed = 7: expected 0, with which"),
        ({"grpo": GrpoSettings(learning_rate=1e-3)}, r"grpo\.learning_rate = 0\.001: expected 0\.0003"),
        ({"sandbox": SandboxSettings(limit_s=1.0)}, r"sandbox\.limit_s = 1\.0: expected 10\.0"),
    ):
        with pytest.raises(UserError, match=message):
            workdir.claim_workdir(begun, "train", dataclasses.replace(Settings(), **change))


def test_how_long_and_where_a_job_runs_may_change(begun):
    workdir.claim_workdir(begun, "train", Settings())
    changed = {
        "grpo": GrpoSettings(steps=7, checkpoint_every=3),
        "mesh": MeshSettings(data=2),
        "sandbox": SandboxSettings(address="docker", workers=8, fallback_retries=2),
    }
    workdir.claim_workdir(begun, "train", dataclasses.replace(Settings(), **changed))
    assert json.loads((begun / workdir.JOB_FILE).read_text())["job"] == "train"


def test_every_free_setting_exists():
    names = list(flatten(thaw(Settings())))
    assert all(any(name.startswith(free) for name in names) for free in workdir.FREE)


def test_compiled_programs_lie_in_the_workdir_unless_a_variable_names_a_place_for_all(tmp_path, monkeypatch):
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    try:
        monkeypatch.setenv(workdir.CACHE_VARIABLE, str(tmp_path / "all"))
        workdir.reuse_compiled_programs(tmp_path)
        assert {name: getattr(jax.config, name) for name in names} == before
        monkeypatch.delenv(workdir.CACHE_VARIABLE)
        workdir.reuse_compiled_programs(tmp_path)
        assert jax.config.jax_compilation_cache_dir == str(tmp_path / workdir.COMPILED_FOLDER)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
