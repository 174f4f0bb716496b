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
        self._published: tuple[int, dict[Placement, decoder.Params], dict[str, np.ndarray]] = (0, {}, {})

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
        self._published = (version, on_device, on_host)

    def on_device(self, placement: Placement) -> Weights:
        """Return the newest weights, with their version, on the devices of one of the placements."""
        version, on_device, _ = self._published
        return version, on_device[placement]

    def on_host(self) -> tuple[int, dict[str, np.ndarray]]:
        """Return the newest version and its weights as named leaves; no leaves if none are kept for remote actors."""
        version, _, on_host = self._published
        return version, on_host


def on_devices_of(placement: Placement) -> typing.Any:
    """Return a context in which small computations of this thread run on the actor's devices, not on the learner's."""
    return jax.default_device(placement.devices[0])
