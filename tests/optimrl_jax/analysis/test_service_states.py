"""Stored rollouts under other service states: known shifts, masks, and what has to be there."""

import numpy as np
import pytest

from optimrl_jax.analysis.study import Study
from optimrl_jax.analysis.timing import service_states
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.settings import Settings
from tests.optimrl_jax.analysis import planted_journal

SETTINGS = freeze(Settings, {"environment": {"family": "qar_ranked"}, "reward": {"composition": "two_gate_graded"}})


def rows(batches=range(1, 9)):
    """Seconds of 15, 25, 35, 45 ms are behind 1, 2, 3 and 4 of four references."""
    found = [planted_journal.rollout(batch, sample) for batch in batches for sample in range(4)]
    return [row | {"reward": 0.75 - 0.25 * row["sample"]} for row in found if row["status"] == [0, 0]]


def replayed(given=None):
    found = service_states.replay_rollouts(given or rows(), [planted_journal.PROBLEM], SETTINGS, draws=4)
    return {row["state"]: row for row in found}


def test_each_state_does_what_is_known_of_it():
    """Half as slow again, 15, 25, 35, 45 ms are 22.5, 37.5, 52.5, 67.5: behind 2, 3, 4, 4 references."""
    found = replayed()
    assert found["healthy"] | {"state": ""} == {
        "state": "", "groups": 8, "shift": 0.0, "service_std": 0.0, "sign_flips": 0.0, "masked_share": 0.0,
        "update_cosine": pytest.approx(1.0), "reproduced": 1.0,
    }  # fmt: skip
    assert found["slow_50"]["shift"] == pytest.approx(-0.25 * 3 / 4)
    assert found["slow_50"]["service_std"] == pytest.approx(0.0, abs=1e-6)
    before, after = (np.array(part) - np.mean(part) for part in ([0.75, 0.5, 0.25, 0.0], [0.5, 0.25, 0.0, 0.0]))
    cosine = before @ after / np.linalg.norm(before) / np.linalg.norm(after)
    assert found["slow_50"]["update_cosine"] == pytest.approx(cosine, abs=1e-5)
    assert found["added_5_50_ms"]["service_std"] > 0.05
    assert found["burst_quarantined"]["masked_share"] > found["faults_discarded"]["masked_share"] >= 0.0


def test_rollouts_of_other_problems_or_suites_take_no_part():
    assert replayed([row | {"problem": "another"} for row in rows()]) == {}
    assert replayed([row | {"status": [0], "duration_s": [0.1]} for row in rows()]) == {}


def test_a_run_without_dataset_or_settings_says_what_would_fill_the_section(tmp_path, caplog):
    planted_journal.write_journal(tmp_path / "run")
    study = Study([], [], (), (100.0,), runs=(tmp_path / "run", tmp_path / "absent"))
    assert "whose dataset is there" in service_states.service_states(study).missing
    assert "its rollouts are not replayed" in caplog.text
    (tmp_path / "run" / "job.json").write_text("{")
    assert "whose dataset is there" in service_states.service_states(study).missing
