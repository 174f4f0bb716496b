"""Edge: an actor at work: asks for problems, samples them, and has the batch before judged in the meantime.

What it works for is a `Desk`: the learner's own in the same process, or one reached over the network. An actor keeps no
state that matters: one that is lost is replaced, and its work handed out again.
"""

import concurrent.futures
import contextlib
import threading
import time
import typing
from collections.abc import Callable, Collection

from optimrl_jax.actors.rpc import Asker
from optimrl_jax.actors.work_queue import RunEndedError, Work
from optimrl_jax.distributed import codec
from optimrl_jax.distributed.placement import Placement
from optimrl_jax.errors import UserError
from optimrl_jax.model import decoder
from optimrl_jax.rollout.actor import Actor, Sampled
from optimrl_jax.rollout.groups import Group, stacked

PAUSE_S = 0.05
Weights = tuple[int, decoder.Params]


class RestartedError(RuntimeError):
    """The learner was started again: what was sampled for its earlier start is worth nothing."""


class Desk(typing.Protocol):
    """What an actor needs of the learner; each method may raise RunEndedError or RestartedError."""

    def work(self, *, holding: Collection[int], idle_s: float) -> Work | None:
        """The next work, or None after a short wait; `idle_s` is the time the actor has waited since it last asked."""

    def weights(self) -> Weights | None:
        """The newest weights with their version, or None where the actor has them."""

    def deliver(self, work: Work, groups: list[Group], timings: dict[str, float]) -> None: ...


class Worker:
    """One actor at one desk. At most two batches are under way: one is sampled while the other is judged."""

    def __init__(self, actor: Actor, desk: Desk) -> None:
        self._actor = actor
        self._desk = desk
        self._judging: concurrent.futures.Future[None] | None = None
        self._holding: set[int] = set()
        self._idle_s = 0.0

    def run(self) -> None:
        """Works until the run ends; what then is under way is given up."""
        threads = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="judging")
        with contextlib.suppress(RunEndedError), threads:
            while True:
                try:
                    self._turn(threads)
                except RestartedError:
                    self._forget()

    def _turn(self, threads: concurrent.futures.ThreadPoolExecutor) -> None:
        work = self._next_work()
        self._holding.add(work.batch)
        if newest := self._desk.weights():
            version, params = newest
            self._actor.receive(params, version)
        timings: dict[str, float] = {}
        sampled = self._actor.generate(work.problems, batch=work.batch, timings=timings)
        started_s = time.monotonic()
        self._settle()
        self._idle_s += time.monotonic() - started_s
        self._judging = threads.submit(self._judge, work, sampled, timings)

    def _next_work(self) -> Work:
        started_s, idle_s = time.monotonic(), self._idle_s
        while True:
            work = self._desk.work(holding=sorted(self._holding), idle_s=idle_s)
            self._idle_s = 0.0
            if work is not None:
                return work
            if self._judging is not None and self._judging.done():
                self._settle()
            idle_s, started_s = time.monotonic() - started_s, time.monotonic()

    def _judge(self, work: Work, sampled: Sampled, timings: dict[str, float]) -> None:
        self._desk.deliver(work, self._actor.judge(sampled, timings=timings), timings)
        self._holding.discard(work.batch)

    def _settle(self) -> None:
        """Waits for the batch that is judged, and raises what went wrong with it."""
        judging, self._judging = self._judging, None
        if judging is not None:
            judging.result()

    def _forget(self) -> None:
        with contextlib.suppress(RestartedError):
            self._settle()
        self._holding.clear()


class RemoteDesk:
    """The desk of a learner elsewhere. It outlives the learner: a new start is greeted, and told from the old one.

    `job` says what both must agree on (`messages.job_id`), `like` is a policy of the right shape, and `placement` where
    its weights are to live. `on_beat` is called before every sign of life, from another thread.
    """

    def __init__(
        self,
        asker: Asker,
        *,
        name: str,
        job: str,
        like: decoder.Params,
        placement: Placement,
        heartbeat_s: float,
        on_beat: Callable[[], None],
    ) -> None:
        self._asker = asker
        self._name = name
        self._job = job
        self._like = like
        self._placement = placement
        self._has: tuple[str, int] | None = None
        self._ends = threading.Event()
        self._run = self._greet()
        beats = threading.Thread(target=self._beat, args=(heartbeat_s, on_beat), name="heartbeat", daemon=True)
        beats.start()

    def work(self, *, holding: Collection[int], idle_s: float) -> Work | None:
        answer = self._ask("work", self._run, holding=list(holding), idle_s=idle_s)
        if answer.kind == "wait":
            time.sleep(PAUSE_S)
            return None
        return Work(answer.facts["batch"], tuple(answer.facts["problems"]), self._run)

    def weights(self) -> Weights | None:
        run, has = self._run, self._has
        answer = self._ask("weights", run, has=has[1] if has and has[0] == run else -1)
        if answer.kind == "same":
            return None
        self._has = (run, answer.facts["version"])
        return self._has[1], self._placement.put(codec.tree_like(self._like, answer.arrays))

    def deliver(self, work: Work, groups: list[Group], timings: dict[str, float]) -> None:
        self._ask("groups", work.run, arrays=stacked(groups), batch=work.batch, timings=timings)

    def close(self) -> None:
        self._ends.set()
        self._asker.close()

    def _greet(self) -> str:
        return self._asker.ask("hello", {"actor": self._name, "job": self._job}).facts["run"]

    def _ask(self, kind: str, run: str, *, arrays: dict | None = None, **facts: typing.Any) -> codec.Message:
        answer = self._asker.ask(kind, {"actor": self._name, "run": run, **facts}, arrays)
        if answer.kind == "restarted":
            self._run = self._greet()
            raise RestartedError("the learner was started again")
        if answer.kind == "ended":
            raise RunEndedError("the run has ended")
        return answer

    def _beat(self, heartbeat_s: float, on_beat: Callable[[], None]) -> None:
        # What goes wrong here goes wrong for the actor's own questions too, and is told there.
        with contextlib.suppress(UserError):
            while not self._ends.wait(heartbeat_s):
                on_beat()
                self._asker.ask("alive", {"actor": self._name, "run": self._run})
