"""Edge: the learner as actors see it: by calls from threads of its process, by messages from everywhere else.

Both ways lead to the same work queue and weight store. `actors.coordinator` describes how they work together.
"""

import threading
import time
import typing
import uuid
from collections.abc import Collection

from optimrl_jax.actors import messages
from optimrl_jax.actors.rollout_worker import PAUSE_S, Weights
from optimrl_jax.actors.weight_store import WeightStore
from optimrl_jax.actors.work_queue import RunEndedError, WorkItem, WorkQueue
from optimrl_jax.distributed import codec
from optimrl_jax.distributed.placement import Placement
from optimrl_jax.rollout.groups import Group
from optimrl_jax.settings import Settings


class LocalLearner:
    """The learner for an actor in a thread of its process; a `rollout_worker.LearnerInterface`.

    Args:
      work_queue: leases items and gets their groups.
      weight_store: has the newest weights.
      name: of the actor.
      placement: where its weights live.
    """

    def __init__(self, work_queue: WorkQueue, weight_store: WeightStore, *, name: str, placement: Placement) -> None:
        self._work_queue = work_queue
        self._weight_store = weight_store
        self._name = name
        self._placement = placement
        self._has: int | None = None

    def next_item(self, *, in_flight: Collection[int], idle_s: float) -> WorkItem | None:
        """Lease the next item from the work queue, waiting a moment for room; see `LearnerInterface`."""
        self._work_queue.add_metrics({"idle_s": idle_s})
        return self._work_queue.lease(self._name, in_flight=in_flight, wait_s=PAUSE_S)

    def weights(self) -> Weights | None:
        """Return the newest weights on the actor's devices; None where it was given them before."""
        version, params = self._weight_store.on_device(self._placement)
        if version == self._has:
            return None
        self._has = version
        return version, params

    def submit(self, work: WorkItem, groups: list[Group], timings: dict[str, float]) -> None:
        """Queue the groups of an item for the learner."""
        self._work_queue.add_metrics(timings)
        self._work_queue.complete(work.batch, groups)


class LearnerService:
    """Answers the messages of actors elsewhere.

    Args:
      work_queue: leases items and gets their groups.
      weight_store: has the newest weights in host memory.
      settings: those of the job; they bound what a group may hold.
      vocabulary: number of token ids.
      job: identity of the job (`messages.job_id`), on which actors must agree.

    Attributes:
      run: identifies this start of the learner: rollouts for another start are refused, because no policy of this run
        sampled them.
    """

    def __init__(
        self, work_queue: WorkQueue, weight_store: WeightStore, *, settings: Settings, vocabulary: int, job: str
    ) -> None:
        self.run = uuid.uuid4().hex
        self._work_queue = work_queue
        self._weight_store = weight_store
        self._settings = settings
        self._vocabulary = vocabulary
        self._job = job
        self._lock = threading.Lock()
        self._last_seen_s: dict[str, float] = {}
        self._answers = {"work": self._work, "weights": self._weights, "groups": self._groups, "alive": self._alive}

    def answer(self, message: codec.WireMessage) -> list:
        """Answer a message of an actor.

        Args:
          message: "hello", "work", "weights", "groups" or "alive", with the actor's name and run.

        Returns:
          The frames of the answer; "restarted" for another start of the learner, "ended" after the run.

        Raises:
          ValueError: for a message that makes no sense, or comes from an actor of another job.
        """
        actor = _field(message, "actor", str)
        if message.kind == "hello":
            if _field(message, "job", str) != self._job:
                raise codec.MessageError(
                    f"{actor}: expected the configuration, the dataset and the policy of this learner"
                )
        elif _field(message, "run", str) != self.run:
            self._work_queue.add_metrics({"rejected_groups": len(message.arrays.get("problem", ()))})
            return codec.encode_message("restarted", {})
        elif message.kind not in self._answers:
            raise codec.MessageError(f"expected one of {', '.join(self._answers)}, found {message.kind!r}")
        with self._lock:
            self._last_seen_s[actor] = time.monotonic()
        if message.kind == "hello":
            return codec.encode_message("welcome", {"run": self.run})
        try:
            return self._answers[message.kind](message, actor)
        except RunEndedError:
            with self._lock:
                del self._last_seen_s[actor]
            return codec.encode_message("ended", {})

    def silent(self, *, after_s: float) -> list[str]:
        """Return the actors that have been silent for `after_s` seconds; each is reported once, then forgotten."""
        with self._lock:
            names = [name for name, last_s in self._last_seen_s.items() if time.monotonic() - last_s > after_s]
            for name in names:
                del self._last_seen_s[name]
        return names

    def present(self) -> int:
        """Count the actors that are neither silent nor told that the run has ended."""
        return len(self._last_seen_s)

    def _work(self, message: codec.WireMessage, actor: str) -> list:
        self._work_queue.add_metrics({"idle_s": _field(message, "idle_s", float)})
        in_flight = _field(message, "in_flight", list)
        work = self._work_queue.lease(actor, in_flight=in_flight, wait_s=0.0)
        return codec.encode_message("wait", {}) if work is None else codec.encode_message("work", work._asdict())

    def _weights(self, message: codec.WireMessage, actor: str) -> list:
        """Answer with one part of the weights: the first of the newest, or a later one of the version asked for."""
        part, wanted = _field(message, "part", int), _field(message, "version", int)
        version, arrays = self._weight_store.on_host(wanted if part else None)
        if not part and _field(message, "has", int) == version:
            return codec.encode_message("same", {})
        if not arrays:
            return codec.encode_message("wait", {"version": version})
        parts = codec.split_arrays(arrays, self._settings.actors.part_mib * 2**20)
        if not 0 <= part < len(parts):
            raise codec.MessageError(f"weights: expected a part below {len(parts)}, found {part}")
        self._weight_store.mark_fetch(actor, version, is_last=part + 1 == len(parts))
        return codec.encode_message("weights", {"version": version, "parts": len(parts)}, parts[part])

    def _groups(self, message: codec.WireMessage, _: str) -> list:
        batch, timings = _field(message, "batch", int), _field(message, "timings", dict)
        groups = messages.decode_groups(
            message.arrays, settings=self._settings, vocabulary=self._vocabulary, step=self._weight_store.version
        )
        is_new = self._work_queue.complete(batch, groups)
        if is_new:
            self._work_queue.add_metrics({name: value for name, value in timings.items() if isinstance(value, float)})
        return codec.encode_message("taken", {"is_new": is_new})

    def _alive(self, *_: typing.Any) -> list:
        return codec.encode_message("alive", {})


def _field(message: codec.WireMessage, name: str, kind: type) -> typing.Any:
    value = message.metadata.get(name)
    if not isinstance(value, kind):
        raise codec.MessageError(f"{message.kind}: expected {name} of type {kind.__name__}")
    return value
