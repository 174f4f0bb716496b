"""A decoder small enough for tests, with every feature of the large ones."""

import dataclasses
import functools

import jax
import numpy as np

from optimrl_jax.model import decoder
from optimrl_jax.model.generation import token_step
from optimrl_jax.settings import Network

SETTINGS = Network(
    width=32, layers=2, heads=4, kv_heads=2, head_width=8, mlp_width=48, vocabulary=40, rope_theta=10_000.0
)
UNTIED = dataclasses.replace(SETTINGS, has_tied_embeddings=False, has_qkv_bias=False)


hidden_states = jax.jit(decoder.hidden_states, static_argnums=1)
decode = jax.jit(token_step.decode_token, static_argnums=1)


@functools.cache
def params(settings: Network = SETTINGS, *, seed: int = 0, scale: float = 8.0) -> decoder.Params:
    """Random parameters with large embeddings and non-zero biases, so that distributions are far from uniform."""
    tree = jax.jit(decoder.initial_params, static_argnums=0)(settings, jax.random.key(seed))
    noise = jax.random.key(seed + 1)

    def spread(path: tuple, x: jax.Array) -> jax.Array:
        if path[-1].key.endswith("bias"):
            return 0.3 * jax.random.normal(noise, x.shape)
        return x if path[-1].key == "scale" else scale * x

    return jax.tree_util.tree_map_with_path(spread, tree)


def log_probs(tree: decoder.Params, settings: Network, tokens: np.ndarray) -> np.ndarray:
    """log p(tokens[t + 1] | tokens[:t + 1]) of one unpadded sequence, by one plain forward pass."""
    row = np.asarray(tokens, np.int32)[None]
    hidden, _ = hidden_states(
        tree, settings, tokens=row, positions=np.arange(row.shape[1])[None], segments=np.ones_like(row)
    )
    all_log_probs = jax.nn.log_softmax(decoder.logits(tree, hidden)[0])
    return np.asarray(all_log_probs[np.arange(len(tokens) - 1), np.asarray(tokens)[1:]])
