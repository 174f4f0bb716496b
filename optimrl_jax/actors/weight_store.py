"""The newest weights of an asynchronous run: the learner publishes them, actors take them from here."""

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

    Args:
      placements: where the actors of this process have their weights; equal ones share a copy.
      for_remote: whether to keep a copy in host memory as well.
    """

    def __init__(self, placements: Sequence[Placement], *, for_remote: bool) -> None:
        self._placements = placements
        self._for_remote = for_remote
        self._published: tuple[int, dict[Placement, decoder.Params]] = (0, {})
        # The newest and the one before, which an actor may still be fetching part by part.
        self._on_host: dict[int, dict[str, np.ndarray]] = {}

    @property
    def version(self) -> int:
        """The version of the newest weights; 0 before any are published."""
        return self._published[0]

    def publish(self, params: decoder.Params, version: int) -> None:
        """Copy the weights of a version for all actors; the caller may donate its own afterwards."""
        on_device = {placement: placement.put(params) for placement in set(self._placements)}
        # Always a copy: on CPU the host's view of an array is the array itself.
        on_host = (
            {name: np.array(leaf) for name, leaf in codec.named_leaves(params).items()} if self._for_remote else {}
        )
        before = self._published[0]
        self._on_host = {number: leaves for number, leaves in self._on_host.items() if number == before} | (
            {version: on_host} if self._for_remote else {}
        )
        self._published = (version, on_device)

    def on_device(self, placement: Placement) -> Weights:
        """Return the newest weights, with their version, on the devices of one of the placements."""
        version, on_device = self._published
        return version, on_device[placement]

    def on_host(self, wanted: int | None = None) -> tuple[int, dict[str, np.ndarray]]:
        """Return a version and its weights as named leaves; no leaves if none are kept for remote actors.

        Args:
          wanted: the version, if it is still there; else, and if None, the newest.
        """
        kept, newest = self._on_host, self._published[0]
        version = wanted if wanted is not None and wanted in kept else newest
        return version, kept.get(version, {})


def on_devices_of(placement: Placement) -> typing.Any:
    """Return a context in which small computations of this thread run on the actor's devices, not on the learner's."""
    return jax.default_device(placement.devices[0])
