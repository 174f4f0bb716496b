"""One of two processes that make steps together, each with one device.

`python -m tests.optimrl_jax.distributed.sharer INDEX COORDINATOR SFT`: starts the SFT job of the settings SFT twice,
and GRPO jobs twice, by turns and with actors beside the learner. In the end the second process is killed.
"""

import dataclasses
import json
import os
import pathlib
import signal
import sys
import typing
import zlib

import jax

from optimrl_jax.distributed import multihost
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.settings import CheckpointSettings, EvaluationSettings, MeshSettings, ProcessSettings, Settings
from sandbox.protocol import Verdict
from tests.optimrl_jax.grpo.groups import SETTINGS

# Small steps: where a gradient is about 0, Adam takes either sign, and no sampled token may depend on which.
TURNS = {"count": 0, "ahead": 1, "broadcast_every": 2, "checkpoint_every": 1, "learning_rate": 1e-3}
BESIDE = {"count": 2, "ahead": 1, "checkpoint_every": 1}
# All of them: the first one holds the gradients of the first step.
KEPT = CheckpointSettings(keep=0)


def supervise(own: Settings) -> None:
    from optimrl_jax import sft
    from optimrl_jax.jobs.command_line import Job

    for steps in (2, 4):
        recipe = dataclasses.replace(own.sft, steps=steps)
        sft.main(Job(settings=dataclasses.replace(own, sft=recipe), workdir=pathlib.Path("sft")))


def verdict(program: str) -> tuple[Verdict, float]:
    """Wrong or right by the text alone."""
    return (Verdict.WRONG_OUTPUT, Verdict.SUCCESS)[zlib.crc32(program.encode()) % 2], 1.0


def held_out(directory: pathlib.Path, own: Settings) -> typing.Any:
    """What evaluates while training goes on: a problem for each process, as many samples as there are rollouts."""
    from optimrl_jax.evaluation.held_out.during_training import HeldOutEvaluation
    from tests.optimrl_jax.evaluation.service import StandInService
    from tests.optimrl_jax.grpo.stored import MODEL, RECORDS, TOKENIZER

    evaluation = EvaluationSettings(every=3, samples=own.grpo.rollouts, ks=(1,), taus=(100,), resamples=20)
    client = StandInService(0.01, judges=verdict).client(pass_store="")
    settings = dataclasses.replace(own, evaluation=evaluation)
    return HeldOutEvaluation(RECORDS[:2], MODEL, TOKENIZER, settings=settings, client=client, workdir=directory)


def reinforce(shared: dict) -> None:
    """Three steps, then the fourth of a second start; those by turns are evaluated meanwhile."""
    from tests.optimrl_jax.actors import job

    learner: job.Trail | None = None
    for steps in (3, 4):
        turns, beside = (
            dataclasses.replace(job.settings_of(steps=steps, **grpo), **shared) for grpo in (TURNS, BESIDE)
        )
        # One for all starts, because it compiles; whatever it has learned, a start takes up its own checkpoint.
        learner = learner or job.Trail(job.POLICY.params, job.MODEL, turns)
        learner.step, learner.directory = 0, multihost.process_directory(pathlib.Path("turns"))
        directory = pathlib.Path("turns")
        evaluated = held_out(directory, turns)
        job.sync_loop(directory, turns, learner=learner, held_out=evaluated, kept=KEPT).run()
        learner.step = 0
        job.training(pathlib.Path("beside"), beside, learner=learner)[0].run()


def main(index: int, coordinator: str, supervised: dict) -> None:
    shared = {"mesh": MeshSettings(1, 2, 1), "processes": ProcessSettings(2, index, coordinator)}
    with multihost.distributed_session(dataclasses.replace(SETTINGS, **shared), shared=("actors.count",)):
        assert multihost.process_index_and_count() == (index, 2)
        assert jax.device_count() == 2
        supervise(dataclasses.replace(freeze(Settings, supervised), **shared))
        reinforce(shared)
        if index:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
