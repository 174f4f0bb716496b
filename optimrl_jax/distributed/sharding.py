"""Where every array lives: a mesh of data, fsdp, sequence and tensor, and strict tables of parameters and activations.

A parameter or an activation whose name no rule knows is an error, never silently replicated. Rows of a batch are split
over data and fsdp, their tokens over sequence, heads and hidden features over tensor. Parameters are split over fsdp
and sequence as well and gathered where a layer uses them: with the activations pinned to their rows, that is the
cheapest thing left for the partitioner to do.
Left free, it keeps the rows of all devices on every device and sums features over fsdp instead: 80 times the traffic.

`constrain` reads the mesh from the context (`on_mesh`), so that the model states where an activation lives without
knowing of any mesh; without one it does nothing.
"""

import contextlib
import dataclasses
import math
import re
import typing
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.settings import MeshSettings, ModelSettings

AnyMesh = Mesh | AbstractMesh
DATA = "data"
ROWS = (DATA, "fsdp")
# Parameters are split over the devices that share a row as well: rows of one device are the same parameters' anyway.
WEIGHTS = ("fsdp", "sequence")
AXES = (*ROWS, "sequence", "tensor")
HEADS = ("tensor", "sequence")
AXIS_TYPES = (AxisType.Auto,) * len(AXES)

# Leading None is the layer axis of the scanned blocks.
RULES = (
    (r"embedding", PartitionSpec("tensor", WEIGHTS)),
    (r"unembedding", PartitionSpec(WEIGHTS, "tensor")),
    (r"layers/attention/(query|key|value)", PartitionSpec(None, WEIGHTS, "tensor", None)),
    (r"layers/attention/(query|key|value)_bias", PartitionSpec(None, "tensor", None)),
    (r"layers/attention/output", PartitionSpec(None, "tensor", None, WEIGHTS)),
    (r"layers/mlp/(gate|up)", PartitionSpec(None, WEIGHTS, "tensor")),
    (r"layers/mlp/down", PartitionSpec(None, "tensor", WEIGHTS)),
    (r"layers/(attention|mlp)_norm/scale", PartitionSpec(None, None)),
    (r"layers/attention/(query|key)_norm/scale", PartitionSpec(None, None)),
    (r"final_norm/scale", PartitionSpec(None)),
    # Adapters lie as their matrices do; the axis of ranks is whole everywhere.
    (r"layers/attention/(query|key|value)_lora/down", PartitionSpec(None, WEIGHTS, None)),
    (r"layers/attention/(query|key|value)_lora/up", PartitionSpec(None, None, "tensor", None)),
    (r"layers/attention/output_lora/down", PartitionSpec(None, "tensor", None, None)),
    (r"layers/mlp/(gate|up)_lora/down", PartitionSpec(None, WEIGHTS, None)),
    (r"layers/mlp/(gate|up)_lora/up", PartitionSpec(None, None, "tensor")),
    (r"layers/mlp/down_lora/down", PartitionSpec(None, "tensor", None)),
    (r"layers/(attention/output|mlp/down)_lora/up", PartitionSpec(None, None, WEIGHTS)),
)

# By the name of an activation: rows `s`, tokens `t`, width `w`, heads `n`, features `f`, vocabulary `v`.
ACTIVATIONS = {
    "rows": PartitionSpec(ROWS),  # [s]
    "tokens": PartitionSpec(ROWS, None),  # [s, t]
    "hidden": PartitionSpec(ROWS, "sequence", None),  # [s, t, w]
    "projected": PartitionSpec(ROWS, "sequence", "tensor", None),  # [s, t, n, d]
    # Attention sees whole rows: devices that share a row exchange tokens for heads.
    "heads": PartitionSpec(ROWS, None, HEADS, None),  # [s, t, n, d]
    "features": PartitionSpec(ROWS, "sequence", "tensor"),  # [s, t, f]
    "scores": PartitionSpec(ROWS, "sequence", "tensor"),  # [s, t, v]
    "keys": PartitionSpec(ROWS, HEADS, None, None),  # [s, m, d, t]
    "values": PartitionSpec(ROWS, HEADS, None, None),  # [s, m, t, d]
    # The head: each device that shares a row takes a share of its tokens, with the whole table.
    "chunks": PartitionSpec(("sequence", "tensor"), ROWS),  # [c, s, ...]
    "head_gradient": PartitionSpec(WEIGHTS, "tensor"),  # [w, v]
    "embedding": PartitionSpec("tensor", WEIGHTS),  # [v, w], as the parameter lies
    "everywhere": PartitionSpec(),
}


