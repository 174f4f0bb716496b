"""Edge: the GRPO job: from an SFT policy to a faster one; goes on from its last checkpoint when started again.

`python -m optimrl_jax.train --config=configs/quickstart.py --workdir=runs/quickstart/grpo`. With `processes.count` set,
each process samples, executes and judges its share of the problems, and all make one step.
"""

import contextlib
import dataclasses
import functools
import json
import logging
import os
import pathlib
import sys
from collections.abc import Callable

import jax

from optimrl_jax.actors import messages
from optimrl_jax.actors.coordinator import AsyncRollouts
from optimrl_jax.data import dataset, prompts, stream
from optimrl_jax.distributed import multihost, placement, sharding
from optimrl_jax.evaluation import plots
from optimrl_jax.evaluation.held_out.during_training import HeldOutEvaluation
from optimrl_jax.evaluation.held_out.problems import load_held_out
from optimrl_jax.grpo.loop import Learner, RolloutSource, TrainingLoop
from optimrl_jax.grpo.sync_rollouts import SyncRollouts
from optimrl_jax.jobs.command_line import Job, run_job
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.jobs.locks import locked_directory
from optimrl_jax.model.adapters import frozen_base
from optimrl_jax.model.pretrained import published
from optimrl_jax.planning import dry_run
from optimrl_jax.rollout import execution, journal, learned_pool, rewarder
from optimrl_jax.rollout import groups as groups_lib
from optimrl_jax.rollout.actor import Actor, Executes
from optimrl_jax.rollout.journal import RolloutJournal
from optimrl_jax.settings import DataSettings, Settings
from optimrl_jax.training import adaptation, checkpoints, metric_sinks, workdir
from optimrl_jax.training.trainer import DivergedError
from sandbox.client import Client

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """What the learner and the actors of a run have in common.

    Attributes:
      settings: those of the job.
      policy: the one they start from.
      records: the problems whose prompts fit.
      judge: computes rewards of these problems.
    """

    settings: Settings
    policy: checkpoints.Policy
    records: list[dataset.ProblemRecord]
    judge: rewarder.Rewarder

    def new_actor(self, executor: Executes, rollout_journal: RolloutJournal | None) -> Actor:
        """Build an actor that starts from the policy; its rollouts go into the journal, if there is one."""
        return Actor(
            self.policy,
            self.records,
            executor,
            judge=self.judge,
            settings=self.settings,
            rollout_journal=rollout_journal,
        )

    def without_weights(self) -> "Task":
        """Return the task with shapes in place of the policy's weights, for actors that are sent theirs."""
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), self.policy.params)
        return dataclasses.replace(self, policy=dataclasses.replace(self.policy, params=shapes))

    def open_journal(self, directory: pathlib.Path) -> contextlib.AbstractContextManager[RolloutJournal | None]:
        """Open the journal of this process as a context; None where `grpo.keeps_rollouts` is off."""
        if not self.settings.grpo.keeps_rollouts:
            return contextlib.nullcontext()
        return RolloutJournal(
            directory / journal.FOLDER,
            functools.partial(groups_lib.advantages, scale=self.settings.grpo.advantage_scale),
        )


def main(job: Job) -> None:
    """Train the policy of `grpo.init_from`; leave checkpoints, metrics and `summary.json` in the workdir.

    Raises:
      UserError: if something named in the settings is missing or does not fit, another job is at work in the workdir,
        or the run diverges.
    """
    with multihost.distributed_session(job.settings, shared=multihost.SHARED_IN_GRPO):
        own = multihost.process_directory(job.workdir)
        with locked_directory(own, field="--workdir"):
            _run(job, own=own)


def _run(job: Job, *, own: pathlib.Path) -> None:
    settings = job.settings
    workdir.claim_workdir(job.workdir, "train", settings)
    metric_sinks.check_sinks(settings.metrics)
    workdir.reuse_compiled_programs(job.workdir)
    task = prepare(job, mesh=sharding.build_mesh(settings.mesh, micro_rows=settings.data.micro_rows))
    workdir.write_model(own, task.policy.settings)
    if settings.lora.rank:
        step = checkpoints.step_of(settings.grpo.init_from)
        adaptation.write_base(own, settings.lora, settings.grpo.init_from, step, task.policy.params)
    task.policy.tokenizer.save(own)
    learner = Learner(task.policy.params, task.policy.settings, settings)
    # The learner has a copy of its own and sends it to the actors: the start policy need not stay in memory.
    task = task.without_weights()
    with execution.connect_sandbox(settings.sandbox) as client, task.open_journal(own) as rollout_journal:
        executor = execution.Executor(client, settings.sandbox, uses_own_limits=task.judge.uses_own_limits)
        new_actor = functools.partial(task.new_actor, executor, rollout_journal)
        supply = (_asynchronous if settings.actors.count else _synchronous)(job, task, learner, new_actor)
        held_out = _held_out(job, task, client)
        measured_under = {json.dumps(record.measured_under, sort_keys=True) for record in task.records}
        training = TrainingLoop(
            supply,
            learner,
            workdir=job.workdir,
            settings=settings.grpo,
            measured_under=sorted(measured_under),
            kept=settings.checkpoints,
            open_sinks=metric_sinks.sink_opener(settings),
            held_out=held_out,
        )
        try:
            figures = training.run()
        except DivergedError as error:
            raise UserError(f"grpo.learning_rate = {settings.grpo.learning_rate}: {error}") from None
    workdir.write_summary(own, "GRPO", figures, settings=settings)
    if held_out:
        plots.learning_curve(own / "learning_curve.png", own / workdir.METRICS_FILE)
        _print_scores(held_out)


