"""Edge: the bounded queue between actor and learner: groups of rollouts, oldest first, with back-pressure.

Nothing is replayed (sec. 5, "Can GRPO be stable enough"): a group leaves the queue once. Its contents are arrays that
a checkpoint can hold.
"""

import queue
import typing
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from optimrl_jax.arrays import Array, Rollouts


class Group(typing.NamedTuple):
    """The G rollouts of one prompt and what the environment said of each.

    `is_correct` is strict correctness, `is_fast` correctness within every gate; both are for the report. `is_valid` is
    False where a fault left nothing to judge. `problem` is the index of the problem in its split; (`batch`, `place`)
    says which piece of work it answers, and is never used twice in a run.
    """

    rollouts: Rollouts
    reward: Float[Array, " r"]
    is_valid: Bool[Array, " r"]
    is_correct: Bool[Array, " r"]
    is_fast: Bool[Array, " r"]
    problem: Int[np.ndarray | np.integer, ""]
    batch: Int[np.ndarray | np.integer, ""] = np.int32(0)
    place: Int[np.ndarray | np.integer, ""] = np.int32(0)

    @property
    def id(self) -> tuple[int, int]:
        return int(self.batch), int(self.place)


class QueueTimeoutError(RuntimeError):
    """The other side did not answer in time: no room was made, or no group came."""


class RolloutQueue:
    """First in, first out, at most `capacity` groups (0: no bound); both ends may live in different threads."""

    def __init__(self, capacity: int) -> None:
        self._queue: queue.Queue[Group] = queue.Queue(capacity)

    def __len__(self) -> int:
        return self._queue.qsize()

    def put(self, group: Group, *, timeout_s: float) -> None:
        """Adds a group, waiting for room; raises QueueTimeoutError where none is made within `timeout_s`."""
        try:
            self._queue.put(group, timeout=timeout_s)
        except queue.Full:
            raise QueueTimeoutError(f"the learner took nothing from the full queue for {timeout_s} s") from None

    def take(self, *, timeout_s: float) -> Group:
        """The oldest group; raises QueueTimeoutError where none comes within `timeout_s`."""
        try:
            return self._queue.get(timeout=timeout_s)
        except queue.Empty:
            raise QueueTimeoutError(f"the actor put nothing into the empty queue for {timeout_s} s") from None

    def contents(self) -> dict[str, np.ndarray] | None:
        """All waiting groups as named arrays with a leading axis, oldest first; None where the queue is empty."""
        with self._queue.mutex:
            waiting = list(self._queue.queue)
        return stack_groups(waiting) if waiting else None

    def restore(self, contents: dict[str, np.ndarray] | None) -> None:
        """Puts back what `contents` returned."""
        for group in unstack_groups(contents) if contents is not None else ():
            self._queue.put_nowait(group)


def stack_groups(groups: Sequence[Group]) -> dict[str, np.ndarray]:
    """Groups, at least one, as named arrays with a leading axis."""
    flat = [{**group._asdict(), **group.rollouts._asdict()} for group in groups]
    return {name: np.stack([group[name] for group in flat]) for name in flat[0] if name != "rollouts"}


def unstack_groups(contents: Mapping[str, np.ndarray]) -> list[Group]:
    """The groups that `stack_groups` took apart."""
    groups = []
    for index in range(len(contents["problem"])):
        fields = {name: np.asarray(values[index]) for name, values in contents.items()}
        rollouts = Rollouts(**{name: fields.pop(name) for name in Rollouts._fields})
        groups.append(Group(rollouts=rollouts, **fields))
    return groups


def select_groups(contents: Mapping[str, np.ndarray] | None, rows: np.ndarray) -> dict[str, np.ndarray] | None:
    """The groups in some rows of what `stack_groups` made, in the order of the rows; None where there are none."""
    if contents is None or not len(rows):
        return None
    return {name: np.asarray(values)[rows] for name, values in contents.items()}


def concatenate_groups(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray] | None:
    """The groups of several queues one after the other; None where all are empty."""
    filled = [part for part in parts if part]
    return {name: np.concatenate([part[name] for part in filled]) for name in filled[0]} if filled else None
