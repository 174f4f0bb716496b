"""One of two processes that make steps together, each with one device.

`python -m tests.optimrl_jax.learner.sharer INDEX COORDINATOR SFT`: takes GRPO steps with groups of its own, runs the
SFT job of the settings SFT twice, GRPO jobs with a shared supply twice, and is then lost or loses the other.
"""

import dataclasses
import json
import os
import pathlib
import signal
import sys

import jax
import numpy as np
from jax.experimental import multihost_utils

from optimrl_jax.learner import processes
from optimrl_jax.settings import MeshSettings, ProcessSettings, Settings, freeze
from tests.optimrl_jax.learner.groups import SETTINGS

AHEAD = {"actors": 0, "ahead": 1, "broadcast_every": 2}
BESIDE = {"actors": 2, "ahead": 1, "checkpoint_every": 1}


def everything(params) -> list[np.ndarray]:
    return jax.tree.leaves(multihost_utils.process_allgather(params, tiled=True))


def learn(index: int, own: Settings) -> None:
    from optimrl_jax.learner.learner import Learner
    from tests.optimrl_jax.learner.groups import copied_params, group
    from tests.optimrl_jax.model import tiny

    learner = Learner(copied_params(), tiny.SETTINGS, own)
    first = learner.learn([group(index, reward=(1, -1, 0, 1))])
    # The second process has nothing to teach in this step, and none of them in the last.
    second = learner.learn([group(2 + index, reward=(1, -1, -1, -1) if index == 0 else (1, 1, 1, 1))])
    third = learner.learn([group(4, reward=(1, 1, 1, 1))])
    assert (second["updated"], third["updated"]) == (1.0, 0.0)
    assert (second["zero_advantage_share"], third["dropped_groups"]) == (0.5, 2)
    np.savez(f"{index}.npz", *everything(learner.trainer.state.params), norm=first["grad_norm"])


def supervise(own: Settings) -> None:
    from optimrl_jax import sft
    from optimrl_jax.commands import Job

    for steps in (2, 4):
        recipe = dataclasses.replace(own.sft, steps=steps)
        sft.main(Job(settings=dataclasses.replace(own, sft=recipe), workdir=pathlib.Path("sft")))


def reinforce(index: int, shared: dict) -> None:
    """By turns and with actors beside the learner: three steps, then the fourth of a second start."""
    from tests.optimrl_jax.learner import job

    for steps in (3, 4):
        loop = job.by_turns(pathlib.Path("turns"), dataclasses.replace(job.settings_of(steps=steps, **AHEAD), **shared))
        loop.run()
        own = dataclasses.replace(job.settings_of(steps=steps, **BESIDE), **shared)
        training, _ = job.training(pathlib.Path("beside"), own)
        training.run()
    np.savez(f"turns_{index}.npz", *everything(loop._learner.trainer.state.params))


def main(index: int, coordinator: str, supervised: dict) -> None:
    shared = {"mesh": MeshSettings(1, 2, 1), "processes": ProcessSettings(2, index, coordinator)}
    own = dataclasses.replace(SETTINGS, **shared)
    with processes.joined(own, shared=("grpo.problems",)):
        assert processes.part() == (index, 2)
        assert jax.device_count() == 2
        learn(index, own)
        supervise(dataclasses.replace(freeze(Settings, supervised), **shared))
        reinforce(index, shared)
        if index:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
