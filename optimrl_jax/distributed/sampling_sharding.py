"""Where arrays lie that are sampled with: rows over the devices that hold parts of the same parameters.

Beside `sharding`, which places what is learned with. Programs that sample are split by the compiler, but for their
kernels.
"""

import contextlib
import functools
import math
import typing

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from optimrl_jax.distributed.sharding import AXES, AXIS_TYPES, ROWS, on_mesh, row_sharding


def on_accelerators(params: typing.Any, *, rows: int) -> contextlib.AbstractContextManager[object]:
    """Return the context `on_mesh` of the GPUs or TPUs that parameters lie on, for programs that sample with them.

    Kernels need it: to know of one device among several that it is theirs, and to be split over several. It does
    nothing for CPUs, for rows that the devices do not divide, and where devices share a row, which a single token
    cannot be: those are the compiler's to split.

    Args:
      params: the weights, or their shapes with shardings.
      rows: of the batch that is sampled.
    """
    mesh = _mesh_of(params) or _mesh_of_one(params)
    if not isinstance(mesh, Mesh) or mesh.devices.flat[0].platform == "cpu":
        return contextlib.nullcontext()
    is_divided = rows % math.prod(mesh.shape[axis] for axis in ROWS) == 0 and mesh.shape["sequence"] == 1
    return on_mesh(mesh) if is_divided else contextlib.nullcontext()


def shard_rows(params: typing.Any, batch: typing.Any) -> typing.Any:
    """Split a batch, rows first, over the data and fsdp axes of the mesh that parameters lie on.

    Without it, every device of the mesh would compute all rows. What has four axes is a cache of keys or values, whose
    heads come second: those are split over the tensor axis, where it divides them. Where parameters lie on no mesh, or
    on one of a single device, the batch comes back as it is.

    Raises:
      ValueError: if the number of rows is no multiple of `row_shares(params)`.
    """
    mesh = _mesh_of(params)
    if mesh is None or mesh.size == 1:
        return batch
    return jax.device_put(batch, jax.tree.map(functools.partial(sampling_place, mesh), batch))


def sampling_place(mesh: Mesh | AbstractMesh, x: typing.Any) -> NamedSharding:
    """Return where an array lies that is sampled with: see `shard_rows`."""
    rows = row_sharding(mesh, axis=0)
    if len(x.shape) != 4 or mesh.shape["tensor"] == 1 or x.shape[1] % mesh.shape["tensor"]:
        return rows
    return NamedSharding(mesh, PartitionSpec(rows.spec[0], "tensor"))


def row_shares(params: typing.Any) -> int:
    """Count the devices over which these parameters split the rows of a batch; 1 where they lie on no mesh."""
    mesh = _mesh_of(params)
    return math.prod(mesh.shape[axis] for axis in ROWS) if mesh else 1


def even_rows(params: typing.Any, rows: int) -> int:
    """Round a number of rows up to one of which every device takes equally many."""
    return -(-rows // row_shares(params)) * row_shares(params)


def _mesh_of(params: typing.Any) -> Mesh | AbstractMesh | None:
    placed = getattr(jax.tree.leaves(params)[0], "sharding", None)
    return placed.mesh if isinstance(placed, NamedSharding) and set(ROWS) <= set(placed.mesh.axis_names) else None


def _mesh_of_one(params: typing.Any) -> Mesh | None:
    """Make a mesh of the device that parameters lie on, if it is a single one."""
    placed = getattr(jax.tree.leaves(params)[0], "sharding", None)
    if not isinstance(placed, SingleDeviceSharding):
        return None
    return Mesh(np.array(list(placed.device_set)).reshape((1,) * len(AXES)), AXES, axis_types=AXIS_TYPES)
