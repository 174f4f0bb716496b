"""Edge: the rollout source of an asynchronous run: actors sample while the learner learns.

Theory of operation
-------------------

    stream of problems -> WorkQueue --lease--> actor: sample -> execute -> reward --complete--> WorkQueue -> learner
                                                 ^                                                              |
                                                 +------- WeightStore <------- publish, every K steps ----------+

The learner process owns the `WorkQueue` (which problems are leased to whom, which groups wait) and the `WeightStore`
(the newest weights). An actor asks for a work item, takes newer weights if there are any, samples the item's problems,
and submits one group a problem; while the sandbox judges one item, it samples the next. Actors are threads of this
process (`LocalLearner`), processes that it starts, or processes that the user starts anywhere (`RemoteLearner` over
RPC, answered by `LearnerService`). A group that is too old when the learner takes it is dropped and counted (App. G.2,
"Training pipeline"). A lease reserves a place in the queue, so a full queue keeps actors from starting what would
only grow stale (App. F, Figure 45, "Bounded queue").

Who may die, and when:

- An actor, at any moment. Its leases go back to the front of the queue, and a thread or process that this learner
  started is replaced by `ActorSupervisor`. An actor over RPC counts as dead after `BEATS_MISSED` silent heartbeats. If
  it was only slow, its late answer still counts, unless another actor was faster: each item is completed once.
- The learner. Actors elsewhere ask on for `patience_s`. The restarted learner goes on from its last checkpoint, which
  holds the waiting groups, the unfinished items and the position in the stream; it has a new run id, so rollouts that
  were sampled for the earlier start are refused and their items leased again.
- The network. A lost request or answer is sent again; every request may arrive twice without harm.

Where several processes learn together, each has a queue, problems and actors of its own; only the groups of a step are
exchanged, and weights are published by all of them at the same step.
"""

import collections
import logging
import math
import time
import typing
from collections.abc import Callable, Sequence

import grain
import numpy as np

from optimrl_jax.actors.endpoint import LearnerService, LocalLearner
from optimrl_jax.actors.rollout_worker import RolloutWorker
from optimrl_jax.actors.rpc import RpcServer
from optimrl_jax.actors.supervisor import ActorHandle, ActorSupervisor, ProcessActor, ThreadActor
from optimrl_jax.actors.weight_store import WeightStore, on_devices_of
from optimrl_jax.actors.work_queue import WorkQueue
from optimrl_jax.distributed import multihost
from optimrl_jax.distributed.placement import Devices, Placement
from optimrl_jax.jobs.errors import SettingsError, UserError
from optimrl_jax.model import decoder
from optimrl_jax.rollout import groups as groups_lib
from optimrl_jax.rollout.actor import Actor
from optimrl_jax.rollout.groups import Group, QueueTimeoutError
from optimrl_jax.settings import Settings

_LOG = logging.getLogger(__name__)
CHECK_S = 0.2
TELL_S = 30.0
BEATS_MISSED = 3


