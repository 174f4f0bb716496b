"""The newest weights of an asynchronous run, where actors take them from."""

import typing
from collections.abc import Sequence

import jax
import numpy as np

from optimrl_jax.actors.rollout_worker import Weights
from optimrl_jax.distributed import codec
from optimrl_jax.distributed.placement import Placement
from optimrl_jax.model import decoder


class Board:
    """The newest weights, on the devices of each actor of this process and, for others, in host memory."""

    def __init__(self, placements: Sequence[Placement], *, for_others: bool) -> None:
        self._placements = placements
        self._for_others = for_others
        self._posted: tuple[int, dict[Placement, decoder.Params], dict[str, np.ndarray]] = (0, {}, {})

    @property
    def version(self) -> int:
        return self._posted[0]

    def post(self, params: decoder.Params, version: int) -> None:
        """Copies the weights; the caller may donate its own afterwards."""
        here = {placement: placement.put(params) for placement in set(self._placements)}
        # Always a copy: on CPU the host's view of an array is the array itself.
        there = {name: np.array(leaf) for name, leaf in codec.named_leaves(params).items()} if self._for_others else {}
        self._posted = (version, here, there)

    def here(self, placement: Placement) -> Weights:
        version, here, _ = self._posted
        return version, here[placement]

    def there(self) -> tuple[int, dict[str, np.ndarray]]:
        version, _, there = self._posted
        return version, there


def on_devices_of(placement: Placement) -> typing.Any:
    """A context in which small computations of this thread run on the actor's devices, not on the learner's."""
    return jax.default_device(placement.devices[0])
