"""A small asynchronous job over stub executions, in the process of a test or in one of its own.

`python -m tests.optimrl_jax.actors.job learner|actor DIRECTORY ADDRESS NAME`: what such a process does is written to
DIRECTORY, so that a test can kill it at any moment and still know.
"""

import dataclasses
import functools
import json
import logging
import os
import pathlib
import subprocess
import sys

import jax

from optimrl_jax.actors.coordinator import AsyncRollouts
from optimrl_jax.actors.rollout_worker import RemoteLearner, RolloutWorker
from optimrl_jax.actors.rpc import RpcClient
from optimrl_jax.data import stream
from optimrl_jax.distributed import multihost
from optimrl_jax.distributed.placement import Placement
from optimrl_jax.grpo.loop import EvaluatesPolicy, Learner, TrainingLoop
from optimrl_jax.grpo.sync_rollouts import SyncRollouts
from optimrl_jax.rollout import rewarder
from optimrl_jax.rollout.actor import Actor
from optimrl_jax.settings import ActorSettings, CheckpointSettings, Settings
from optimrl_jax.training import checkpoints, workdir
from tests.optimrl_jax.grpo.groups import SETTINGS
from tests.optimrl_jax.grpo.stored import DATA, MODEL, POLICY, RECORDS, Stopped, StoredExecutor

ROOT = pathlib.Path(__file__).parents[3]
TRAINED_FILE = "trained.jsonl"
JOB = "a job"


def settings_of(**changes) -> Settings:
    """Quick to notice a loss; every test changes what it is about."""
    quick = {"count": 1, "checkpoint_every": 2, "heartbeat_s": 0.5, "patience_s": 60.0}
    actors = {field.name for field in dataclasses.fields(ActorSettings)}
    values = quick | changes
    return dataclasses.replace(
        SETTINGS,
        data=DATA,
        grpo=dataclasses.replace(SETTINGS.grpo, **{name: values[name] for name in values.keys() - actors}),
        actors=ActorSettings(**{name: values[name] for name in values.keys() & actors}),
    )


@functools.cache
def judge() -> rewarder.Rewarder:
    """Of all runs: no test changes what programs earn."""
    return rewarder.Rewarder(RECORDS, settings_of())


class Trail(Learner):
    """Writes down which groups each step was given, before it takes them; stops instead of the step `stops_at`."""

    directory: pathlib.Path
    stops_at = -1

    def learn(self, groups, *, replayed=()):
        if self.step == self.stops_at:
            raise Stopped
        line = json.dumps({"step": self.step, "ids": [group.id for group in groups], "process": os.getpid()})
        with (self.directory / TRAINED_FILE).open("a") as file:
            file.write(f"{line}\n")
        return super().learn(groups, replayed=replayed)


def actor(settings: Settings, executor=None) -> Actor:
    return Actor(POLICY, RECORDS, executor or StoredExecutor(), judge=judge(), settings=settings)


def training(
    directory: pathlib.Path,
    settings: Settings,
    *,
    new_actor=None,
    stops_at: int = -1,
    learner: Trail | None = None,
    held_out: EvaluatesPolicy | None = None,
) -> tuple[TrainingLoop, AsyncRollouts]:
    """The run of `settings` with its own directory, and its source: of several processes, this one's."""
    directory.mkdir(exist_ok=True)
    learner = learner or Trail(POLICY.params, MODEL, settings)
    learner.directory, learner.stops_at = multihost.process_directory(directory), stops_at
    source = AsyncRollouts(
        learner.trainer.state.params,
        stream=stream.problem_stream(range(len(RECORDS)), seed=0, part=multihost.process_index_and_count()),
        settings=settings,
        vocabulary=MODEL.vocabulary,
        job=JOB,
        devices=((jax.local_devices()[0],),) * multihost.per_process(settings).actors.count,
        new_actor=new_actor or (lambda: actor(settings)),
        command=lambda name, address: command("actor", directory, address, name),
    )
    return TrainingLoop(source, learner, workdir=directory, settings=settings.grpo, held_out=held_out), source


def sync_loop(
    directory: pathlib.Path,
    settings: Settings,
    executor=None,
    *,
    learner: Learner | None = None,
    held_out: EvaluatesPolicy | None = None,
    kept: CheckpointSettings = checkpoints.KEEP_TWO,
) -> TrainingLoop:
    """The same job with one actor that takes turns with the learner."""
    directory.mkdir(exist_ok=True)
    problems = stream.problem_batches(range(len(RECORDS)), batch=settings.grpo.problems, seed=0)
    source = SyncRollouts(actor(settings, executor), stream=problems, settings=settings.grpo)
    learner = learner or Learner(POLICY.params, MODEL, settings)
    return TrainingLoop(source, learner, workdir=directory, settings=settings.grpo, held_out=held_out, kept=kept)


def remote_learner(
    address: str, settings: Settings, *, name: str, answer_s: float = 0.5, job: str = JOB
) -> RemoteLearner:
    client = RpcClient(address, patience_s=settings.actors.patience_s, answer_s=answer_s)
    return RemoteLearner(
        client,
        name=name,
        job=job,
        like=POLICY.params,
        placement=Placement((jax.devices()[0],)),
        heartbeat_s=settings.actors.heartbeat_s,
        on_beat=lambda: None,
    )


def trained(directory: pathlib.Path) -> list[list[tuple[int, int]]]:
    """The ids of the groups of each step; of steps that were repeated after a kill, those of the last time."""
    rows = [json.loads(line) for line in (directory / TRAINED_FILE).read_text().splitlines()]
    steps = {row["step"]: [tuple(one) for one in row["ids"]] for row in rows}
    return [steps[step] for step in sorted(steps)]


def assert_each_once(steps: list[list[tuple[int, int]]], *, count: int) -> None:
    """Hold that `count` steps were given their number of groups, and none of these twice."""
    ids = [group for step in steps for group in step]
    assert len(ids) == len(set(ids)) == count * SETTINGS.grpo.problems


def metrics(directory: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in (directory / workdir.METRICS_FILE).read_text().splitlines()]


def command(role: str, directory: pathlib.Path, address: str, name: str) -> list[str]:
    return [sys.executable, "-m", "tests.optimrl_jax.actors.job", role, str(directory), address, name]


def start(role: str, directory: pathlib.Path, address: str, name: str) -> subprocess.Popen:
    return subprocess.Popen(command(role, directory, address, name), cwd=ROOT, stderr=subprocess.DEVNULL)


def main(role: str, directory: pathlib.Path, address: str, name: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    settings = settings_of(live_in="elsewhere", listen=address)
    if role == "learner":
        training(directory, settings)[0].run()
        return
    (directory / f"{name}.pid").write_text(str(os.getpid()))
    RolloutWorker(actor(settings), remote_learner(address, settings, name=name)).run()


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]), *sys.argv[3:])