def build_mesh(settings: MeshSettings, *, micro_rows: int) -> Mesh:
    """Build a mesh over the devices that the settings ask for: the first of each process, equally many of each.

    Args:
      settings: devices along each axis, over all processes.
      micro_rows: rows of a microbatch, over all processes.

    Raises:
      SettingsError: if there are too few devices, or data * fsdp does not divide the rows of a microbatch.
    """
    shape, wanted = settings.shape, settings.devices
    each = wanted // jax.process_count()
    devices = [device for index in range(jax.process_count()) for device in jax.local_devices(index)[:each]]
    if wanted != len(devices):
        raise SettingsError(f"mesh = {shape}: expected at most {jax.device_count()} devices in all, asked for {wanted}")
    _check_rows(settings, micro_rows)
    return jax.make_mesh(shape, AXES, devices=devices, axis_types=AXIS_TYPES)


def build_abstract_mesh(settings: MeshSettings, *, micro_rows: int) -> AbstractMesh:
    """Build the mesh that `build_mesh` would make if the devices were there.

    It is enough to place shapes and to lower programs.

    Raises:
      SettingsError: if data * fsdp does not divide the rows of a microbatch.
    """
    _check_rows(settings, micro_rows)
    return AbstractMesh(settings.shape, AXES, axis_types=AXIS_TYPES)


def check_heads(settings: MeshSettings, model: ModelSettings, *, row_tokens: int) -> None:
    """Check that devices which share a row can share its tokens and, in attention, its heads.

    Raises:
      SettingsError: if they cannot.
    """
    if settings.sequence == 1:
        return
    shares = settings.sequence * settings.tensor
    if model.kv_heads % shares:
        raise SettingsError(
            f"mesh.sequence = {settings.sequence}: expected mesh.sequence * mesh.tensor to divide the {model.kv_heads} "
            "heads of keys"
        )
    if row_tokens % settings.sequence:
        raise SettingsError(
            f"mesh.sequence = {settings.sequence}: expected a divisor of data.row_tokens = {row_tokens}"
        )


def spec_of(name: str) -> PartitionSpec:
    """Look up the rule of a parameter path such as `layers/mlp/gate`.

    Raises:
      ValueError: if no rule knows the name.
    """
    for pattern, spec in RULES:
        if re.fullmatch(pattern, name):
            return spec
    raise ValueError(f"parameter {name!r}: expected a name that a sharding rule knows")


def param_shardings(mesh: Mesh | AbstractMesh, tree: typing.Any) -> typing.Any:
    """Place every leaf of parameters, or of anything that contains trees shaped like them.

    The moments of an optimizer follow their parameter; scalars are replicated.

    Args:
      mesh: the devices; an abstract mesh serves as well.
      tree: arrays or shapes.

    Returns:
      A tree of the same form with a NamedSharding for each leaf.

    Raises:
      ValueError: for a leaf whose name no rule knows.
      SettingsError: for an axis of the mesh that does not divide the axis it splits.
    """

    def sharding(path: tuple, leaf: typing.Any) -> NamedSharding:
        if not leaf.shape:
            return NamedSharding(mesh, PartitionSpec())
        names = [key.key for key in path if isinstance(key, jax.tree_util.DictKey)]
        spec = spec_of("/".join(names))
        for size, part in zip(leaf.shape, spec, strict=True):
            axes = [axis for axis in (part if isinstance(part, tuple) else (part,)) if axis and mesh.shape[axis] > 1]
            shares = math.prod(mesh.shape[axis] for axis in axes)
            if size % shares:
                asked = " * ".join(f"mesh.{axis}" for axis in axes)
                raise SettingsError(f"{asked} = {shares}: expected a divisor of {size} ({'/'.join(names)})")
        return NamedSharding(mesh, spec)

    return jax.tree_util.tree_map_with_path(sharding, tree)


