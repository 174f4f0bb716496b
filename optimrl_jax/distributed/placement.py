"""Which devices sample and which learn: separate sets where there are enough, the same ones otherwise.

The learner's mesh takes the first devices (`distributed.sharding`); actors share the last ones out among themselves.
"""

import dataclasses
import typing
from collections.abc import Sequence

import jax
from jax.sharding import Mesh, SingleDeviceSharding

from optimrl_jax.distributed import sharding
from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.settings import ActorSettings, MeshSettings

Devices = tuple[typing.Any, ...]


def device_sets(
    devices: Sequence[typing.Any], mesh: MeshSettings, actors: ActorSettings, *, sharers: int = 1
) -> tuple[Devices, ...]:
    """The devices of each actor of this process, in the order of the actors; one of `sharers` of the learner's mesh.

    With two or more devices, the last `device_share` of them, one at least, is split evenly over the actors; more
    actors than those devices take turns on them. With one device, or a share of 0, all are time-shared with the
    learner's first one. Raises SettingsError where the learner's mesh needs devices that are the actors'.
    """
    own = max(1, round(actors.device_share * len(devices))) if actors.device_share and len(devices) > 1 else 0
    free, wanted = len(devices) - own, mesh.data * mesh.fsdp * mesh.tensor // sharers
    if wanted > free:
        shape = (mesh.data, mesh.fsdp, mesh.tensor)
        of_each = " of each process" if sharers > 1 else ""
        raise SettingsError(
            f"mesh = {shape}: expected at most {free} of {len(devices)} devices{of_each} beside those of the actors "
            f"(actors.device_share = {actors.device_share})"
        )
    theirs = tuple(devices[free:]) or tuple(devices[:1])
    each = max(1, len(theirs) // actors.count)
    starts = [(index * each) % len(theirs) for index in range(actors.count)]
    return tuple(theirs[start : start + each] for start in starts)


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where one actor's weights live: split over its devices by the rules of the learner, as far as they divide."""

    devices: Devices

    def put(self, params: typing.Any) -> typing.Any:
        """A copy of `params` on these devices, from device to device; the caller may then donate its own."""
        return jax.tree.map(lambda x, to: jax.device_put(x, to, may_alias=False), params, self._shardings(params))

    def _shardings(self, params: typing.Any) -> typing.Any:
        if len(self.devices) == 1:
            return jax.tree.map(lambda _: SingleDeviceSharding(self.devices[0]), params)
        types = (jax.sharding.AxisType.Auto,) * len(sharding.AXES)
        mesh: Mesh = jax.make_mesh((1, 1, len(self.devices)), sharding.AXES, devices=self.devices, axis_types=types)
        return sharding.param_shardings(mesh, params)
