"""Edge: the loop of an actor: lease an item, sample it, and have the item before executed and judged meanwhile.

It works for a `LearnerInterface`, which is the learner of the same process or one reached by RPC. An actor keeps no
state that matters: a lost one is replaced and its leases are issued again.
"""

import concurrent.futures
import contextlib
import threading
import time
import typing
from collections.abc import Callable, Collection, Iterator, Mapping

import numpy as np

from optimrl_jax.actors.rpc import RpcClient
from optimrl_jax.actors.work_queue import RunEndedError, WorkItem
from optimrl_jax.distributed import codec
from optimrl_jax.distributed.placement import Placement
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model import decoder
from optimrl_jax.rollout.actor import Actor, SampledBatch
from optimrl_jax.rollout.groups import Group, stack_groups

PAUSE_S = 0.05
Weights = tuple[int, decoder.Params]


class RestartedError(RuntimeError):
    """The learner was restarted: what was sampled for its earlier start is refused."""


class _SupersededError(RuntimeError):
    """The weights that were being fetched have been replaced."""


class LearnerInterface(typing.Protocol):
    """What an actor needs of the learner; each method may raise RunEndedError or RestartedError."""

    def next_item(self, *, in_flight: Collection[int], idle_s: float) -> WorkItem | None:
        """Lease the next item; return None after a short wait without one.

        Args:
          in_flight: batches that the actor still works on.
          idle_s: seconds that the actor has waited since it last asked.
        """

    def weights(self) -> Weights | None:
        """Fetch the newest weights with their version; None if the actor has them already."""

    def submit(self, work: WorkItem, groups: list[Group], timings: dict[str, float]) -> None:
        """Deliver the groups of an item, one for each problem, with the seconds that its parts took."""


class RolloutWorker:
    """Runs one actor for its learner; at most two items are under way: one is sampled while the other is judged.

    Args:
      actor: samples and judges.
      learner: gives items and weights, takes groups.
    """

    def __init__(self, actor: Actor, learner: LearnerInterface) -> None:
        self._actor = actor
        self._learner = learner
        self._judging: concurrent.futures.Future[None] | None = None
        self._in_flight: set[int] = set()
        self._idle_s = 0.0

    def run(self) -> None:
        """Work until the run ends; items under way are then dropped.

        Raises:
          UserError: if the learner is lost or refuses, or sampling fails for a reason that the user can fix.
        """
        threads = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="judging")
        with contextlib.suppress(RunEndedError), threads:
            while True:
                try:
                    self._turn(threads)
                except RestartedError:
                    self._forget()

    def _turn(self, threads: concurrent.futures.ThreadPoolExecutor) -> None:
        work = self._next_work()
        self._in_flight.add(work.batch)
        if newest := self._learner.weights():
            version, params = newest
            self._actor.update_weights(params, version)
        timings: dict[str, float] = {}
        sampled = self._actor.generate(work.problems, batch=work.batch, timings=timings)
        started_s = time.monotonic()
        self._settle()
        self._idle_s += time.monotonic() - started_s
        self._judging = threads.submit(self._judge, work, sampled, timings)

    def _next_work(self) -> WorkItem:
        started_s, idle_s = time.monotonic(), self._idle_s
        while True:
            work = self._learner.next_item(in_flight=sorted(self._in_flight), idle_s=idle_s)
            self._idle_s = 0.0
            if work is not None:
                return work
            if self._judging is not None and self._judging.done():
                self._settle()
            idle_s, started_s = time.monotonic() - started_s, time.monotonic()

    def _judge(self, work: WorkItem, sampled: SampledBatch, timings: dict[str, float]) -> None:
        self._learner.submit(work, self._actor.judge(sampled, timings=timings), timings)
        self._in_flight.discard(work.batch)

    def _settle(self) -> None:
        """Wait for the item that is being judged and raise whatever went wrong with it."""
        judging, self._judging = self._judging, None
        if judging is not None:
            judging.result()

    def _forget(self) -> None:
        with contextlib.suppress(RestartedError):
            self._settle()
        self._in_flight.clear()


