"""Edge: the synchronous GRPO loop: the actor fills the queue, the learner empties it, weights go back, all resumable.

Everything that the next step depends on is in a checkpoint: weights, moments, the actor's weights where they lag, the
position in the data, the contents of the queue and the counters. Random streams are derived from the seed and those.
"""

import logging
import pathlib
import time
import typing

import grain
import jax
import jax.numpy as jnp

from optimrl_jax.learner import checkpoints
from optimrl_jax.learner import workdir as workdir_lib
from optimrl_jax.learner.actor import Actor
from optimrl_jax.learner.learner import Learner
from optimrl_jax.learner.queue import RolloutQueue
from optimrl_jax.settings import GrpoSettings

_LOG = logging.getLogger(__name__)
# Both ends of the queue are in one thread here: waiting could never help.
NO_WAIT_S = 0.0


class Loop:
    """Actor, learner and queue of one run, with their common state on disk."""

    def __init__(
        self,
        actor: Actor,
        learner: Learner,
        *,
        stream: grain.DatasetIterator,
        workdir: pathlib.Path,
        settings: GrpoSettings,
    ) -> None:
        self._actor = actor
        self._learner = learner
        self._stream = stream
        self._settings = settings
        self._queue = RolloutQueue((settings.ahead + 1) * settings.problems)
        self._batch = 0
        self._checkpoints = checkpoints.Checkpoints(workdir)
        self._stopwatch = workdir_lib.Stopwatch(self._restore())
        self._metrics = workdir_lib.Metrics(workdir, first_step=learner.step)

    def run(self) -> dict[str, float]:
        """Goes on to the last step and returns the figures of the job."""
        figures: dict[str, float] = {}
        while self._learner.step < self._settings.steps:
            figures = self._step()
            step = self._learner.step
            self._metrics.write(step - 1, figures)
            _LOG.info("%s", _line(step, self._settings.steps, figures))
            if step % self._settings.checkpoint_every == 0 or step == self._settings.steps:
                self._save()
        self._metrics.close()
        self._checkpoints.close()
        return {"steps": self._learner.step, "wall_s": self._stopwatch.wall_s(), **figures}

    def _step(self) -> dict[str, float]:
        started_s = time.monotonic()
        timings: dict[str, float] = {}
        while len(self._queue) < (self._settings.ahead + 1) * self._settings.problems:
            problems = next(self._stream)
            for group in self._actor.produce(problems, batch=self._batch, timings=timings):
                self._queue.put(group, timeout_s=NO_WAIT_S)
            self._batch += 1
        groups = [self._queue.take(timeout_s=NO_WAIT_S) for _ in range(self._settings.problems)]
        learn_s = time.monotonic()
        figures = self._learner.learn(groups)
        if self._learner.step % self._settings.broadcast_every == 0:
            # A copy: the next update donates the learner's own buffers.
            weights = jax.tree.map(jnp.copy, self._learner.trainer.state.params)
            self._actor.receive(weights, version=self._learner.step)
        now_s = time.monotonic()
        sampled = sum(int(group.rollouts.is_completion.sum()) for group in groups)
        timings |= {"update_s": now_s - learn_s, "step_s": now_s - started_s}
        return {**figures, **timings, "tokens_per_s": sampled / timings["step_s"], "queue_depth": len(self._queue)}

    def _save(self) -> None:
        lags = self._actor.version != self._learner.step
        arrays = {
            **checkpoints.trees_of(self._learner.trainer.state),
            "actor": self._actor.params if lags else None,
            "queue": self._queue.contents(),
        }
        facts = {
            "batch": self._batch,
            "stream": self._stream.get_state(),
            "version": self._actor.version,
            "skipped_in_a_row": self._learner.trainer.skipped_in_a_row,
            "wall_s": self._stopwatch.wall_s(),
        }
        self._checkpoints.save(self._learner.step, arrays, facts)

    def _restore(self) -> float:
        """Takes up the newest checkpoint; returns the seconds that earlier starts took."""
        trainer = self._learner.trainer
        targets = checkpoints.targets_of(trainer.state)
        restored = self._checkpoints.restore({**targets, "actor": None, "queue": None})
        if restored is None:
            return 0.0
        arrays, facts = restored.arrays, restored.facts
        trainer.state = checkpoints.state_of(arrays)
        trainer.skipped_in_a_row = facts["skipped_in_a_row"]
        self._learner.step = restored.step
        weights = arrays.get("actor") or arrays["params"]
        self._actor.receive(jax.tree.map(jnp.copy, weights), version=facts["version"])
        self._queue.restore(arrays.get("queue"))
        self._batch = facts["batch"]
        self._stream.set_state(facts["stream"])
        _LOG.info("going on from the checkpoint of step %d", restored.step)
        return facts["wall_s"]


def _line(step: int, steps: int, figures: dict[str, typing.Any]) -> str:
    percent = {name: 100 * figures[f"{name}_share"] for name in ("correct", "fast", "zero_advantage")}
    return (
        f"step {step}/{steps}  reward {figures['reward']:.3f}  correct {percent['correct']:.0f} %  "
        f"fast {percent['fast']:.0f} %  no signal {percent['zero_advantage']:.0f} %  faults {figures['faults']}  "
        f"{figures['step_s']:.1f} s"
    )
