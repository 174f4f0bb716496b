"""AsyncRollouts runs: bounded staleness, nothing lost and nothing repeated, whoever ends in the middle."""

import jax
import pytest

from optimrl_jax.actors.endpoint import LocalLearner
from optimrl_jax.actors.supervisor import ActorsLostError
from optimrl_jax.distributed.placement import Placement
from optimrl_jax.jobs.errors import SettingsError, UserError
from optimrl_jax.rollout.groups import unstack_groups
from tests.optimrl_jax.actors import job
from tests.optimrl_jax.grpo.stored import Stopped, StoredExecutor

PROBLEMS = job.SETTINGS.grpo.problems


def test_actors_in_threads_feed_every_step_once_and_report_how_they_did(tmp_path):
    training, _ = job.training(tmp_path, job.settings_of(count=2, item_problems=2))
    training.run()
    job.assert_each_once(job.trained(tmp_path), count=6)
    rows = job.metrics(tmp_path)
    # Handed out and not yet trained are at most (0 + 1) * 2 + 2 actors * 2 groups: three steps of two groups.
    assert max(row["staleness_max"] for row in rows) <= 3
    assert {row["actors"] for row in rows} == {2}
    assert all(0 <= row["actor_idle_share"] <= 1 and row["learner_idle_s"] >= 0 for row in rows)
    assert sum(row["lost_actors"] + row["repeated_groups"] + row["faults"] for row in rows) == 0


def test_a_stopped_run_goes_on_with_what_was_queued_and_unfinished(tmp_path):
    settings = job.settings_of(ahead=1, checkpoint_every=1)
    with pytest.raises(Stopped):
        job.training(tmp_path, settings, stops_at=2)[0].run()
    training, source = job.training(tmp_path, settings)
    arrays, metadata = source.state(step=2)
    (metadata,) = metadata["shares"]
    waiting = {group.id for group in unstack_groups(arrays["queue"])} if arrays["queue"] else set()
    again = {(batch, place) for batch, problems in metadata["unfinished"] for place in range(len(problems))}
    before = {one for ids in job.trained(tmp_path) for one in ids}
    # What was handed out before the stop is trained, waits, or is handed out again, and is in one of these places only.
    assert len(before) + len(waiting) + len(again) == len(before | waiting | again) == metadata["batch"] * PROBLEMS
    training.run()
    steps = job.trained(tmp_path)
    job.assert_each_once(steps, count=6)
    assert waiting | again <= {one for ids in steps for one in ids}


def test_rollouts_that_are_too_old_are_dropped_and_replaced_by_fresh_ones(tmp_path):
    training, source = job.training(tmp_path, job.settings_of(max_staleness=1, ahead=3))
    own = LocalLearner(source.work_queue, source.weight_store, name="slow", placement=Placement((jax.devices()[0],)))
    work, slow = own.next_item(in_flight=(), idle_s=0.0), job.actor(job.settings_of())
    slow.version = -5
    own.submit(work, slow.produce(work.problems, batch=work.batch, timings={}), {})
    training.run()
    rows = job.metrics(tmp_path)
    assert (rows[0]["stale_groups"], rows[0]["stale_share"]) == (2, 0.5)
    assert max(row["staleness_max"] for row in rows) <= 1
    job.assert_each_once(job.trained(tmp_path), count=6)
    assert (0, 0) not in {one for ids in job.trained(tmp_path) for one in ids}


def test_an_actor_that_fails_is_replaced_and_its_problems_come_back(tmp_path):
    executor = StoredExecutor(stops_at=2)
    settings = job.settings_of()
    training, _ = job.training(tmp_path, settings, new_actor=lambda: job.actor(settings, executor))
    training.run()
    steps = job.trained(tmp_path)
    job.assert_each_once(steps, count=6)
    assert {batch for ids in steps for batch, _ in ids} == set(range(6))
    assert job.metrics(tmp_path)[-1]["lost_actors"] == 1


def test_actors_that_always_fail_end_the_run(tmp_path):
    class Broken(StoredExecutor):
        def execute(self, *_, **__):
            raise Stopped

    settings = job.settings_of()
    training, _ = job.training(tmp_path, settings, new_actor=lambda: job.actor(settings, Broken()))
    with pytest.raises(ActorsLostError, match="5 actors were lost one after the other; the last by Stopped"):
        training.run()


def test_a_learner_without_actors_waits_no_longer_than_its_patience(tmp_path):
    training, _ = job.training(tmp_path, job.settings_of(live_in="elsewhere", patience_s=0.5))
    with pytest.raises(UserError, match=r"actors\.patience_s = 0\.5: expected a rollout within that time"):
        training.run()


def test_broadcasts_rarer_than_freshness_allows_are_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"grpo\.broadcast_every = 4: expected at most grpo\.max_staleness \+ 1"):
        job.training(tmp_path, job.settings_of(broadcast_every=4, max_staleness=2))


def test_a_run_sync_loop_and_an_asynchronous_one_do_not_share_a_workdir(tmp_path):
    settings = job.settings_of()
    with pytest.raises(Stopped):
        job.training(tmp_path, settings, stops_at=3)[0].run()
    with pytest.raises(UserError, match=r"actors\.count = 0: expected at least 1"):
        job.sync_loop(tmp_path, settings)
