"""Edge: the GRPO job: from an SFT policy to a faster one; goes on from its last checkpoint when started again.

`python -m optimrl_jax.train --config=configs/quickstart.py --workdir=runs/quickstart/grpo`
"""

import logging
import sys

from optimrl_jax import execution
from optimrl_jax.commands import Job, UserError, run_job
from optimrl_jax.data import dataset, prompts, stream
from optimrl_jax.learner import checkpoints, judging, workdir
from optimrl_jax.learner.actor import Actor
from optimrl_jax.learner.learner import Learner
from optimrl_jax.learner.loop import Loop
from optimrl_jax.learner.update import DivergedError
from optimrl_jax.model import pretrained
from optimrl_jax.settings import DataSettings, Settings

_LOG = logging.getLogger(__name__)


def main(job: Job) -> None:
    """Trains the policy of `grpo.init_from` and leaves checkpoints, metrics and `summary.json` in the workdir."""
    settings = job.settings
    if not settings.grpo.init_from:
        raise UserError("grpo.init_from = '': expected the workdir of an SFT job, or weights")
    workdir.reuse_compiled_programs(job.workdir)
    policy = _policy(settings)
    records = fitting(dataset.load(settings.data.directory, settings.data.train_split), policy, settings.data)
    workdir.write_model(job.workdir, policy.settings)
    policy.tokenizer.save(job.workdir)
    try:
        judge = judging.Judge(records, settings)
    except ValueError as error:
        raise UserError(str(error)) from None
    with execution.connect(settings.sandbox, store=str(job.workdir / "executions.sqlite")) as client:
        executor = execution.Executor(client, settings.sandbox)
        loop = Loop(
            Actor(policy, records, executor, judge=judge, settings=settings),
            Learner(policy.params, policy.settings, settings),
            stream=stream.problems(range(len(records)), batch=settings.grpo.problems, seed=settings.seed),
            workdir=job.workdir,
            settings=settings.grpo,
        )
        try:
            figures = loop.run()
        except DivergedError as error:
            raise UserError(f"grpo.learning_rate = {settings.grpo.learning_rate}: {error}") from None
    workdir.finish(job.workdir, "GRPO", figures, settings=settings)


def _policy(settings: Settings) -> checkpoints.Policy:
    """The policy to start from: what a job left, or published weights as they are."""
    source = settings.grpo.init_from
    if not pretrained.is_named(source):
        return checkpoints.load_policy(source)
    found = pretrained.load(source, settings.model)
    return checkpoints.Policy(found.params, found.settings, found.tokenizer)


def fitting(
    records: list[dataset.ProblemRecord], policy: checkpoints.Policy, data: DataSettings
) -> list[dataset.ProblemRecord]:
    """The problems whose prompt fits `data.prompt_tokens`; the others are counted in the log."""
    lengths = [len(prompts.prompt(policy.tokenizer, record.statement)) for record in records]
    kept = [record for record, length in zip(records, lengths, strict=True) if length <= data.prompt_tokens]
    if not kept:
        raise UserError(f"data.prompt_tokens = {data.prompt_tokens}: expected at least {min(lengths)}")
    if len(kept) < len(records):
        _LOG.warning("%d of %d problems have too long a prompt", len(records) - len(kept), len(records))
    return kept


if __name__ == "__main__":
    sys.exit(run_job(main))
