"""Edge: the supply of an asynchronous run: actors sample and judge while the learner learns, and meet it at a ledger.

Actors are threads of this process, processes that it starts, or started elsewhere by the user. Weights go to them every
K steps: from device to device within this process, as raw arrays to others. Rollouts that have grown too old are
dropped and counted as they leave the queue (paper L312, L3899). Where several processes learn together, each has a
ledger, problems and actors of its own.
"""

import logging
import math
import time
import typing
from collections.abc import Callable

import grain
import numpy as np

from optimrl_jax.actors.endpoint import LocalDesk, Reception
from optimrl_jax.actors.rollout_worker import Worker
from optimrl_jax.actors.rpc import Server
from optimrl_jax.actors.supervisor import Crew, Member, ProcessMember, ThreadMember
from optimrl_jax.actors.weight_store import Board, on_devices_of
from optimrl_jax.actors.work_queue import Ledger
from optimrl_jax.distributed import multihost
from optimrl_jax.distributed.placement import Devices, Placement
from optimrl_jax.errors import SettingsError, UserError
from optimrl_jax.grpo import batches
from optimrl_jax.model import decoder
from optimrl_jax.rollout import groups as groups_lib
from optimrl_jax.rollout.actor import Actor
from optimrl_jax.rollout.groups import Group, QueueTimeoutError
from optimrl_jax.settings import Settings

_LOG = logging.getLogger(__name__)
CHECK_S = 0.2
TELL_S = 30.0
BEATS_MISSED = 3


