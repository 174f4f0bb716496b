"""What one update costs, from shapes alone: bytes on each device and floating-point operations.

Pure, and nothing is allocated: states are shapes with shardings on an abstract mesh. Bytes of the state are exact.
What a microbatch holds beside it is traced on the share of one device (`liveness`), to about a tenth. `dry_run`
derives seconds from the operations and the peak of the device.
"""

import dataclasses
import math
import typing

import jax
import jax.numpy as jnp
from jax.interpreters import partial_eval

from optimrl_jax.data import packing
from optimrl_jax.distributed import sharding
from optimrl_jax.model import decoder
from optimrl_jax.planning import liveness
from optimrl_jax.settings import DataSettings, MeshSettings, ModelSettings, Network, Settings
from optimrl_jax.training import trainer

BACKWARD_AND_FORWARD = 3  # a backward pass is two forward passes


@dataclasses.dataclass(frozen=True)
class ParameterLine:
    """One parameter of a policy as it lies on a mesh.

    Attributes:
      name: path of the parameter.
      shape: of the whole parameter.
      dtype: its type.
      spec: how the mesh splits it.
      device_bytes: bytes of it on each device.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    spec: str
    device_bytes: int


def placed_state(
    params: decoder.Params, optimizer: typing.Any, *, mesh: jax.sharding.AbstractMesh | jax.sharding.Mesh
) -> typing.Any:
    """Describe the training state of a real run: shapes with the shardings that the run gives them.

    Raises:
      ValueError: for a parameter that no sharding rule knows.
      SettingsError: for an axis of the mesh that does not divide the axis it splits.
    """
    state = jax.eval_shape(lambda p: trainer.initial_state(p, optimizer), params)
    return _placed(state, sharding.param_shardings(mesh, state))


def placed_params(params: decoder.Params, *, mesh: jax.sharding.AbstractMesh | jax.sharding.Mesh) -> decoder.Params:
    """Describe parameters that no optimizer moves: shapes with the shardings that a run gives them."""
    return _placed(params, sharding.param_shardings(mesh, params))


def placed_batch(
    names: tuple[str, ...],
    data: DataSettings,
    *,
    microbatches: int,
    mesh: jax.sharding.AbstractMesh | jax.sharding.Mesh,
) -> packing.Packed:
    """Describe a packed batch `[microbatches, micro_rows, row_tokens]`: shapes with shardings.

    Args:
      names: what its `per_token` holds.
      data: rows of a microbatch and their length in tokens.
      microbatches: how many.
      mesh: the devices.
    """
    batch = _rows(names, (microbatches, data.micro_rows, data.row_tokens))
    return _placed(batch, jax.tree.map(lambda _: sharding.row_sharding(mesh, axis=1), batch))


def parameter_lines(params: decoder.Params) -> list[ParameterLine]:
    """Describe each parameter in one line, in the order of the tree; `params` carry shardings."""
    return [
        ParameterLine(
            "/".join(key.key for key in path), leaf.shape, leaf.dtype.name, str(leaf.sharding.spec), device_bytes(leaf)
        )
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    ]


def device_bytes(tree: typing.Any) -> int:
    """Sum the bytes on one device of a tree of shapes with shardings."""
    return sum(math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def temporary_bytes(
    loss: trainer.Loss,
    weights: tuple[decoder.Params, ...],
    names: tuple[str, ...],
    *,
    settings: Settings,
) -> int:
    """Trace the most bytes that one device holds at once for the gradients of a microbatch, beside the state.

    Traced with the heads, hidden features and rows of one device. A single row would trace another program, so that
    twice and four times the rows are, and what one has follows from both.

    Args:
      loss: of the network that one device sees (`local_model`).
      weights: shapes of what is trained there, and of what is frozen, if anything is.
      names: the per-token values that the loss reads.
      settings: mesh, model, and size of rows and microbatches.
    """
    rows = settings.data.micro_rows // (settings.mesh.data * settings.mesh.fsdp)
    row_tokens = settings.data.row_tokens // settings.mesh.sequence
    trained, *frozen = weights
    size = _device_size(trained, settings)

    def gradients(trained: decoder.Params, *others: typing.Any) -> typing.Any:
        return jax.grad(lambda q: loss(q, *others), has_aux=True)(trained)

    def peak(times: int) -> int:
        traced = jax.make_jaxpr(gradients)(trained, _rows(names, (times * rows, row_tokens)), *frozen).jaxpr
        # What nobody reads, such as gradients of frozen weights, is not computed.
        needed, _ = partial_eval.dce_jaxpr(traced, [True] * len(traced.outvars))
        return liveness.peak_bytes(needed, size)

    twice, four_times = peak(2), peak(4)
    return twice - (four_times - twice) // 2


def _device_size(trained: decoder.Params, settings: Settings) -> liveness.Size:
    """Return the bytes on one device of arrays that are traced as if parameters were gathered all the time."""
    model, mesh = settings.network, settings.mesh
    whole = sharding.build_abstract_mesh(mesh, micro_rows=settings.data.micro_rows)
    placed = placed_params(decoder.abstract_params(model), mesh=whole)
    on_device = {key: device_bytes(leaf) for key, leaf in jax.tree_util.tree_leaves_with_path(placed)}
    parts = {
        leaf.shape: max(1, _bytes(leaf) // on_device[key])
        for key, leaf in jax.tree_util.tree_leaves_with_path(trained)
        if key in on_device
    }
    table, kept = (model.width, model.vocabulary), (model.layers, model.width)

    def size(array: typing.Any, in_loop: bool) -> int:
        count, shape = liveness.array_bytes(array), tuple(getattr(array, "shape", ()))
        if settings.compute.logits_chunk and set(shape) == set(table):
            # Chunks of tokens need the whole table, and the sum of its gradients over the devices is under way while
            # the layers go backwards.
            is_whole = in_loop or (shape == table and array.dtype == jnp.float32)
            return count if is_whole else count // parts.get(shape, 1)
        if len(shape) == 4 and (shape[0], shape[-1]) == kept and shape not in parts:
            # Hidden states that all layers keep: the partitioner splits those over the tensor axis.
            return count // mesh.tensor
        return count // parts.get(shape, 1)

    return size


def local_model(model: Network, mesh: MeshSettings) -> Network:
    """Return the decoder whose arrays have the shapes that one device of the tensor axis sees."""
    names = ["heads", "kv_heads", "mlp_width"]
    # With scores for a chunk of tokens at a time, devices that share a row share its chunks and not the vocabulary.
    names += [] if model.compute.logits_chunk else ["vocabulary"]
    parts = {name: getattr(model, name) // mesh.tensor for name in names}
    return dataclasses.replace(model, **parts)


def matrix_parameters(model: ModelSettings) -> int:
    """Count the parameters that every token is multiplied with: all matrices of the blocks, and the output layer once.

    An embedding table of its own is only looked up; norms and biases are no products.
    """
    attention = model.width * model.head_width * (2 * model.heads + 2 * model.kv_heads)
    return model.layers * (attention + 3 * model.width * model.mlp_width) + model.width * model.vocabulary


def update_flops(
    model: ModelSettings,
    *,
    sequences: float,
    tokens: float,
    shared: float = 0,
    members: int = 1,
    trains_all: bool = True,
) -> float:
    """Count the floating-point operations of one update, without what is recomputed.

    6 for each token and parameter of a matrix product, and 12 heads head_width a layer for each of the t (t + 1) / 2
    pairs of tokens that causal attention leaves.

    Args:
      model: shape of the decoder.
      sequences: number of sequences.
      tokens: length of each.
      shared: first tokens that `members` sequences at a time process together.
      members: sequences that do so; all but one of them are spared those tokens and the pairs among them.
      trains_all: whether matrices have gradients; adapters, which are small, are not counted.
    """
    spared = 1 - 1 / members
    passes = BACKWARD_AND_FORWARD if trains_all else BACKWARD_AND_FORWARD - 1
    products = 2 * passes * matrix_parameters(model) * (tokens - spared * shared)
    features = model.layers * model.heads * model.head_width
    pairs = tokens * (tokens + 1) - spared * shared * (shared + 1)
    return sequences * (products + 2 * BACKWARD_AND_FORWARD * pairs * features)


def _rows(names: tuple[str, ...], shape: tuple[int, ...]) -> packing.Packed:
    def rows() -> packing.Packed:
        whole = jnp.zeros(shape, jnp.int32)
        return packing.Packed(whole, whole, whole, whole, {name: jnp.zeros(shape, jnp.float32) for name in names})

    return jax.eval_shape(rows)


def _placed(tree: typing.Any, shardings: typing.Any) -> typing.Any:
    return jax.tree.map(lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree, shardings)


def _bytes(array: typing.Any) -> int:
    return math.prod(array.shape) * array.dtype.itemsize
