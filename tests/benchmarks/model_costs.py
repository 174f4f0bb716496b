"""What a decoder costs by its shape: operations and bytes for each token, and the memory that compiled losses need.

Nothing here runs a model: memory is that of programs lowered and compiled on abstract arrays.
"""

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from optimrl_jax.data.packing import Packed
from optimrl_jax.learner import cross_entropy, loss
from optimrl_jax.model import decoder
from optimrl_jax.settings import ModelSettings

OBJECTIVE = functools.partial(loss.clipped_surrogate, temperature=1.0, epsilon_low=0.2, epsilon_high=0.25)


def matrix_parameters(model: ModelSettings) -> int:
    """Parameters that every token is multiplied with: all matrices of the blocks, and the output layer once."""
    attention = model.width * model.head_width * (2 * model.heads + 2 * model.kv_heads)
    return model.layers * (attention + 3 * model.width * model.mlp_width) + model.width * model.vocabulary


def update_flops(model: ModelSettings, lengths: Sequence[int]) -> float:
    """Model operations of forward and backward pass over whole sequences: 6 for each matrix parameter and token, and
    12 for each feature of the heads and each (query, key) pair that causality leaves. What is computed again is not
    counted."""
    pairs = sum(length * (length + 1) / 2 for length in lengths)
    features = model.layers * model.heads * model.head_width
    return 6.0 * matrix_parameters(model) * sum(lengths) + 12.0 * features * pairs


def decode_bytes(model: ModelSettings, *, rows: int, context: float) -> float:
    """Bytes that one decoding step cannot avoid reading: every matrix once, and the keys and values of every row."""
    cached = 2 * model.layers * model.kv_heads * model.head_width * context * rows
    return (matrix_parameters(model) + cached) * jnp.dtype(model.compute_dtype).itemsize


def loss_memory_share(*, tokens: int, vocabulary: int, width: int, chunk: int, dtype: jnp.dtype = jnp.float32) -> float:
    """Temporary memory of the chunked scores with their gradients over the bytes of dense float32 scores."""

    def total(params: dict, hidden: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = cross_entropy.chunked(params, hidden, targets, temperature=1.0, chunk=chunk)
        return found.log_prob.sum(), found.entropy.sum()

    shapes = (
        {"embedding": jax.ShapeDtypeStruct((vocabulary, width), jnp.float32)},
        jax.ShapeDtypeStruct((1, tokens, width), dtype),
        jax.ShapeDtypeStruct((1, tokens), jnp.int32),
    )
    compiled = jax.jit(jax.value_and_grad(total, argnums=(0, 1), has_aux=True)).lower(*shapes).compile()
    return compiled.memory_analysis().temp_size_in_bytes / (4 * tokens * vocabulary)


def compiled_update(model: ModelSettings, *, rows: int, row_tokens: int) -> jax.stages.Compiled:
    """Loss and gradients of packed rows, compiled; call it with parameters and `Packed` rows."""
    whole = jax.ShapeDtypeStruct((rows, row_tokens), jnp.int32)
    real = jax.ShapeDtypeStruct((rows, row_tokens), jnp.float32)
    packed = Packed(whole, whole, whole, dict.fromkeys(("weight", "advantage", "log_prob"), real))
    params = jax.eval_shape(lambda key: decoder.initial(model, key), jax.random.key(0))
    objective = functools.partial(OBJECTIVE, settings=model)
    return jax.jit(jax.value_and_grad(objective, has_aux=True)).lower(params, packed).compile()


def temporary_bytes(compiled: jax.stages.Compiled) -> int:
    """Memory that a compiled program needs beside its inputs and outputs."""
    return compiled.memory_analysis().temp_size_in_bytes


def growth_exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Slope of a straight line through the logarithms: 1 where values grow like sizes, 2 where like their squares."""
    x, y = ([math.log(value) for value in series] for series in (sizes, values))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - mean_x) ** 2 for a in x)
