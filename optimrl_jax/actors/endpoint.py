"""Edge: where actors meet the learner: a desk for each thread of this process, a reception for all others.

Both hand out work from one ledger and the newest weights from one board, and take in groups.
"""

import threading
import time
import typing
import uuid
from collections.abc import Collection

from optimrl_jax.actors import messages
from optimrl_jax.actors.rollout_worker import PAUSE_S, Weights
from optimrl_jax.actors.weight_store import Board
from optimrl_jax.actors.work_queue import Ledger, RunEndedError, Work
from optimrl_jax.distributed import codec
from optimrl_jax.distributed.placement import Placement
from optimrl_jax.rollout.groups import Group
from optimrl_jax.settings import Settings


class LocalDesk:
    """The desk of an actor in a thread of this process; see `worker.Desk`."""

    def __init__(self, ledger: Ledger, board: Board, *, name: str, placement: Placement) -> None:
        self._ledger = ledger
        self._board = board
        self._name = name
        self._placement = placement
        self._has: int | None = None

    def work(self, *, holding: Collection[int], idle_s: float) -> Work | None:
        self._ledger.note({"idle_s": idle_s})
        return self._ledger.hand_out(self._name, holding=holding, wait_s=PAUSE_S)

    def weights(self) -> Weights | None:
        version, params = self._board.here(self._placement)
        if version == self._has:
            return None
        self._has = version
        return version, params

    def deliver(self, work: Work, groups: list[Group], timings: dict[str, float]) -> None:
        self._ledger.note(timings)
        self._ledger.take_in(work.batch, groups)


class Reception:
    """Answers the messages of actors elsewhere; `run` names this start of the learner.

    Rollouts for another start are turned away, because their policy is not one of this run.
    """

    def __init__(self, ledger: Ledger, board: Board, *, settings: Settings, vocabulary: int, job: str) -> None:
        self.run = uuid.uuid4().hex
        self._ledger = ledger
        self._board = board
        self._settings = settings
        self._vocabulary = vocabulary
        self._job = job
        self._lock = threading.Lock()
        self._seen_s: dict[str, float] = {}
        self._answers = {"work": self._work, "weights": self._weights, "groups": self._groups, "alive": self._alive}

    def answer(self, message: codec.Message) -> list:
        """The frames of the answer to a message; raises ValueError for one that is not understood."""
        actor = _fact(message, "actor", str)
        if message.kind == "hello":
            if _fact(message, "job", str) != self._job:
                raise codec.MessageError(
                    f"{actor}: expected the configuration, the dataset and the policy of this learner"
                )
        elif _fact(message, "run", str) != self.run:
            self._ledger.note({"rejected_groups": len(message.arrays.get("problem", ()))})
            return codec.packed("restarted", {})
        elif message.kind not in self._answers:
            raise codec.MessageError(f"expected one of {', '.join(self._answers)}, found {message.kind!r}")
        with self._lock:
            self._seen_s[actor] = time.monotonic()
        if message.kind == "hello":
            return codec.packed("welcome", {"run": self.run})
        try:
            return self._answers[message.kind](message, actor)
        except RunEndedError:
            with self._lock:
                del self._seen_s[actor]
            return codec.packed("ended", {})

    def silent(self, *, after_s: float) -> list[str]:
        """Actors that have shown no sign of life for `after_s`; each is told once."""
        with self._lock:
            found = [name for name, seen_s in self._seen_s.items() if time.monotonic() - seen_s > after_s]
            for name in found:
                del self._seen_s[name]
        return found

    def present(self) -> int:
        """Actors that have not yet fallen silent or heard that the run has ended."""
        return len(self._seen_s)

    def _work(self, message: codec.Message, actor: str) -> list:
        self._ledger.note({"idle_s": _fact(message, "idle_s", float)})
        holding = _fact(message, "holding", list)
        work = self._ledger.hand_out(actor, holding=holding, wait_s=0.0)
        return codec.packed("wait", {}) if work is None else codec.packed("work", work._asdict())

    def _weights(self, message: codec.Message, _: str) -> list:
        version, arrays = self._board.there()
        if _fact(message, "has", int) == version:
            return codec.packed("same", {})
        return codec.packed("weights", {"version": version}, arrays)

    def _groups(self, message: codec.Message, _: str) -> list:
        batch, timings = _fact(message, "batch", int), _fact(message, "timings", dict)
        groups = messages.groups_of(
            message.arrays, settings=self._settings, vocabulary=self._vocabulary, step=self._board.version
        )
        is_new = self._ledger.take_in(batch, groups)
        if is_new:
            self._ledger.note({name: value for name, value in timings.items() if isinstance(value, float)})
        return codec.packed("taken", {"is_new": is_new})

    def _alive(self, *_: typing.Any) -> list:
        return codec.packed("alive", {})


def _fact(message: codec.Message, name: str, kind: type) -> typing.Any:
    value = message.facts.get(name)
    if not isinstance(value, kind):
        raise codec.MessageError(f"{message.kind}: expected {name} of type {kind.__name__}")
    return value
