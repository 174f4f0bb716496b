"""Stored rollouts under other service states: known shifts, masks, and what has to be there."""

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


def slower(row):
    """The rollout on a clock of twice the seconds and 2 ms: 32 ms there are 15 ms here."""
    seconds = [2 * second + 0.002 for second in row["duration_s"]]
    return row | {"duration_s": seconds, "drift_slope": 2.0, "drift_offset_s": 0.002}


def test_rewards_that_were_made_under_a_drift_are_reproduced():
    drifted = [slower(row) if row["sample"] % 2 else row for row in rows()]
    assert replayed(drifted)["healthy"] == replayed()["healthy"]
    assert replayed(drifted)["healthy"]["reproduced"] == 1
    # The slowest of four stays behind all references, whatever their clock.
    unknown = [row | {"drift_slope": 1.0, "drift_offset_s": 0.0} for row in drifted]
    assert replayed(unknown)["healthy"]["reproduced"] == 0.75


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