def on_mesh(mesh: Mesh | AbstractMesh) -> contextlib.AbstractContextManager[object]:
    """Return a context in which `constrain`, `map_devices` and `look_up` refer to this mesh as a program is traced."""
    return jax.sharding.use_abstract_mesh(mesh if isinstance(mesh, AbstractMesh) else mesh.abstract_mesh)


def constrain(x: jax.Array, name: str) -> jax.Array:
    """Pin an activation to its place on the mesh of the context; return it unchanged where there is no mesh.

    Args:
      x: the activation; its axes are those that `ACTIVATIONS` lists for `name`.
      name: which activation it is.

    Raises:
      KeyError: if no rule knows the name.
    """
    mesh, spec = jax.sharding.get_abstract_mesh(), ACTIVATIONS[name]
    free = _free_axes(mesh)
    if not free:
        return x
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, _restricted(spec, free)))


@dataclasses.dataclass(frozen=True)
class Summed:
    """An output of `map_devices` that adds up what all devices computed; the sum is then split as `place` says."""

    place: str


def map_devices(
    function: Callable[..., typing.Any], *, inputs: typing.Any, outputs: typing.Any
) -> Callable[..., typing.Any]:
    """Return `function` as each device of the mesh of the context computes it on its own part, sending nothing.

    What the compiler cannot split by itself, or would send something for in a loop, goes through here. Without a mesh
    the function comes back as it is.

    Args:
      function: takes and returns arrays; sees the part of one device.
      inputs: the place of each argument by its name in `ACTIVATIONS`; trees, or prefixes of them.
      outputs: the same for what it returns; `Summed` where the devices' results are to be added up, once, at the end.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if not _free_axes(mesh):
        return function
    # Axes of one device as well: a kernel requires every axis of the mesh to be manual, and the gradient of an argument
    # is summed over every manual axis that its place does not name.
    axes = frozenset(mesh.axis_names) - frozenset(mesh.manual_axes)

    def spec(place: str | Summed) -> PartitionSpec:
        return _restricted(ACTIVATIONS[place.place if isinstance(place, Summed) else place], axes)

    def on_device(*arguments: typing.Any) -> typing.Any:
        def finish(place: str | Summed, part: typing.Any) -> typing.Any:
            return (
                jax.tree.map(lambda x: _sum_devices(x, spec(place), axes), part) if isinstance(place, Summed) else part
            )

        return jax.tree.map(finish, outputs, function(*arguments))

    specs = jax.tree.map(spec, (inputs, outputs))
    return jax.shard_map(on_device, in_specs=specs[0], out_specs=specs[1], axis_names=axes, check_vma=False)


def _sum_devices(x: jax.Array, spec: PartitionSpec, axes: frozenset[str]) -> jax.Array:
    """Sum over the devices of `axes`; each keeps the part that `spec` gives it."""
    scattered = [
        (name, at) for at, part in enumerate(spec) if part for name in (part if isinstance(part, tuple) else (part,))
    ]
    for name, at in scattered:
        x = jax.lax.psum_scatter(x, name, scatter_dimension=at, tiled=True)
    whole = axes - {name for name, _ in scattered}
    x = jax.lax.psum(x, tuple(sorted(whole))) if whole else x
    # Compilers move sums over devices behind a loop that adds them up: each device would then add up the whole.
    return jax.lax.optimization_barrier(x) if scattered else x


def look_up(table: Float[Array, "v w"], ids: Int[Array, "s t"], dtype: jnp.dtype) -> Float[Array, "s t w"]:
    """Look up the row of an embedding table for each token and place the result as "hidden".

    On a mesh each device looks up its part of the features for the rows of all devices of its fsdp group, in its part
    of the vocabulary, and sends every device its own rows, or its part of their tokens. Left to the partitioner, the
    rows of all devices would be gathered on each. The gradient of the table stays in the table's type.
    """

    if not _free_axes(jax.sharding.get_abstract_mesh()):
        return table[ids].astype(dtype)

    def on_device(table: Array, ids: Array) -> Array:
        ids = jax.lax.all_gather(ids, "fsdp", tiled=True) - jax.lax.axis_index("tensor") * len(table)
        is_here = (ids >= 0) & (ids < len(table))
        found = jnp.where(is_here[..., None], table[jnp.clip(ids, 0, len(table) - 1)], 0).astype(dtype)
        found = jax.lax.all_to_all(found, "sequence", 1, 2, tiled=True)
        return jax.lax.psum(jax.lax.all_to_all(found, "fsdp", 0, 2, tiled=True), "tensor")

    return map_devices(on_device, inputs=("embedding", "tokens"), outputs="hidden")(table, ids)


def traced_platform() -> str:
    """Return the platform ("cpu", "gpu", "tpu") whose kernels may stand in the program that is being traced.

    That of the mesh of the context, or "" where its devices are not known. Without a mesh, that of the only device; of
    several, arrays may be split over them, and a kernel that no mesh is known for cannot be: "" again.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.axis_names:
        return mesh.abstract_device.platform if mesh.abstract_device is not None else ""
    return jax.default_backend() if jax.device_count() == 1 else ""


