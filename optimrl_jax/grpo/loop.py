"""Edge: the GRPO loop: groups come from a supply, the learner takes a step, weights go back, all resumable.

Everything that the next step depends on is in a checkpoint: weights, moments, and the state of the supply. `Loop` runs
with a supply in which the actor takes turns with the learner; `actors.coordinator` has the one in which it does not.
"""

import logging
import pathlib
import time
import typing

import grain
import jax
import jax.numpy as jnp
import numpy as np

from optimrl_jax.distributed import multihost
from optimrl_jax.errors import UserError
from optimrl_jax.grpo.learner import Learner
from optimrl_jax.model import decoder
from optimrl_jax.rollout import groups as groups_lib
from optimrl_jax.rollout.actor import Actor
from optimrl_jax.rollout.groups import Group, RolloutQueue
from optimrl_jax.settings import GrpoSettings
from optimrl_jax.training import checkpoints
from optimrl_jax.training import workdir as workdir_lib

_LOG = logging.getLogger(__name__)
# Both ends of the queue are in one thread here: waiting could never help.
NO_WAIT_S = 0.0


class Supply(typing.Protocol):
    """Where the groups of a run come from. `state` and `restore` take trees of arrays and plain facts."""

    def take(self, *, step: int) -> tuple[list[Group], dict[str, float]]:
        """The groups of one step that are this process's (`processes.own_places`), and how they came about."""

    def receive(self, params: decoder.Params, version: int) -> None:
        """Weights for the rollouts from now on; the caller's buffers are donated afterwards, so they are copied.

        Called by all processes at the same step: the weights may lie on the devices of all of them.
        """

    def state(self, *, step: int) -> tuple[dict[str, typing.Any], dict[str, typing.Any]]: ...

    def restore(self, arrays: dict[str, typing.Any], facts: dict[str, typing.Any]) -> None: ...

    def close(self) -> None: ...


class Training:
    """A supply and a learner, with their common state on disk.

    Of several processes, each has a supply of its own, which gives its share of the groups of a step, and all learn
    from all of them. `measured_under` names the calibrations of the dataset's durations; a run that goes on under
    others says so.
    """

    def __init__(
        self,
        supply: Supply,
        learner: Learner,
        *,
        workdir: pathlib.Path,
        settings: GrpoSettings,
        measured_under: typing.Sequence[str] = (),
    ) -> None:
        self._supply = supply
        self._learner = learner
        self._settings = settings
        self._measured_under = sorted(measured_under)
        self._checkpoints = checkpoints.Checkpoints(workdir)
        self._stopwatch = workdir_lib.Stopwatch(self._restore())
        self._metrics = workdir_lib.Metrics(multihost.own_directory(workdir), first_step=learner.step)

    def run(self) -> dict[str, float]:
        """Goes on to the last step and returns the figures of the job.

        Raises UserError where the last checkpoint cannot be written.
        """
        figures: dict[str, float] = {}
        try:
            while self._learner.step < self._settings.steps:
                figures = self._step()
                step = self._learner.step
                self._metrics.write(step - 1, figures)
                _LOG.info("%s", _line(step, self._settings.steps, figures))
                if step % self._settings.checkpoint_every == 0 or step == self._settings.steps:
                    self._save()
        finally:
            self._supply.close()
            self._checkpoints.wait()
        self._metrics.close()
        self._checkpoints.close()
        return {"steps": self._learner.step, "wall_s": self._stopwatch.wall_s(), **figures}

    def _step(self) -> dict[str, float]:
        started_s = time.monotonic()
        groups, supplied = self._supply.take(step=self._learner.step)
        groups = of_all(groups)
        learn_s = time.monotonic()
        figures = self._learner.learn(groups)
        if self._learner.step % self._settings.broadcast_every == 0:
            self._supply.receive(self._learner.trainer.state.params, self._learner.step)
        now_s = time.monotonic()
        sampled = sum(int(group.rollouts.is_completion.sum()) for group in groups)
        timings = {"update_s": now_s - learn_s, "step_s": now_s - started_s}
        return {**figures, **supplied, **timings, "tokens_per_s": sampled / timings["step_s"]}

    def _save(self) -> None:
        arrays, facts = self._supply.state(step=self._learner.step)
        trainer = self._learner.trainer
        own = {
            "skipped_in_a_row": trainer.skipped_in_a_row,
            "wall_s": self._stopwatch.wall_s(),
            "measured_under": self._measured_under,
        }
        self._checkpoints.save(self._learner.step, {**checkpoints.trees_of(trainer.state), **arrays}, {**facts, **own})

    def _restore(self) -> float:
        """Takes up the newest checkpoint; returns the seconds that earlier starts took."""
        trainer = self._learner.trainer
        targets = checkpoints.targets_of(trainer.state)
        others = {"actor": targets["params"], "queue": None}
        restored = self._checkpoints.restore({**targets, **others}, optional=others)
        if restored is None:
            return 0.0
        arrays, facts = restored.arrays, restored.facts
        trainer.state = checkpoints.state_of(arrays)
        trainer.skipped_in_a_row = facts["skipped_in_a_row"]
        self._learner.step = restored.step
        self._supply.restore(arrays, facts)
        _LOG.info("going on from the checkpoint of step %d", restored.step)
        if facts.get("measured_under", self._measured_under) != self._measured_under:
            _LOG.warning("durations were measured anew since that checkpoint: rewards before and after it differ")
        return facts["wall_s"]


