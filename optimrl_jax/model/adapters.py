"""Low-rank adapters (LoRA) beside the frozen matrices of a decoder: made, added, merged.

Pure. A decoder multiplies with W + (alpha / rank) A B: W stays as it is, A [inputs, rank] and B [rank, outputs] are
trained. A tree of adapters has a pair "NAME_lora" for each adapted matrix NAME, where the matrix itself would be, with
"down" (A) and "up" (B). `add_adapters` puts the pairs beside the matrices, where `decoder` looks for them; the update
differentiates that. `merge_adapters` adds them to the matrices, which is what samples, serves and is exported.
"""

import math
import typing
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp

from optimrl_jax.model import decoder
from optimrl_jax.model.decoder import Params
from optimrl_jax.settings import LoraSettings, ModelSettings, Network

SUFFIX = decoder.ADAPTER
# Where the matrices that can be adapted are, and how many of their axes are inputs.
MATRICES = {
    "query": ("attention", 1),
    "key": ("attention", 1),
    "value": ("attention", 1),
    "output": ("attention", 2),
    "gate": ("mlp", 1),
    "up": ("mlp", 1),
    "down": ("mlp", 1),
}


def initial_adapters(model: ModelSettings, lora: LoraSettings, key: jax.Array) -> Params:
    """Draw adapters that change nothing yet: A normal with variance 1 / inputs, B zero.

    Args:
      model: shape of the decoder.
      lora: rank and adapted matrices.
      key: one key, one set of adapters.

    Returns:
      A nested dict of float32 arrays with a leading layer axis: "down" `[layers, *inputs, rank]` and "up"
      `[layers, rank, *outputs]` of each matrix.
    """
    adapters: Params = {}
    for index, (name, shape, inputs) in enumerate(_adapted_shapes(model, lora)):
        features = math.prod(shape[1 : 1 + inputs])
        down = jax.random.normal(jax.random.fold_in(key, index), (*shape[: 1 + inputs], lora.rank)) / features**0.5
        pair = {"down": down, "up": jnp.zeros((shape[0], lora.rank, *shape[1 + inputs :]))}
        adapters.setdefault("layers", {}).setdefault(MATRICES[name][0], {})[name + SUFFIX] = pair
    return adapters


def abstract_adapters(model: ModelSettings, lora: LoraSettings) -> Params:
    """Return the shapes and types of the adapters without allocating any."""
    return jax.eval_shape(lambda: initial_adapters(model, lora, jax.random.key(0)))


def frozen_base(params: Params, network: Network) -> Params:
    """Return parameters in the type in which they are used, as they lie beside adapters: norms stay in float32.

    Args:
      params: arrays or shapes.
      network: with the type of the computation.
    """
    dtype = jnp.dtype(network.compute.dtype)

    def cast(path: tuple, x: typing.Any) -> typing.Any:
        if path[-1].key == "scale" or x.dtype == dtype:
            return x
        is_shape = isinstance(x, jax.ShapeDtypeStruct)
        return jax.ShapeDtypeStruct(x.shape, dtype, sharding=x.sharding) if is_shape else x.astype(dtype)

    return jax.tree_util.tree_map_with_path(cast, params)


def add_adapters(base: Params, adapters: Params, lora: LoraSettings) -> Params:
    """Put adapters beside their matrices, with B scaled by alpha / rank; differentiable in the adapters.

    Args:
      base: parameters with stacked layers.
      adapters: of the same decoder.
      lora: rank and alpha.

    Returns:
      Parameters that the decoder takes; they share the arrays of the base.
    """
    layers = {
        block: {**matrices, **_scaled_pairs(adapters["layers"].get(block, {}), lora)}
        for block, matrices in base["layers"].items()
    }
    return {**base, "layers": layers}


def merge_adapters(base: Params, adapters: Params, lora: LoraSettings) -> Params:
    """Add adapters to their matrices, W + (alpha / rank) A B, in float32; each result has the type of its W.

    Args:
      base: parameters with stacked layers; not changed.
      adapters: of the same decoder.
      lora: rank and alpha.

    Returns:
      Parameters of the shape of the base.
    """

    def merged(block: str, name: str, matrix: jax.Array) -> jax.Array:
        pair = adapters["layers"].get(block, {}).get(name + SUFFIX)
        if pair is None:
            return matrix

        def add(of_layer: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
            weights, down, up = of_layer
            return (weights + jnp.tensordot(down, up, axes=1) * lora.scale).astype(weights.dtype)

        # Layer by layer: the product of all layers would be as large as the float32 weights.
        return jax.lax.map(add, (matrix, pair["down"], pair["up"]))

    layers = {
        block: {name: merged(block, name, matrix) for name, matrix in matrices.items()}
        for block, matrices in base["layers"].items()
    }
    return {**base, "layers": layers}


def adapted_loss(loss: Callable[..., typing.Any], lora: LoraSettings) -> Callable[..., typing.Any]:
    """Return `loss` as a function of (adapters, rows, base): what `training.trainer.update` differentiates.

    Args:
      loss: (params, rows) -> what the trainer minimizes.
      lora: rank and alpha.
    """

    def of_adapters(adapters: Params, rows: typing.Any, base: Params) -> typing.Any:
        return loss(add_adapters(base, adapters, lora), rows)

    return of_adapters


def _scaled_pairs(pairs: Params, lora: LoraSettings) -> Params:
    return {name: {"down": pair["down"], "up": pair["up"] * lora.scale} for name, pair in pairs.items()}


def _adapted_shapes(model: ModelSettings, lora: LoraSettings) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Yield name, stacked shape and number of input axes of each adapted matrix, in the order of `MATRICES`."""
    layers = decoder.abstract_params(model)["layers"]
    for name, (block, inputs) in MATRICES.items():
        if name in lora.targets:
            yield name, layers[block][name].shape, inputs
