"""Edge: the newest weights of an asynchronous run: the learner publishes them, actors take them from here."""

import threading
import typing
from collections.abc import Sequence

import jax
import numpy as np

from optimrl_jax.actors.rollout_worker import Weights
from optimrl_jax.distributed import codec
from optimrl_jax.distributed.placement import Placement
from optimrl_jax.model import decoder


class WeightStore:
    """The newest weights, on the devices of each actor of this process and, for remote actors, in host memory.

    Host memory holds one version; a second one only while an actor elsewhere is in the middle of fetching the first.
    Called by the learner's thread and by the one that answers remote actors.

    Args:
      placements: where the actors of this process have their weights; equal ones share a copy.
      for_remote: whether to keep a copy in host memory as well.
    """

    def __init__(self, placements: Sequence[Placement], *, for_remote: bool) -> None:
        self._placements = placements
        self._for_remote = for_remote
        self._published: tuple[int, dict[Placement, decoder.Params]] = (0, {})
        self._lock = threading.Lock()
        self._on_host: dict[int, dict[str, np.ndarray]] = {}
        # The version of which an actor has parts and wants more, by the actor's name.
        self._fetching: dict[str, int] = {}

    @property
    def version(self) -> int:
        """The version of the newest weights; 0 before any are published."""
        return self._published[0]

    def publish(self, params: decoder.Params, version: int) -> None:
        """Copy the weights of a version for all actors; the caller may donate its own afterwards."""
        on_device = {placement: placement.put(params) for placement in set(self._placements)}
        self._make_room()
        # Always a copy: on CPU the host's view of an array is the array itself.
        on_host = (
            {name: np.array(leaf) for name, leaf in codec.named_leaves(params).items()} if self._for_remote else {}
        )
        with self._lock:
            if self._for_remote:
                self._on_host[version] = on_host
            self._published = (version, on_device)

    def on_device(self, placement: Placement) -> Weights:
        """Return the newest weights, with their version, on the devices of one of the placements."""
        version, on_device = self._published
        return version, on_device[placement]

    def on_host(self, wanted: int | None = None) -> tuple[int, dict[str, np.ndarray]]:
        """Return a version and its weights as named leaves.

        No leaves if none are kept for remote actors, or for a moment while a newer version takes their place.

        Args:
          wanted: the version, if it is still there; else, and if None, the newest.
        """
        with self._lock:
            version = wanted if wanted is not None and wanted in self._on_host else self._published[0]
            return version, self._on_host.get(version, {})

    def mark_fetch(self, actor: str, version: int, *, is_last: bool) -> None:
        """Note that an actor has got a part of a version: it is kept until the actor has the last one.

        Not beyond the next version, however: an actor that never asks again would keep it for good.
        """
        with self._lock:
            if is_last:
                self._fetching.pop(actor, None)
            else:
                self._fetching[actor] = version

    def _make_room(self) -> None:
        """Forget, before the next version is copied, all but the newest one where an actor is in the middle of it."""
        with self._lock:
            newest = self._published[0]
            self._fetching = {actor: number for actor, number in self._fetching.items() if number == newest}
            self._on_host = {
                number: leaves for number, leaves in self._on_host.items() if number == newest and self._fetching
            }


def on_devices_of(placement: Placement) -> typing.Any:
    """Return a context in which small computations of this thread run on the actor's devices, not on the learner's."""
    return jax.default_device(placement.devices[0])
