"""What runs long can be killed at any moment: an actor, the learner, the sandbox, the disk, and a gradient."""

import contextlib
import errno
import logging
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from optimrl_jax.actors.rollout_worker import RolloutWorker
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.rollout import execution
from optimrl_jax.rollout.actor import Actor, Sampler
from optimrl_jax.settings import SandboxSettings
from optimrl_jax.training import checkpoints
from optimrl_jax.training.trainer import DivergedError
from sandbox.service import remote
from tests.optimrl_jax.actors import job
from tests.optimrl_jax.grpo.stored import DATA, POLICY, StoredExecutor
from tests.sandbox.servers import start_server

WAIT_S = 120
DOUBLE = "print(2 * int(input()))"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The folder of all runs of this module."""
    return tmp_path_factory.mktemp("jobs")


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def wait_until(holds) -> None:
    ends_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < ends_s
        time.sleep(0.02)


def steps_done(directory: pathlib.Path) -> int:
    return len(job.trained(directory)) if (directory / job.TRAINED_FILE).exists() else 0


def test_an_actor_process_that_is_killed_is_replaced_and_nothing_is_lost(shared):
    directory = shared / "actor"
    training, _ = job.training(directory, job.settings_of(live_in="processes"))
    killed = threading.Thread(target=kill_first_actor, args=(directory,))
    killed.start()
    training.run()
    killed.join()
    steps = job.trained(directory)
    job.assert_each_once(steps, count=6)
    assert {batch for ids in steps for batch, _ in ids} == set(range(6))
    assert job.metrics(directory)[-1]["lost_actors"] == 1
    assert (directory / "actor-0.1.pid").exists()


def kill_first_actor(directory: pathlib.Path) -> None:
    wait_until(lambda: steps_done(directory) >= 2)
    os.kill(int((directory / "actor-0.pid").read_text()), signal.SIGKILL)


def test_a_learner_that_is_killed_goes_on_with_the_same_actor_and_nothing_is_lost(shared):
    directory, address = shared / "learner", free_address()
    directory.mkdir()
    settings = job.settings_of(live_in="elsewhere")
    first = job.start("learner", directory, address, "")
    remote_learner = job.remote_learner(address, settings, name="outlives", answer_s=0.5)
    executor = StoredExecutor()
    worker = threading.Thread(target=RolloutWorker(job.actor(settings, executor), remote_learner).run)
    worker.start()
    # The checkpoint of step 2 is complete, and later steps are lost with the learner.
    wait_until(lambda: (directory / checkpoints.FOLDER / "2").exists() and steps_done(directory) >= 3)
    first.kill()
    first.wait()
    second = job.start("learner", directory, address, "")
    assert second.wait(WAIT_S) == 0
    worker.join(WAIT_S)
    assert not worker.is_alive()
    remote_learner.close()
    job.assert_each_once(job.trained(directory), count=6)
    assert [row["step"] for row in job.metrics(directory)] == list(range(6))


def test_a_sandbox_that_is_killed_gives_faults_and_no_rewards_until_it_is_back(shared, monkeypatch):
    monkeypatch.setattr(remote, "FIRST_PAUSE_S", 0.0005)
    monkeypatch.setattr(remote, "LONGEST_PAUSE_S", 0.01)
    port = int(free_address().rsplit(":", 1)[1])
    running = [start_server(port)]
    sandbox = SandboxSettings(address=f"http://127.0.0.1:{port}", limit_s=2.0, reuse="never")

    class KillsAndStarts(execution.Executor):
        """The second call loses the server in the middle, the third has none, the fourth a new one."""

        calls = 0

        def execute(self, attempts, **options):
            self.calls += 1
            if self.calls == 2:
                threading.Timer(0.05, running[0].send_signal, [signal.SIGKILL]).start()
                slow = f"import time\ntime.sleep(0.5)\n{DOUBLE}"
                return super().execute([(record, slow) for record, _ in attempts], **options)
            if self.calls == 4:
                running.append(start_server(port))
            return super().execute([(record, DOUBLE) for record, _ in attempts], **options)

    with contextlib.ExitStack() as stack:
        stack.callback(lambda: [server.kill() for server in running])
        client = stack.enter_context(execution.connect_sandbox(sandbox, pass_store=str(shared / "unused")))
        job.sync_loop(shared / "sandbox", job.settings_of(), KillsAndStarts(client, sandbox)).run()
    rows = job.metrics(shared / "sandbox")
    rollouts = job.SETTINGS.grpo.problems * job.SETTINGS.grpo.rollouts
    assert [row["faults"] for row in rows] == [0, rollouts, rollouts, 0, 0, 0]
    for row in rows:
        # All programs are right: what was not judged counts neither as right nor as wrong.
        expected = (0, 0, 0) if row["faults"] else (1, 0, 1)
        assert (row["correct_share"], row["updated"], row["zero_advantage_share"]) == pytest.approx(expected, abs=1e-6)


class Poisoned(Actor):
    """Its log-probabilities are not numbers, from the second call on."""

    def judge(self, sampled, *, timings):
        groups = super().judge(sampled, timings=timings)
        if sampled.batch < 1:
            return groups
        wrong = np.full_like(groups[0].rollouts.log_prob, np.nan)
        earned = np.linspace(-1, 1, len(groups[0].reward), dtype=np.float32)
        return [g._replace(rollouts=g.rollouts._replace(log_prob=wrong), reward=earned) for g in groups]


def test_gradients_that_are_not_numbers_are_skipped_counted_and_end_the_run(shared, monkeypatch):
    monkeypatch.setattr(job, "Actor", Poisoned)
    with pytest.raises(DivergedError, match="3 updates in a row had no finite gradient"):
        job.sync_loop(shared / "poisoned", job.settings_of(most_skipped=3, checkpoint_every=1)).run()
    assert [row["updated"] for row in job.metrics(shared / "poisoned")][1:] == [0, 0]
    # The count is part of the checkpoint: a start again does not get three more.
    with pytest.raises(DivergedError, match="3 updates in a row"):
        job.sync_loop(shared / "poisoned", job.settings_of(most_skipped=3, checkpoint_every=1)).run()
    assert len(job.metrics(shared / "poisoned")) == 3


def full_disk(monkeypatch, *, at: tuple[int, ...]) -> None:
    save = ocp.CheckpointManager.save

    def saved(self, step, *args, **options):
        if step in at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return save(self, step, *args, **options)

    monkeypatch.setattr(ocp.CheckpointManager, "save", saved)


def test_a_disk_that_is_full_for_a_while_costs_a_checkpoint_and_not_the_run(shared, monkeypatch, caplog):
    full_disk(monkeypatch, at=(2, 4))
    with caplog.at_level(logging.WARNING):
        job.sync_loop(shared / "full", job.settings_of()).run()
    lines = [record.getMessage() for record in caplog.records if "checkpoint" in record.getMessage()]
    assert lines == [
        f"checkpoint {step} cannot be written, the next one is tried again: no space left on the disk"
        for step in (2, 4)
    ]
    assert [path.name for path in (shared / "full" / checkpoints.FOLDER).iterdir()] == ["6"]
    assert len(job.metrics(shared / "full")) == 6


def test_a_last_checkpoint_that_cannot_be_written_is_a_mistake_that_the_user_can_mend(shared, monkeypatch):
    full_disk(monkeypatch, at=(6,))
    with pytest.raises(UserError, match=r"expected room for the last checkpoint \(checkpoint 6: no space left"):
        job.sync_loop(shared / "last", job.settings_of()).run()
    assert sorted(path.name for path in (shared / "last" / checkpoints.FOLDER).iterdir()) == ["2", "4"]


@pytest.fixture
def small_disk(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(tmp_path)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a disk of its own needs the right to mount")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_real_disk_that_fills_up_keeps_the_checkpoints_before_and_takes_new_ones_later(small_disk):
    weights = {"params": {"a": jnp.asarray(np.random.default_rng(0).normal(size=(300, 300)), jnp.float32)}}
    store, filler = checkpoints.Checkpoints(small_disk), small_disk / "filler"
    kept = []
    for step in range(1, 6):
        if step == 3:
            room = os.statvfs(small_disk)
            filler.write_bytes(bytes(room.f_bavail * room.f_frsize - 100_000))
        if step == 5:
            filler.unlink()
        store.save(step, weights, {"step": step})
        store.wait()
        kept.append(sorted(path.name for path in (small_disk / checkpoints.FOLDER).iterdir() if path.name.isdigit()))
    store.close()
    assert kept == [["1"], ["1", "2"], ["1", "2"], ["1", "2"], ["2", "5"]]


def test_a_checkpoint_holds_the_weights_of_its_step_although_training_goes_on(tmp_path):
    store, donated = checkpoints.Checkpoints(tmp_path), jnp.zeros((512, 512))
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    for step in (1, 2):
        store.save(step, {"params": {"a": donated}}, {})
        for _ in range(5):
            donated = add(donated)
    store.close()
    found = checkpoints.Checkpoints(tmp_path).restore({"params": None})
    assert np.unique(np.asarray(found.arrays["params"]["a"])).tolist() == [5]


def test_a_prompt_longer_than_the_context_is_named():
    with pytest.raises(UserError, match=rf"statement 1 has \d+ tokens: .* data.prompt_tokens = {DATA.prompt_tokens}"):
        Sampler(POLICY, DATA, 1.0).sample(["Read.", "Read a number. " * 40], 2, seed=0)
