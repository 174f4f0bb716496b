"""Edge: an actor of an asynchronous GRPO run, in a process or on a host of its own.

`python -m optimrl_jax.actor --config=configs/X.py --learner=tcp://host:port --workdir=D`, with the configuration of the
learner (`--config.sandbox...` may differ). It may be started before the learner, survives the learner's restarts, and
ends with the run.
"""

import os
import signal
import sys

import jax

from optimrl_jax import train
from optimrl_jax.actors import messages
from optimrl_jax.actors.rollout_worker import RemoteLearner, RolloutWorker
from optimrl_jax.actors.rpc import RpcClient
from optimrl_jax.distributed.placement import Placement
from optimrl_jax.jobs.command_line import Job, run_job
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model.adapters import frozen_base
from optimrl_jax.rollout import execution
from optimrl_jax.training import workdir

OPTIONS = {
    "learner": "tcp://host:port of the learner",
    "name": "name of this actor in the learner's log; host and process by default",
    "parent": "process whose end ends this actor too; set by a learner that starts actors itself",
}


def main(job: Job) -> None:
    """Work for the learner until its run has ended.

    Raises:
      UserError: if no learner answers in time, or it runs another job.
    """
    address, parent = job.options["learner"], job.options["parent"]
    if not address:
        raise UserError("--learner = '': expected tcp://host:port, the actors.listen of a learner")
    workdir.reuse_compiled_programs(job.workdir)
    task = train.prepare(job, mesh=None)
    client = RpcClient(address, patience_s=job.settings.actors.patience_s)
    remote_learner = RemoteLearner(
        client,
        name=job.options["name"] or f"{os.uname().nodename}-{os.getpid()}",
        job=messages.job_id(job.settings, task.records, task.policy.tokenizer),
        like=frozen_base(task.policy.params, task.policy.settings),
        placement=Placement(tuple(jax.local_devices())),
        heartbeat_s=job.settings.actors.heartbeat_s,
        on_beat=lambda: _end_without(int(parent)) if parent else None,
    )
    with execution.connect_sandbox(job.settings.sandbox) as client, task.open_journal(job.workdir) as rollout_journal:
        executor = execution.Executor(client, job.settings.sandbox, uses_own_limits=task.judge.uses_own_limits)
        RolloutWorker(task.new_actor(executor, rollout_journal), remote_learner).run()
    remote_learner.close()


def _end_without(parent: int) -> None:
    """End this process if the learner that started it is gone: a new learner starts its own actors."""
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(run_job(main, options=OPTIONS))