class Synchronous:
    """The actor fills the queue, then the learner empties it: nothing depends on how fast either is.

    `stream` gives the problems of a whole step. Each of several processes takes those at its own places, and samples
    for them what one process would have sampled.
    """

    def __init__(self, actor: Actor, *, stream: grain.DatasetIterator, settings: GrpoSettings) -> None:
        self._actor = actor
        self._stream = stream
        self._settings = settings
        self._queue = RolloutQueue((settings.ahead + 1) * settings.problems)
        self._batch = 0

    def take(self, *, step: int) -> tuple[list[Group], dict[str, float]]:
        timings: dict[str, float] = {}
        while self._batch <= step + self._settings.ahead:
            problems, places = next(self._stream), multihost.own_places(self._batch, self._settings.problems)
            own = [problems[place] for place in places]
            if own:
                for group in self._actor.produce(own, batch=self._batch, timings=timings, places=places):
                    self._queue.put(group, timeout_s=NO_WAIT_S)
            self._batch += 1
        wanted = len(multihost.own_places(step, self._settings.problems))
        groups = [self._queue.take(timeout_s=NO_WAIT_S) for _ in range(wanted)]
        return groups, {**timings, "queue_depth": len(self._queue)}

    def receive(self, params: decoder.Params, version: int) -> None:
        self._actor.receive(jax.tree.map(jnp.copy, multihost.own_copy(params)), version=version)

    def state(self, *, step: int) -> tuple[dict[str, typing.Any], dict[str, typing.Any]]:
        lags = self._actor.version != step
        waiting = [part.arrays for part in multihost.states_of_all(self._queue.contents() or {}, {})]
        actor = multihost.known_to_all(self._actor.params) if lags else None
        facts = {"batch": self._batch, "stream": self._stream.get_state(), "version": self._actor.version}
        return {"actor": actor, "queue": groups_lib.appended(waiting)}, facts

    def restore(self, arrays: dict[str, typing.Any], facts: dict[str, typing.Any]) -> None:
        if "shares" in facts:
            raise UserError("grpo.actors = 0: expected at least 1, as in the checkpoints of this workdir")
        self.receive(arrays.get("actor") or arrays["params"], facts["version"])
        self._queue.restore(self._own(arrays.get("queue")))
        self._batch = facts["batch"]
        self._stream.set_state(facts["stream"])

    def _own(self, contents: dict[str, np.ndarray] | None) -> dict[str, np.ndarray] | None:
        """The groups of this process, oldest first, whatever number of processes had them."""
        if contents is None:
            return None
        batch, place = np.asarray(contents["batch"]), np.asarray(contents["place"])
        is_own = np.array(
            [p in multihost.own_places(b, self._settings.problems) for b, p in zip(batch, place, strict=True)]
        )
        order = np.lexsort((place, batch))
        return groups_lib.chosen(contents, order[is_own[order]])

    def close(self) -> None:
        """Holds nothing that outlives it."""


class Loop(Training):
    """Actor and learner by turns, as `grpo.actors = 0` asks for."""

    def __init__(
        self, actor: Actor, learner: Learner, *, stream: grain.DatasetIterator, settings: GrpoSettings, **others
    ) -> None:
        supply = Synchronous(actor, stream=stream, settings=settings)
        super().__init__(supply, learner, settings=settings, **others)


def of_all(groups: list[Group]) -> list[Group]:
    """The groups that all processes bring, the same in each of them and in the order of their work."""
    if multihost.part()[1] == 1:
        return groups
    brought = multihost.states_of_all(groups_lib.stacked(groups) if groups else {}, {})
    found = groups_lib.unstacked(groups_lib.appended([one.arrays for one in brought]))
    return sorted(found, key=lambda group: group.id)


def _line(step: int, steps: int, figures: dict[str, typing.Any]) -> str:
    percent = {name: 100 * figures[f"{name}_share"] for name in ("correct", "fast", "zero_advantage")}
    return (
        f"step {step}/{steps}  reward {figures['reward']:.3f}  correct {percent['correct']:.0f} %  "
        f"fast {percent['fast']:.0f} %  no signal {percent['zero_advantage']:.0f} %  faults {figures['faults']}  "
        f"{figures['step_s']:.1f} s"
    )
