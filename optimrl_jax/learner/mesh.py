"""Where every array lives: a mesh with the axes data, fsdp and tensor, and one strict table of rules.

A parameter whose name matches no rule is an error, never silently replicated. Batches are split over data and fsdp.
"""

import re
import typing

import jax
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from optimrl_jax.settings import MeshSettings, SettingsError

AXES = ("data", "fsdp", "tensor")
ROWS = ("data", "fsdp")
AXIS_TYPES = (AxisType.Auto,) * len(AXES)

# Leading None is the layer axis of the scanned blocks.
RULES = (
    (r"embedding", PartitionSpec("tensor", "fsdp")),
    (r"unembedding", PartitionSpec("fsdp", "tensor")),
    (r"layers/attention/(query|key|value)", PartitionSpec(None, "fsdp", "tensor", None)),
    (r"layers/attention/(query|key|value)_bias", PartitionSpec(None, "tensor", None)),
    (r"layers/attention/output", PartitionSpec(None, "tensor", None, "fsdp")),
    (r"layers/mlp/(gate|up)", PartitionSpec(None, "fsdp", "tensor")),
    (r"layers/mlp/down", PartitionSpec(None, "tensor", "fsdp")),
    (r"layers/(attention|mlp)_norm/scale", PartitionSpec(None, None)),
    (r"final_norm/scale", PartitionSpec(None)),
)


def build(settings: MeshSettings, *, micro_rows: int) -> Mesh:
    """A mesh over the first data * fsdp * tensor devices.

    Raises SettingsError where there are fewer devices, or where data * fsdp does not divide the rows of a microbatch.
    """
    shape = (settings.data, settings.fsdp, settings.tensor)
    wanted = settings.data * settings.fsdp * settings.tensor
    devices = jax.devices()
    if wanted > len(devices):
        raise SettingsError(f"mesh = {shape}: expected at most {len(devices)} devices in all, asked for {wanted}")
    _check_rows(settings, micro_rows)
    return jax.make_mesh(shape, AXES, devices=devices[:wanted], axis_types=AXIS_TYPES)


def build_abstract(settings: MeshSettings, *, micro_rows: int) -> AbstractMesh:
    """The mesh that `build` would make if the devices were there: enough to place shapes and to lower programs."""
    _check_rows(settings, micro_rows)
    return AbstractMesh((settings.data, settings.fsdp, settings.tensor), AXES, axis_types=AXIS_TYPES)


def spec_of(name: str) -> PartitionSpec:
    """The rule of a parameter path such as `layers/mlp/gate`; raises ValueError for a name without one."""
    for pattern, spec in RULES:
        if re.fullmatch(pattern, name):
            return spec
    raise ValueError(f"parameter {name!r}: expected a name that a sharding rule knows")


def shardings(mesh: Mesh | AbstractMesh, tree: typing.Any) -> typing.Any:
    """A NamedSharding for every leaf of parameters, or of anything that contains trees shaped like them.

    The moments of an optimizer follow their parameter; scalars are replicated. Raises ValueError for an unknown name
    and SettingsError for an axis that the mesh does not divide.
    """

    def sharding(path: tuple, leaf: typing.Any) -> NamedSharding:
        if not leaf.shape:
            return NamedSharding(mesh, PartitionSpec())
        names = [key.key for key in path if isinstance(key, jax.tree_util.DictKey)]
        spec = spec_of("/".join(names))
        for size, axis in zip(leaf.shape, spec, strict=True):
            if axis and size % mesh.shape[axis]:
                name = "/".join(names)
                raise SettingsError(f"mesh.{axis} = {mesh.shape[axis]}: expected a divisor of {size} ({name})")
        return NamedSharding(mesh, spec)

    return jax.tree_util.tree_map_with_path(sharding, tree)


def rows(mesh: Mesh | AbstractMesh, *, axis: int) -> NamedSharding:
    """Batches: the row axis over data and fsdp, everything else whole."""
    return NamedSharding(mesh, PartitionSpec(*[None] * axis, ROWS))


def replicated(mesh: Mesh | AbstractMesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec())


def _check_rows(settings: MeshSettings, micro_rows: int) -> None:
    if micro_rows % (settings.data * settings.fsdp):
        raise SettingsError(f"data.micro_rows = {micro_rows}: expected a multiple of mesh.data * mesh.fsdp")