class AsyncRollouts:
    """A `grpo.loop.RolloutSource` whose groups come from actors that work on their own; see the module's docstring.

    Args:
      params: the policy to start from; published as version 0.
      stream: yields the index of one problem at a time.
      settings: those of the whole job, of which this process has its share.
      vocabulary: number of token ids, to check groups from elsewhere.
      job: identity of the job (`messages.job_id`), to turn actors of other jobs away.
      devices: the devices of each actor thread of this process; empty where actors are not threads.
      new_actor: builds an actor for a thread.
      command: (name, address) -> command line of an actor process.
      to_policy: from what is trained to the weights of the policy; None where they are the same.

    Attributes:
      work_queue: leases problems and holds the groups that wait.
      weight_store: the newest weights.

    Raises:
      SettingsError: if weights would be published so rarely that no rollout could be fresh enough.
    """

    def __init__(
        self,
        params: decoder.Params,
        *,
        stream: grain.DatasetIterator,
        settings: Settings,
        vocabulary: int,
        job: str,
        devices: tuple[Devices, ...],
        new_actor: Callable[[], Actor],
        command: Callable[[str, str], list[str]],
        to_policy: Callable[[decoder.Params], decoder.Params] | None = None,
    ) -> None:
        grpo, actors = settings.grpo, settings.actors
        self._grpo, self._actors = grpo, actors
        if grpo.broadcast_every > grpo.max_staleness + 1:
            raise SettingsError(
                f"grpo.broadcast_every = {grpo.broadcast_every}: expected at most grpo.max_staleness + 1, "
                "or no rollout would be fresh enough"
            )
        share = multihost.per_process(settings)
        item_problems = actors.item_problems or math.ceil(share.grpo.problems / share.actors.count)
        self.work_queue = WorkQueue(
            stream,
            item_problems=item_problems,
            max_unfinished=(grpo.ahead + 1) * share.grpo.problems + share.actors.count * item_problems,
            process=multihost.process_index_and_count(),
        )
        has_threads = actors.live_in == "threads"
        serves_remote = not has_threads or bool(actors.listen)
        self._to_policy = to_policy
        self._placements = [Placement(actor_devices) for actor_devices in devices] if has_threads else []
        self.weight_store = WeightStore(self._placements, for_remote=serves_remote)
        self.update_weights(params, 0)
        self._service = LearnerService(
            self.work_queue, self.weight_store, settings=settings, vocabulary=vocabulary, job=job
        )
        self._serves_remote = serves_remote
        self._server: RpcServer | None = None
        self._new_actor = new_actor
        self._command = command
        spawners: dict[str, Callable[[str, int], ActorHandle]] = {"threads": self._thread, "processes": self._process}
        self._supervisor = ActorSupervisor(
            spawners.get(actors.live_in, self._thread),
            size=0 if actors.live_in == "elsewhere" else share.actors.count,
            on_failure=self.work_queue.requeue,
        )
        self._before: dict[str, float] = {}
        # Groups that steps have taken so far, over all processes, and what came about since the last figures.
        self._taken = 0
        self._since: collections.Counter[str] = collections.Counter()
        self._taken_s = time.monotonic()

    @property
    def address(self) -> str:
        """Where actors of other processes connect, tcp://host:port; empty until the first `take`, or where none may."""
        return self._server.address if self._server else ""

    def take(self, *, step: int, number: int) -> list[Group]:
        """Take this process's share of the next groups, dropping stale ones; the first call lets actors in.

        Args:
          step: optimizer steps taken so far.
          number: groups wanted, over all processes.

        Raises:
          UserError: if no rollout comes within `actors.patience_s`, or an actor fails for a reason that the user can
            fix.
          ActorsLostError: if actor after actor fails.
        """
        self._open()
        started_s = time.monotonic()
        fresh: list[Group] = []
        own, self._taken = multihost.count_own(self._taken, number), self._taken + number
        while len(fresh) < own:
            group = self._next()
            if groups_lib.staleness(group, step=step) > self._grpo.max_staleness:
                self._since.update(stale=1)
            else:
                fresh.append(group)
        self._since.update({"taken": len(fresh), "idle_s": time.monotonic() - started_s})
        return fresh

    def give_back(self, groups: Sequence[Group], *, number: int) -> None:
        """Put this process's part of the last `number` taken groups back at the head of the queue."""
        self._taken -= number
        self._since.update(taken=-len(groups))
        for group in reversed(groups):
            self.work_queue.give_back(group)

    def update_weights(self, params: decoder.Params, version: int) -> None:
        """Publish a copy of the weights to all actors."""
        policy = self._to_policy(params) if self._to_policy else params
        self.weight_store.publish(multihost.process_copy(policy), version)

    def state(self, *, step: int) -> tuple[dict[str, typing.Any], dict[str, typing.Any]]:
        """Return the waiting groups of all processes, and their unfinished items and positions in the stream."""
        contents, metadata = self.work_queue.state()
        shares = multihost.all_gather_states(contents or {}, metadata)
        waiting = groups_lib.concatenate_groups([share.arrays for share in shares])
        own = {"shares": [share.metadata for share in shares], "version": step, "taken": self._taken}
        return {"queue": waiting}, own

    def restore(self, arrays: dict[str, typing.Any], metadata: dict[str, typing.Any]) -> None:
        """Go on where `state` was taken.

        Raises:
          UserError: if the checkpoint is one of a synchronous run, or of another number of processes.
        """
        if "shares" not in metadata:
            raise UserError(f"actors.count = {self._actors.count}: expected 0, as in the checkpoints of this workdir")
        (index, sharers), shares = multihost.process_index_and_count(), metadata["shares"]
        if len(shares) != sharers:
            raise UserError(
                f"processes.count = {sharers}: expected {len(shares)}, as in the checkpoints of this workdir"
            )
        waiting = arrays.get("queue")
        if waiting is not None:
            waiting = groups_lib.select_groups(waiting, np.flatnonzero(np.asarray(waiting["batch"]) % sharers == index))
        self.work_queue.restore(waiting, shares[index])
        self._taken = metadata.get("taken", 0)
        self.update_weights(arrays["params"], metadata["version"])

    def close(self) -> None:
        """End the run: tell all actors so, and stop those that were started here."""
        self.work_queue.close()
        self._supervisor.stop()
        if self._server:
            ends_s = time.monotonic() + min(TELL_S, BEATS_MISSED * self._actors.heartbeat_s)
            while self._service.present() and time.monotonic() < ends_s:
                time.sleep(CHECK_S)
                self._service.silent(after_s=BEATS_MISSED * self._actors.heartbeat_s)
            self._server.close()

    def _open(self) -> None:
        """Let actors in, once.

        Not before a checkpoint is restored: they would sample for a state that is then replaced.
        """
        if self._serves_remote and self._server is None:
            self._server = RpcServer(self._actors.listen, self._service.answer)
        if not len(self._supervisor):
            self._supervisor.start()

    def _next(self) -> Group:
        """Wait for the next group and replace failed actors meanwhile."""
        started_s = told_s = time.monotonic()
        while True:
            self._check_actors()
            try:
                return self.work_queue.take(timeout_s=CHECK_S)
            except QueueTimeoutError:
                now_s = time.monotonic()
            if now_s - started_s > self._actors.patience_s:
                raise UserError(f"actors.patience_s = {self._actors.patience_s}: expected a rollout within that time")
            if now_s - told_s > TELL_S:
                told_s = now_s
                _LOG.info("no rollout for %.0f s: %d actors at %s", now_s - started_s, self._present(), self.address)

    def _check_actors(self) -> None:
        silent = self._service.silent(after_s=BEATS_MISSED * self._actors.heartbeat_s)
        supervised = self._supervisor.names()
        for name in silent:
            if name not in supervised:
                _LOG.warning("%s is silent: %d problems queued again", name, self.work_queue.requeue(name))
        self._supervisor.check(silent=silent, answered=self.work_queue.counts["answered_groups"])

    def figures(self) -> dict[str, float]:
        """Return seconds of the actors' work, idle shares and losses since the last call.

        Counts of lost actors and refused work are since this start.
        """
        own, self._since = self._since, collections.Counter()
        now_s = time.monotonic()
        counts = {name: float(count) for name, count in self.work_queue.counts.items()}
        since = {name: counts.get(name, 0.0) - self._before.get(name, 0.0) for name in counts}
        elapsed_s, self._taken_s, self._before = now_s - self._taken_s, now_s, counts
        actor_s = max(elapsed_s * max(1, self._present()), 1e-9)
        return {
            **{name: since.get(name, 0.0) for name in ("generate_s", "execute_s", "judge_s")},
            "queue_depth": len(self.work_queue),
            "stale_share": own["stale"] / max(1, own["taken"] + own["stale"]),
            "stale_groups": own["stale"],
            "learner_idle_s": float(own["idle_s"]),
            "actor_idle_share": min(1.0, since.get("idle_s", 0.0) / actor_s),
            "actors": self._present(),
            "lost_actors": self._supervisor.lost,
            "repeated_groups": counts.get("repeated_groups", 0),
            "rejected_groups": counts.get("rejected_groups", 0),
            "refused_messages": self._server.refused if self._server else 0,
        }

    def _present(self) -> int:
        return self._service.present() + (len(self._supervisor) if self._placements else 0)

    def _thread(self, name: str, place: int) -> ActorHandle:
        placement = self._placements[place % len(self._placements)]
        learner = LocalLearner(self.work_queue, self.weight_store, name=name, placement=placement)

        def work() -> None:
            with on_devices_of(placement):
                RolloutWorker(self._new_actor(), learner).run()

        return ThreadActor(name, work)

    def _process(self, name: str, _: int) -> ActorHandle:
        return ProcessActor(name, self._command(name, self.address))
