"""What a decoder costs by its shape: operations and bytes for each token, and the memory that compiled losses need.

Nothing here runs a model: memory is that of programs lowered and compiled on abstract arrays.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from optimrl_jax.data.packing import Packed
from optimrl_jax.model import decoder
from optimrl_jax.planning import cost_model
from optimrl_jax.settings import Network
from optimrl_jax.training import objectives

OBJECTIVE = functools.partial(objectives.clipped_surrogate, temperature=1.0, epsilon_low=0.2, epsilon_high=0.25)


def decode_bytes(model: Network, *, rows: int, own: float, prompts: int, prompt_tokens: int) -> float:
    """Bytes that one decoding step cannot avoid reading: every matrix once, and the keys and values that rows see.

    Those of a prompt count once for all rows that share it, and each row's `own` tokens.
    """
    tokens = rows * own + prompts * prompt_tokens
    cached = 2 * model.layers * model.kv_heads * model.head_width * tokens
    return (cost_model.matrix_parameters(model) + cached) * jnp.dtype(model.compute.dtype).itemsize


def loss_memory_share(*, tokens: int, vocabulary: int, width: int, chunk: int, dtype: jnp.dtype = jnp.float32) -> float:
    """Temporary memory of the chunked scores with their gradients over the bytes of dense float32 scores."""

    def summed(found: objectives.Scores, _: objectives.PerToken) -> objectives.Sums:
        return {"loss": found.log_prob.sum(), "entropy": found.entropy.sum()}

    def total(params: dict, hidden: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
        sums = objectives.chunked_objective(params, hidden, targets, {}, summed, temperature=1.0, chunk=chunk)
        return sums["loss"], sums["entropy"]

    shapes = (
        {"embedding": jax.ShapeDtypeStruct((vocabulary, width), jnp.float32)},
        jax.ShapeDtypeStruct((1, tokens, width), dtype),
        jax.ShapeDtypeStruct((1, tokens), jnp.int32),
    )
    compiled = jax.jit(jax.value_and_grad(total, argnums=(0, 1), has_aux=True)).lower(*shapes).compile()
    return compiled.memory_analysis().temp_size_in_bytes / (4 * tokens * vocabulary)


def compiled_update(model: Network, *, rows: int, row_tokens: int) -> jax.stages.Compiled:
    """Loss and gradients of packed rows, compiled; call it with parameters and `Packed` rows."""
    whole = jax.ShapeDtypeStruct((rows, row_tokens), jnp.int32)
    real = jax.ShapeDtypeStruct((rows, row_tokens), jnp.float32)
    packed = Packed(whole, whole, whole, whole, dict.fromkeys(("weight", "advantage", "log_prob"), real))
    params = decoder.abstract_params(model)
    objective = functools.partial(OBJECTIVE, settings=model)
    return jax.jit(jax.value_and_grad(objective, has_aux=True)).lower(params, packed).compile()


def temporary_bytes(compiled: jax.stages.Compiled) -> int:
    """Memory that a compiled program needs beside its inputs and outputs."""
    return compiled.memory_analysis().temp_size_in_bytes


def growth_exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Slope of a straight line through the logarithms: 1 where values grow like sizes, 2 where like their squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