def _held_out(job: Job, task: Task, client: Client) -> HeldOutEvaluation | None:
    """Build what evaluates the policy while it trains; None where `evaluation.every` asks for nothing."""
    settings, policy = job.settings, task.policy
    if not settings.evaluation.every:
        return None
    problems = fitting(load_held_out(settings), policy, settings.data)
    return HeldOutEvaluation(
        problems, policy.settings, policy.tokenizer, settings=settings, client=client, workdir=job.workdir
    )


def _print_scores(held_out: HeldOutEvaluation) -> None:
    found, gains = held_out.table()
    if found and not jax.process_index():
        plots.print_table(plots.pass_table(found, gains, title="held-out problems"))


def prepare(job: Job, *, mesh: jax.sharding.Mesh | None) -> Task:
    """Read policy and problems and build the judge.

    Args:
      job: its settings name the policy (`grpo.init_from`) and the dataset.
      mesh: where the policy's weights are placed; None reads only their shapes, for an actor that is sent its weights.

    Raises:
      UserError: if something does not exist or does not fit.
    """
    settings = job.settings
    if not settings.grpo.init_from:
        raise UserError("grpo.init_from = '': expected the workdir of an SFT job, or weights")
    policy = initial_policy(settings, mesh)
    if settings.lora.rank:
        policy = dataclasses.replace(policy, params=frozen_base(policy.params, policy.settings))
    records = fitting(dataset.load_records(settings.data.directory, settings.data.train_split), policy, settings.data)
    try:
        ranked = learned_pool.with_learned_references(records, settings.data.learned_references)
        judge = rewarder.Rewarder(ranked, settings)
    except ValueError as error:
        raise UserError(str(error)) from None
    return Task(settings, policy, records, judge)


def _synchronous(job: Job, task: Task, learner: Learner, new_actor: Callable[[], Actor]) -> RolloutSource:
    settings = job.settings
    problems = stream.problem_batches(range(len(task.records)), batch=settings.grpo.problems, seed=settings.seed)
    return SyncRollouts(new_actor(), stream=problems, settings=settings.grpo, to_policy=learner.to_policy)


def _asynchronous(job: Job, task: Task, learner: Learner, new_actor: Callable[[], Actor]) -> RolloutSource:
    settings, part = job.settings, multihost.process_index_and_count()

    def command(name: str, address: str) -> list[str]:
        directory = multihost.process_directory(job.workdir)
        more = [f"--learner={address}", f"--name={name}", f"--parent={os.getpid()}", f"--workdir={directory}"]
        return [sys.executable, "-m", "optimrl_jax.actor", *job.arguments, *more]

    def devices() -> tuple[placement.Devices, ...]:
        return placement.device_sets(
            jax.local_devices(), settings.mesh, multihost.per_process(settings).actors, sharers=part[1]
        )

    return AsyncRollouts(
        learner.trainer.state.params,
        stream=stream.problem_stream(range(len(task.records)), seed=settings.seed, part=part),
        settings=settings,
        vocabulary=task.policy.settings.vocabulary,
        job=messages.job_id(settings, task.records, task.policy.tokenizer),
        devices=devices() if settings.actors.live_in == "threads" else (),
        new_actor=new_actor,
        command=command,
        to_policy=learner.to_policy,
    )


def initial_policy(settings: Settings, mesh: jax.sharding.Mesh | None = None) -> checkpoints.Policy:
    """Load the policy to start from: what a job left, or published weights as they are.

    Args:
      settings: `grpo.init_from` names the policy.
      mesh: where its weights are placed; without one, those of a job are shapes alone.

    Raises:
      UserError: if there is no such policy.
    """
    source = settings.grpo.init_from
    if mesh is None and not published.names_published_weights(source):
        return checkpoints.load_policy_shape(source, settings.compute)
    return checkpoints.load_start(source, settings.compute, mesh=mesh)


def fitting(
    records: list[dataset.ProblemRecord], policy: checkpoints.Policy, data: DataSettings
) -> list[dataset.ProblemRecord]:
    """Select the problems whose prompt fits `data.prompt_tokens`; count the others in the log.

    Raises:
      UserError: if none fits.
    """
    lengths = [len(prompts.encode_prompt(policy.tokenizer, record.statement, data)) for record in records]
    kept = [record for record, length in zip(records, lengths, strict=True) if length <= data.prompt_tokens]
    if not kept:
        raise UserError(f"data.prompt_tokens = {data.prompt_tokens}: expected at least {min(lengths)}")
    if len(kept) < len(records):
        _LOG.warning("%d of %d problems have too long a prompt", len(records) - len(kept), len(records))
    return kept


if __name__ == "__main__":
    sys.exit(run_job(main, dry_run=dry_run.grpo))
