"""Which devices sample and which learn: separate sets where there are enough, the same ones otherwise.

The learner's mesh takes the first devices (`distributed.sharding`); the actors divide the last ones among themselves.
"""

import dataclasses
import typing
from collections.abc import Iterable, Sequence

import jax
import numpy as np
from jax.sharding import Mesh, SingleDeviceSharding

from optimrl_jax.distributed import codec, sharding
from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.settings import ActorSettings, MeshSettings

Devices = tuple[typing.Any, ...]


def device_sets(
    devices: Sequence[typing.Any], mesh: MeshSettings, actors: ActorSettings, *, sharers: int = 1
) -> tuple[Devices, ...]:
    """Choose the devices of each actor of this process.

    With two or more devices, the last `device_share` of them, at least one, is split evenly over the actors; if there
    are more actors than those, they take turns on them. With one device, or a share of 0, all actors share the first
    device with the learner.

    Args:
      devices: those of this process.
      mesh: devices along each axis of the learner's mesh, over all processes.
      actors: `count` actors of this process, and their share of its devices.
      sharers: number of processes that share the learner's mesh.

    Returns:
      The devices of each actor, in the order of the actors.

    Raises:
      SettingsError: if the learner's mesh needs devices that are the actors'.
    """
    own = max(1, round(actors.device_share * len(devices))) if actors.device_share and len(devices) > 1 else 0
    free, wanted = len(devices) - own, mesh.devices // sharers
    if wanted > free:
        of_each = " of each process" if sharers > 1 else ""
        raise SettingsError(
            f"mesh = {mesh.shape}: expected at most {free} of {len(devices)} devices{of_each} beside those of the "
            f"actors (actors.device_share = {actors.device_share})"
        )
    theirs = tuple(devices[free:]) or tuple(devices[:1])
    each = max(1, len(theirs) // actors.count)
    starts = [(index * each) % len(theirs) for index in range(actors.count)]
    return tuple(theirs[start : start + each] for start in starts)


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where one actor's weights live: split over its devices by the rules of the learner."""

    devices: Devices

    def put(self, params: typing.Any) -> typing.Any:
        """Copy parameters to these devices, from device to device; the caller may then donate its own.

        Raises:
          SettingsError: if the devices do not divide an axis that is split over them.
        """
        return jax.tree.map(lambda x, to: jax.device_put(x, to, may_alias=False), params, self.shardings(params))

    def put_each(self, named: Iterable[tuple[str, np.ndarray]], like: typing.Any) -> typing.Any:
        """Copy parameters from the host to these devices, one after another: the host needs room for one at a time.

        Args:
          named: each parameter with its name (`codec.named_leaves`), in any order.
          like: a tree of arrays or shapes, whose form the result has.

        Raises:
          SettingsError: if the devices do not divide an axis that is split over them.
        """
        places = codec.named_leaves(self.shardings(like))
        # Waited for: a copy under way still needs the host's array.
        put = {name: jax.block_until_ready(jax.device_put(x, places[name], may_alias=False)) for name, x in named}
        return jax.tree.unflatten(jax.tree.structure(like), [put[name] for name in codec.named_leaves(like)])

    def shardings(self, params: typing.Any) -> typing.Any:
        """Return where each parameter lives, in a tree like that of the parameters or their shapes."""
        if len(self.devices) == 1:
            return jax.tree.map(lambda _: SingleDeviceSharding(self.devices[0]), params)
        types = (jax.sharding.AxisType.Auto,) * len(sharding.AXES)
        mesh: Mesh = jax.make_mesh((1, 1, 1, len(self.devices)), sharding.AXES, devices=self.devices, axis_types=types)
        return sharding.param_shardings(mesh, params)
