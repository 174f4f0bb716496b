"""Edge: the work queue of an asynchronous run: leases of problems to actors, and the groups that wait for the learner.

Every work item is completed exactly once: the lease of a lost actor is issued again, and a second answer to the same
item is refused. A place in the queue is reserved when an item is leased (App. F, Figure 45, "Bounded queue"), so that
an answer never waits and a full queue stops new sampling.
"""

import collections
import threading
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence

import grain
import numpy as np

from optimrl_jax.rollout.groups import Group, QueueTimeoutError, RolloutQueue

NO_WAIT_S = 0.0


class WorkItem(typing.NamedTuple):
    """Problems to sample.

    Attributes:
      batch: number of the item in its run; picks its random streams.
      problems: indices of the problems.
      run: identifies the start of the learner that leased it; an answer to another start is refused.
    """

    batch: int
    problems: tuple[int, ...]
    run: str = ""


class RunEndedError(RuntimeError):
    """The run has taken its last step: there is no more work."""


class WrongGroupsError(ValueError):
    """The groups of an answer are not those of the item that it names."""


class WorkQueue:
    """Leases the problems of a stream and queues their groups; safe to use from several threads.

    Args:
      stream: yields the index of one problem at a time.
      item_problems: problems of one work item.
      max_unfinished: most groups that are leased or waiting at any time.
      process: (i, n), this queue's place among those of a run: its items are numbered i, i + n, ...

    Attributes:
      counts: "answered_groups", "repeated_groups" and whatever `add_metrics` added, since this start.
    """

    def __init__(
        self,
        stream: grain.DatasetIterator,
        *,
        item_problems: int,
        max_unfinished: int,
        process: tuple[int, int] = (0, 1),
    ) -> None:
        self._stream = stream
        self._item_problems = item_problems
        self._max_unfinished = max_unfinished
        self._changed = threading.Condition()
        self._queue = RolloutQueue(0)
        self._requeued: collections.deque[WorkItem] = collections.deque()
        self._leased: dict[int, tuple[str, WorkItem]] = {}
        self._next_batch, self._batch_step = process
        self._has_ended = False
        self.counts: collections.Counter[str] = collections.Counter()

    def __len__(self) -> int:
        """Count the groups that wait for the learner."""
        return len(self._queue)

    def lease(self, actor: str, *, in_flight: Collection[int], wait_s: float) -> WorkItem | None:
        """Lease the next item to an actor, returned ones before new ones.

        Args:
          actor: name of the actor.
          in_flight: batches that the actor still works on. Any other lease of its never reached it and is issued again.
          wait_s: longest wait in seconds for room.

        Returns:
          The item; None where there is still no room.

        Raises:
          RunEndedError: after `close`.
        """
        with self._changed:
            self._release(actor, keeping=in_flight)
            self._changed.wait_for(lambda: self._has_ended or self._requeued or self._has_room(), timeout=wait_s)
            if self._has_ended:
                raise RunEndedError("the run has ended")
            if self._requeued:
                work = self._requeued.popleft()
            elif self._has_room():
                work = WorkItem(self._next_batch, tuple(int(next(self._stream)) for _ in range(self._item_problems)))
                self._next_batch += self._batch_step
            else:
                return None
            self._leased[work.batch] = (actor, work)
            return work

    def complete(self, batch: int, groups: Sequence[Group]) -> bool:
        """Queue the groups of a batch, whoever it was leased to.

        Args:
          batch: number of the item.
          groups: one for each of its problems, in order.

        Returns:
          False where the batch was completed before; its groups are then counted and dropped.

        Raises:
          WrongGroupsError: if the groups are not those of that batch.
        """
        with self._changed:
            work = next((work for work in self._unfinished() if work.batch == batch), None)
            if work is None:
                self.counts["repeated_groups"] += len(groups)
                return False
            expected = [(batch, place, problem) for place, problem in enumerate(work.problems)]
            if [(*group.id, int(group.problem)) for group in groups] != expected:
                raise WrongGroupsError(f"batch {batch}: expected one group for each of the problems {work.problems}")
            self._leased.pop(batch, None)
            self._requeued = collections.deque(other for other in self._requeued if other.batch != batch)
            for group in groups:
                self._queue.put(group, timeout_s=NO_WAIT_S)
            self.counts["answered_groups"] += len(groups)
            self._changed.notify_all()
            return True

    def requeue(self, actor: str) -> int:
        """Issue the leases of a lost actor again, before any new item; return the number of their problems."""
        with self._changed:
            return self._release(actor, keeping=())

    def take(self, *, timeout_s: float) -> Group:
        """Remove and return the oldest group.

        Args:
          timeout_s: longest wait in seconds.

        Raises:
          QueueTimeoutError: if no group comes in that time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._queue), timeout=timeout_s):
                raise QueueTimeoutError(f"no actor answered for {timeout_s} s")
            group = self._queue.take(timeout_s=NO_WAIT_S)
            self._changed.notify_all()
            return group

    def give_back(self, group: Group) -> None:
        """Put a group that was taken back at the head of the queue."""
        with self._changed:
            self._queue.give_back(group)
            self._changed.notify_all()

    def add_metrics(self, amounts: Mapping[str, float]) -> None:
        """Add amounts to the counts, such as seconds that actors worked or waited."""
        with self._changed:
            self.counts.update(amounts)

    def close(self) -> None:
        """Lease nothing from now on, and wake every caller that waits for a lease."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def state(self) -> tuple[dict[str, np.ndarray] | None, dict[str, typing.Any]]:
        """Return what `restore` needs to go on.

        Returns:
          The waiting groups as stacked arrays (None for none), and metadata: the unfinished items, the number of the
          next one and the stream's position.
        """
        with self._changed:
            unfinished = sorted((work.batch, list(work.problems)) for work in self._unfinished())
            metadata = {"batch": self._next_batch, "stream": self._stream.get_state(), "unfinished": unfinished}
            return self._queue.contents(), metadata

    def restore(self, contents: dict[str, np.ndarray] | None, metadata: dict[str, typing.Any]) -> None:
        """Go on where `state` was taken; unfinished items are leased again before anything new."""
        with self._changed:
            self._queue.restore(contents)
            self._next_batch = metadata["batch"]
            self._stream.set_state(metadata["stream"])
            self._requeued.extend(WorkItem(batch, tuple(problems)) for batch, problems in metadata["unfinished"])

    def _unfinished(self) -> Iterator[WorkItem]:
        yield from self._requeued
        yield from (work for _, work in self._leased.values())

    def _has_room(self) -> bool:
        promised = sum(len(work.problems) for work in self._unfinished())
        return promised + len(self._queue) + self._item_problems <= self._max_unfinished

    def _release(self, actor: str, *, keeping: Collection[int]) -> int:
        lost = [work for owner, work in self._leased.values() if owner == actor and work.batch not in keeping]
        for work in lost:
            del self._leased[work.batch]
        self._requeued.extend(sorted(lost))
        self._changed.notify_all()
        return sum(len(work.problems) for work in lost)