class RemoteLearner:
    """A `LearnerInterface` over RPC. It survives restarts of the learner and tells one start from another.

    Args:
      client: the connection.
      name: of this actor, in the learner's log.
      job: identity of the job (`messages.job_id`), on which both sides must agree.
      like: a policy of the right shapes and types.
      placement: where received weights are to live.
      heartbeat_s: seconds between signs of life.
      on_beat: called before each of them, in another thread.

    Raises:
      UserError: if the learner runs another job, or none answers in time.
    """

    def __init__(
        self,
        client: RpcClient,
        *,
        name: str,
        job: str,
        like: decoder.Params,
        placement: Placement,
        heartbeat_s: float,
        on_beat: Callable[[], None],
    ) -> None:
        self._client = client
        self._name = name
        self._job = job
        self._like = like
        self._placement = placement
        self._has: tuple[str, int] | None = None
        self._ends = threading.Event()
        self._run = self._greet()
        beats = threading.Thread(target=self._beat, args=(heartbeat_s, on_beat), name="heartbeat", daemon=True)
        beats.start()

    def next_item(self, *, in_flight: Collection[int], idle_s: float) -> WorkItem | None:
        """Ask the learner for an item, pausing a moment where there is none; see `LearnerInterface`."""
        answer = self._call("work", self._run, in_flight=list(in_flight), idle_s=idle_s)
        if answer.kind == "wait":
            time.sleep(PAUSE_S)
            return None
        return WorkItem(answer.metadata["batch"], tuple(answer.metadata["problems"]), self._run)

    def weights(self) -> Weights | None:
        """Fetch the newest weights onto the placement, part by part; None if they are those of the last call.

        Each part is a call with its own patience, and each parameter moves on to its devices as soon as it is whole.
        Where the learner no longer has the version of the first part, all are fetched again, of the newest; while it
        copies the next version in the place of the last one, this waits.

        Raises:
          MessageError: if they have another shape than the policy.
        """
        run = self._run
        known = self._has[1] if self._has and self._has[0] == run else -1
        while (first := self._call("weights", run, has=known, part=0, version=-1)).kind != "same":
            if first.kind == "wait":
                time.sleep(PAUSE_S)
                continue
            with contextlib.suppress(_SupersededError):
                parts = codec.join_arrays(self._parts(first, run), self._like)
                params = self._placement.put_each(parts, self._like)
                version = first.metadata["version"]
                self._has = (run, version)
                return version, params
        return None

    def _parts(self, first: codec.WireMessage, run: str) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the parts of a version of the weights, fetching all but the first.

        Raises:
          _SupersededError: if the learner no longer has it.
        """
        yield first.arrays
        version = first.metadata["version"]
        for number in range(1, first.metadata["parts"]):
            answer = self._call("weights", run, has=-1, part=number, version=version)
            if answer.kind == "wait" or answer.metadata["version"] != version:
                raise _SupersededError
            yield answer.arrays

    def submit(self, work: WorkItem, groups: list[Group], timings: dict[str, float]) -> None:
        """Send the groups of an item to the start of the learner that leased it.

        Raises:
          RestartedError: if the learner was restarted since; the groups are refused.
          RunEndedError: after the last step.
        """
        self._call("groups", work.run, arrays=stack_groups(groups), batch=work.batch, timings=timings)

    def close(self) -> None:
        """Stop the heartbeat and end open calls."""
        self._ends.set()
        self._client.close()

    def _greet(self) -> str:
        return self._client.call("hello", {"actor": self._name, "job": self._job}).metadata["run"]

    def _call(self, kind: str, run: str, *, arrays: dict | None = None, **metadata: typing.Any) -> codec.WireMessage:
        answer = self._client.call(kind, {"actor": self._name, "run": run, **metadata}, arrays)
        if answer.kind == "restarted":
            self._run = self._greet()
            raise RestartedError("the learner was started again")
        if answer.kind == "ended":
            raise RunEndedError("the run has ended")
        return answer

    def _beat(self, heartbeat_s: float, on_beat: Callable[[], None]) -> None:
        # A lost learner fails the actor's own calls as well, which report it.
        with contextlib.suppress(UserError):
            while not self._ends.wait(heartbeat_s):
                on_beat()
                self._client.call("alive", {"actor": self._name, "run": self._run})
