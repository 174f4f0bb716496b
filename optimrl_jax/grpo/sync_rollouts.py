"""Edge: the synchronous rollout source: actor and learner take turns in one thread, on the devices of the process."""

import functools
import typing
from collections.abc import Sequence

import grain
import jax
import jax.numpy as jnp
import numpy as np

from optimrl_jax.distributed import multihost
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model import decoder
from optimrl_jax.rollout import groups as groups_lib
from optimrl_jax.rollout.actor import Actor
from optimrl_jax.rollout.groups import Group, RolloutQueue
from optimrl_jax.settings import GrpoSettings
from optimrl_jax.training import adaptation

# Both ends of the queue are in one thread here: waiting could never help.
NO_WAIT_S = 0.0


class SyncRollouts:
    """A rollout source in which actor and learner take turns: no result depends on how fast either is.

    The actor fills a queue of `grpo.ahead + 1` batches, then the learner takes of them what a step needs. Each of
    several processes takes the problems at its own places and samples for them what a single process would have
    sampled.

    Args:
      actor: samples and judges in this thread.
      stream: yields the problem indices of a whole step.
      settings: the recipe.
      to_policy: from what is trained to the weights of the policy; None where they are the same.
    """

    def __init__(
        self,
        actor: Actor,
        *,
        stream: grain.DatasetIterator,
        settings: GrpoSettings,
        to_policy: adaptation.ToPolicy | None = None,
    ) -> None:
        self._actor = actor
        self._to_policy = to_policy
        self._sent: decoder.Params = {}
        self._stream = stream
        self._settings = settings
        self._queue = RolloutQueue((settings.ahead + 1) * settings.problems)
        self._batch = 0
        # Groups that steps have taken so far, over all processes.
        self._taken = 0
        self._timings: dict[str, float] = {}

    def take(self, *, step: int, number: int) -> list[Group]:
        """Sample up to `grpo.ahead` batches beyond what is taken, then take this process's share of `number` groups."""
        del step
        own, self._taken = multihost.count_own(self._taken, number), self._taken + number
        while self._batch * self._settings.problems < self._taken + self._settings.ahead * self._settings.problems:
            problems, places = next(self._stream), multihost.process_places(self._batch, self._settings.problems)
            if places:
                process_problems = [problems[place] for place in places]
                produce = functools.partial(self._actor.produce, batch=self._batch, timings=self._timings)
                for group in produce(process_problems, places=places):
                    self._queue.put(group, timeout_s=NO_WAIT_S)
            self._batch += 1
        return [self._queue.take(timeout_s=NO_WAIT_S) for _ in range(own)]

    def give_back(self, groups: Sequence[Group], *, number: int) -> None:
        """Put this process's part of the last `number` taken groups back at the head of the queue."""
        self._taken -= number
        for group in reversed(groups):
            self._queue.give_back(group)

    def figures(self) -> dict[str, float]:
        """Return the seconds of sampling, execution and judging since the last call, and how many groups wait."""
        timings, self._timings = self._timings, {}
        return {**timings, "queue_depth": len(self._queue)}

    def update_weights(self, params: decoder.Params, version: int) -> None:
        """Give the actor a copy of the weights, on the devices of this process."""
        if self._to_policy is None:
            self._sent = policy = jax.tree.map(jnp.copy, multihost.process_copy(params))
        else:
            policy = multihost.process_copy(self._to_policy(params))
            # Only weights that lag behind the learner's are ever stored.
            self._sent = jax.tree.map(jnp.copy, params) if self._settings.broadcast_every > 1 else {}
        self._actor.update_weights(policy, version=version)

    def state(self, *, step: int) -> tuple[dict[str, typing.Any], dict[str, typing.Any]]:
        """Return what `restore` needs to go on.

        Waiting groups of all processes, the actor's weights where they lag behind the learner's, and the stream's
        position.
        """
        lags = self._actor.version != step
        waiting = [part.arrays for part in multihost.all_gather_states(self._queue.contents() or {}, {})]
        actor = multihost.to_host_replicated(self._sent) if lags else None
        metadata = {"batch": self._batch, "stream": self._stream.get_state(), "version": self._actor.version}
        return {"actor": actor, "queue": groups_lib.concatenate_groups(waiting)}, metadata

    def restore(self, arrays: dict[str, typing.Any], metadata: dict[str, typing.Any]) -> None:
        """Go on where `state` was taken, with any number of processes.

        Raises:
          UserError: if the checkpoint is one of an asynchronous run.
        """
        if "shares" in metadata:
            raise UserError("actors.count = 0: expected at least 1, as in the checkpoints of this workdir")
        self.update_weights(arrays.get("actor") or arrays["params"], metadata["version"])
        waiting = arrays.get("queue")
        self._queue.restore(self._process_groups(waiting))
        self._batch = metadata["batch"]
        self._taken = self._batch * self._settings.problems - (0 if waiting is None else len(waiting["batch"]))
        self._stream.set_state(metadata["stream"])

    def _process_groups(self, contents: dict[str, np.ndarray] | None) -> dict[str, np.ndarray] | None:
        """Pick the groups of this process, oldest first, whatever number of processes saved them."""
        if contents is None:
            return None
        batch, place = np.asarray(contents["batch"]), np.asarray(contents["place"])
        is_own = np.array(
            [p in multihost.process_places(b, self._settings.problems) for b, p in zip(batch, place, strict=True)]
        )
        order = np.lexsort((place, batch))
        return groups_lib.select_groups(contents, order[is_own[order]])

    def close(self) -> None:
        """Do nothing: the actor lives in this thread."""