def axis_size(name: str) -> int:
    """Count the devices along an axis of the mesh of the context; 1 where there is no mesh."""
    mesh = jax.sharding.get_abstract_mesh()
    return mesh.shape[name] if name in _free_axes(mesh) else 1


def _free_axes(mesh: AbstractMesh) -> frozenset[str]:
    """Axes of more than one device over which the compiler, and not the program itself, splits arrays."""
    return frozenset(name for name in mesh.axis_names if mesh.shape[name] > 1 and name not in mesh.manual_axes)


def _restricted(spec: PartitionSpec, axes: frozenset[str]) -> PartitionSpec:
    """Drop the axes of a spec that are not among `axes`."""

    def kept(part: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if isinstance(part, tuple):
            return tuple(name for name in part if name in axes) or None
        return part if part in axes else None

    return PartitionSpec(*[kept(part) for part in spec])


def row_sharding(mesh: Mesh | AbstractMesh, *, axis: int) -> NamedSharding:
    """Split a batch by rows over data and fsdp, everything else whole.

    Args:
      mesh: the devices.
      axis: which axis of the arrays is that of rows.
    """
    # Axes of one device are left out, as compilers do: what comes back has the very sharding that went in.
    split = tuple(name for name in ROWS if mesh.shape[name] > 1)
    return NamedSharding(mesh, PartitionSpec(*[None] * axis, split))


def sum_over_data(
    of_part: Callable[..., typing.Any], mesh: Mesh | AbstractMesh
) -> Callable[[typing.Any, typing.Any, typing.Any], typing.Any]:
    """Compute `of_part` for each part of the data axis with its own rows and add up the results once, at the end.

    Left to the compiler, gradients are added up over the devices after every microbatch, and inside its loops over
    tokens; where another axis splits parameters, it has to be.

    Args:
      of_part: (params, batch, number) -> a tree of sums over the rows of `batch`, which are its axis 1.
      mesh: the devices; where any axis but data has several, `of_part` comes back as it is.
    """
    if mesh.shape[DATA] < mesh.size:
        return of_part

    def total(*inputs: typing.Any) -> typing.Any:
        return jax.lax.psum(of_part(*inputs), DATA)

    specs = PartitionSpec(), PartitionSpec(None, DATA), PartitionSpec()
    return jax.shard_map(total, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(), check_vma=False)


def replicated(mesh: Mesh | AbstractMesh) -> NamedSharding:
    """Place an array whole on every device of a mesh."""
    return NamedSharding(mesh, PartitionSpec())


def _check_rows(settings: MeshSettings, micro_rows: int) -> None:
    if micro_rows % (settings.data * settings.fsdp):
        raise SettingsError(f"data.micro_rows = {micro_rows}: expected a multiple of mesh.data * mesh.fsdp")