class Asynchronous:
    """Groups from actors that work on their own.

    `stream` gives one problem at a time; `settings` are those of the whole job, of which this process has its share;
    `devices` are those of each actor of this process; `new_actor` makes one, and `command` says how a process of the
    given name is started for the given address. `job` is `messages.job_id`.
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
    ) -> None:
        grpo = self._grpo = settings.grpo
        if grpo.broadcast_every > grpo.max_staleness + 1:
            raise SettingsError(
                f"grpo.broadcast_every = {grpo.broadcast_every}: expected at most grpo.max_staleness + 1, "
                "or no rollout would be fresh enough"
            )
        own = multihost.own_share(grpo)
        work = grpo.work_problems or math.ceil(own.problems / own.actors)
        most = (grpo.ahead + 1) * own.problems + own.actors * work
        self.ledger = Ledger(stream, work_problems=work, most_unfinished=most, part=multihost.part())
        is_here = grpo.actors_in == "threads"
        has_others = not is_here or bool(grpo.listen)
        self._placements = [Placement(theirs) for theirs in devices] if is_here else []
        self.board = Board(self._placements, for_others=has_others)
        self.receive(params, 0)
        self._reception = Reception(self.ledger, self.board, settings=settings, vocabulary=vocabulary, job=job)
        self._has_others = has_others
        self._server: Server | None = None
        self._new_actor = new_actor
        self._command = command
        hires: dict[str, Callable[[str, int], Member]] = {"threads": self._thread, "processes": self._process}
        size = 0 if grpo.actors_in == "elsewhere" else own.actors
        self._crew = Crew(hires.get(grpo.actors_in, self._thread), size=size, on_loss=self.ledger.lose)
        self._before: dict[str, float] = {}
        self._asked_s = time.monotonic()

    @property
    def address(self) -> str:
        """Where actors of other processes connect; empty where none may, or none may yet."""
        return self._server.address if self._server else ""

    def take(self, *, step: int) -> tuple[list[Group], dict[str, float]]:
        """Raises UserError where no rollout comes for as long as `grpo.patience_s`."""
        self._open()
        started_s = time.monotonic()
        found: list[Group] = []
        stale = 0
        wanted = len(multihost.own_places(step, self._grpo.problems))
        while len(found) < wanted:
            group = self._next()
            if batches.staleness(group, step=step) > self._grpo.max_staleness:
                stale += 1
            else:
                found.append(group)
        return found, self._figures(taken=len(found), stale=stale, idle_s=time.monotonic() - started_s)

    def receive(self, params: decoder.Params, version: int) -> None:
        self.board.post(multihost.own_copy(params), version)

    def state(self, *, step: int) -> tuple[dict[str, typing.Any], dict[str, typing.Any]]:
        contents, facts = self.ledger.state()
        shares = multihost.states_of_all(contents or {}, facts)
        waiting = groups_lib.appended([share.arrays for share in shares])
        return {"queue": waiting}, {"shares": [share.facts for share in shares], "version": step}

    def restore(self, arrays: dict[str, typing.Any], facts: dict[str, typing.Any]) -> None:
        if "shares" not in facts:
            raise UserError(f"grpo.actors = {self._grpo.actors}: expected 0, as in the checkpoints of this workdir")
        (index, sharers), shares = multihost.part(), facts["shares"]
        if len(shares) != sharers:
            raise UserError(
                f"processes.count = {sharers}: expected {len(shares)}, as in the checkpoints of this workdir"
            )
        waiting = arrays.get("queue")
        if waiting is not None:
            waiting = groups_lib.chosen(waiting, np.flatnonzero(np.asarray(waiting["batch"]) % sharers == index))
        self.ledger.restore(waiting, shares[index])
        self.receive(arrays["params"], facts["version"])

    def close(self) -> None:
        """Tells all actors that the run has ended, and ends those that were started here."""
        self.ledger.end()
        self._crew.stop()
        if self._server:
            ends_s = time.monotonic() + min(TELL_S, BEATS_MISSED * self._grpo.heartbeat_s)
            while self._reception.present() and time.monotonic() < ends_s:
                time.sleep(CHECK_S)
                self._reception.silent(after_s=BEATS_MISSED * self._grpo.heartbeat_s)
            self._server.close()

    def _open(self) -> None:
        """Lets actors in, once: not before a checkpoint has been taken up, or they would begin another run."""
        if self._has_others and self._server is None:
            self._server = Server(self._grpo.listen, self._reception.answer)
        if not len(self._crew):
            self._crew.start()

    def _next(self) -> Group:
        """The next group, looking after the actors meanwhile."""
        started_s = told_s = time.monotonic()
        while True:
            self._look_after()
            try:
                return self.ledger.take(timeout_s=CHECK_S)
            except QueueTimeoutError:
                now_s = time.monotonic()
            if now_s - started_s > self._grpo.patience_s:
                raise UserError(f"grpo.patience_s = {self._grpo.patience_s}: expected a rollout within that time")
            if now_s - told_s > TELL_S:
                told_s = now_s
                _LOG.info("no rollout for %.0f s: %d actors at %s", now_s - started_s, self._present(), self.address)

    def _look_after(self) -> None:
        silent = self._reception.silent(after_s=BEATS_MISSED * self._grpo.heartbeat_s)
        ours = self._crew.names()
        for name in silent:
            if name not in ours:
                _LOG.warning("%s is silent: %d problems handed out again", name, self.ledger.lose(name))
        self._crew.check(silent=silent, answered=self.ledger.counts["answered_groups"])

    def _figures(self, *, taken: int, stale: int, idle_s: float) -> dict[str, float]:
        """What happened since the last step was taken; counts of lost and turned away work are those of this start."""
        now_s = time.monotonic()
        counts = dict(self.ledger.counts)
        since = {name: counts.get(name, 0.0) - self._before.get(name, 0.0) for name in counts}
        elapsed_s, self._asked_s, self._before = now_s - self._asked_s, now_s, counts
        actor_s = max(elapsed_s * max(1, self._present()), 1e-9)
        return {
            **{name: since.get(name, 0.0) for name in ("generate_s", "execute_s", "judge_s")},
            "queue_depth": len(self.ledger),
            "stale_share": stale / max(1, taken + stale),
            "stale_groups": stale,
            "learner_idle_s": idle_s,
            "actor_idle_share": min(1.0, since.get("idle_s", 0.0) / actor_s),
            "actors": self._present(),
            "lost_actors": self._crew.lost,
            "repeated_groups": counts.get("repeated_groups", 0),
            "rejected_groups": counts.get("rejected_groups", 0),
            "refused_messages": self._server.refused if self._server else 0,
        }

    def _present(self) -> int:
        return self._reception.present() + (len(self._crew) if self._placements else 0)

    def _thread(self, name: str, place: int) -> Member:
        placement = self._placements[place % len(self._placements)]
        desk = LocalDesk(self.ledger, self.board, name=name, placement=placement)

        def work() -> None:
            with on_devices_of(placement):
                Worker(self._new_actor(), desk).run()

        return ThreadMember(name, work)

    def _process(self, name: str, _: int) -> Member:
        return ProcessMember(name, self._command(name, self.address))
