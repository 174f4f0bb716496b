"""Edge: the ledger of an asynchronous run: which actor has which work, what came back, and what waits for the learner.

Every group of a run is answered once: work of an actor that is lost is handed out again, and a second answer to the
same work is turned away. A place in the queue is taken when work is handed out, so that a queue that is full keeps
actors from starting what would then grow stale (paper L309), and an answer never has to wait.
"""

import collections
import threading
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence

import grain
import numpy as np

from optimrl_jax.rollout.groups import Group, QueueTimeoutError, RolloutQueue

NO_WAIT_S = 0.0


class Work(typing.NamedTuple):
    """Problems to sample; `batch` numbers the work of a run and picks its random streams.

    `run` names the start of the learner that handed it out: work of another start answers nothing.
    """

    batch: int
    problems: tuple[int, ...]
    run: str = ""


class RunEndedError(RuntimeError):
    """The run has had its last step: there is no more work."""


class WrongWorkError(ValueError):
    """An answer does not belong to the work that it names."""


class Ledger:
    """Hands out the problems of a stream and takes in their groups; safe to use from several threads.

    At most `most_unfinished` groups are handed out or waiting, `work_problems` of them handed out at once. Of several
    ledgers of a run, `part` (i, n) numbers the work of one: i, i + n, ...
    """

    def __init__(
        self,
        stream: grain.DatasetIterator,
        *,
        work_problems: int,
        most_unfinished: int,
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self._stream = stream
        self._work_problems = work_problems
        self._most_unfinished = most_unfinished
        self._changed = threading.Condition()
        self._queue = RolloutQueue(0)
        self._again: collections.deque[Work] = collections.deque()
        self._held: dict[int, tuple[str, Work]] = {}
        self._next_batch, self._batch_step = part
        self._has_ended = False
        self.counts: collections.Counter[str] = collections.Counter()

    def __len__(self) -> int:
        """Groups that wait for the learner."""
        return len(self._queue)

    def hand_out(self, actor: str, *, holding: Collection[int], wait_s: float) -> Work | None:
        """The next work for `actor`, or None where there is no room for more within `wait_s`.

        `holding` are the batches that it is still at: any other that it was given never reached it, and is handed out
        again. Raises RunEndedError after `end`.
        """
        with self._changed:
            self._release(actor, keeping=holding)
            self._changed.wait_for(lambda: self._has_ended or self._again or self._has_room(), timeout=wait_s)
            if self._has_ended:
                raise RunEndedError("the run has ended")
            if self._again:
                work = self._again.popleft()
            elif self._has_room():
                work = Work(self._next_batch, tuple(int(next(self._stream)) for _ in range(self._work_problems)))
                self._next_batch += self._batch_step
            else:
                return None
            self._held[work.batch] = (actor, work)
            return work

    def take_in(self, batch: int, groups: Sequence[Group]) -> bool:
        """Queues the groups of a batch, whoever it was given to; False where it was answered before.

        Raises WrongWorkError where the groups are not those of that batch.
        """
        with self._changed:
            work = next((work for work in self._unfinished() if work.batch == batch), None)
            if work is None:
                self.counts["repeated_groups"] += len(groups)
                return False
            expected = [(batch, place, problem) for place, problem in enumerate(work.problems)]
            if [(*group.id, int(group.problem)) for group in groups] != expected:
                raise WrongWorkError(f"batch {batch}: expected one group for each of the problems {work.problems}")
            self._held.pop(batch, None)
            self._again = collections.deque(other for other in self._again if other.batch != batch)
            for group in groups:
                self._queue.put(group, timeout_s=NO_WAIT_S)
            self.counts["answered_groups"] += len(groups)
            self._changed.notify_all()
            return True

    def lose(self, actor: str) -> int:
        """Hands out again what a lost actor had; returns the number of its problems."""
        with self._changed:
            return self._release(actor, keeping=())

    def take(self, *, timeout_s: float) -> Group:
        """The oldest group; raises QueueTimeoutError where none comes within `timeout_s`."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._queue), timeout=timeout_s):
                raise QueueTimeoutError(f"no actor answered for {timeout_s} s")
            group = self._queue.take(timeout_s=NO_WAIT_S)
            self._changed.notify_all()
            return group

    def note(self, amounts: Mapping[str, float]) -> None:
        """Adds to the counts: seconds that actors spent or waited."""
        with self._changed:
            self.counts.update(amounts)

    def end(self) -> None:
        """No more work is handed out; whoever waits for some hears it."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def state(self) -> tuple[dict[str, np.ndarray] | None, dict[str, typing.Any]]:
        """The waiting groups as arrays, and plain facts: unfinished work, the counter, the position in the data."""
        with self._changed:
            unfinished = sorted((work.batch, list(work.problems)) for work in self._unfinished())
            facts = {"batch": self._next_batch, "stream": self._stream.get_state(), "unfinished": unfinished}
            return self._queue.contents(), facts

    def restore(self, contents: dict[str, np.ndarray] | None, facts: dict[str, typing.Any]) -> None:
        """Goes on where `state` was taken; unfinished work is handed out again, before anything new."""
        with self._changed:
            self._queue.restore(contents)
            self._next_batch = facts["batch"]
            self._stream.set_state(facts["stream"])
            self._again.extend(Work(batch, tuple(problems)) for batch, problems in facts["unfinished"])

    def _unfinished(self) -> Iterator[Work]:
        yield from self._again
        yield from (work for _, work in self._held.values())

    def _has_room(self) -> bool:
        promised = sum(len(work.problems) for work in self._unfinished())
        return promised + len(self._queue) + self._work_problems <= self._most_unfinished

    def _release(self, actor: str, *, keeping: Collection[int]) -> int:
        lost = [work for owner, work in self._held.values() if owner == actor and work.batch not in keeping]
        for work in lost:
            del self._held[work.batch]
        self._again.extend(sorted(lost))
        self._changed.notify_all()
        return sum(len(work.problems) for work in lost)
