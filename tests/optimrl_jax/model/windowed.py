"""A tiny decoder with windows, and its log-probabilities without any cache: one block after another, mask by mask."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from optimrl_jax.model import attention, decoder
from optimrl_jax.model.generation import token_step
from tests.optimrl_jax.model import tiny

SETTINGS = dataclasses.replace(tiny.SETTINGS, layers=3, window=5, global_every=3)


@jax.jit
def _scores(tree: decoder.Params, tokens: jax.Array) -> jax.Array:
    c, own = SETTINGS, token_step.unstack_layers(tree, SETTINGS)
    positions = jnp.arange(len(tokens))[None]
    by = attention.angles_of_positions(positions, attention.unscaled_frequencies(c.head_width, c.rope_theta))
    x = own["embedding"][tokens][None]
    for layer, window in zip(own["layers"], decoder.layer_windows(c), strict=True):
        seen = attention.causal_mask(positions, positions, window=window)
        x, _ = decoder.Block(c).apply({"params": layer}, x, by, attention.Mask(seen, positions, positions))
    x = decoder.RMSNorm(c.norm_epsilon).apply({"params": own["final_norm"]}, x)
    return jax.nn.log_softmax(decoder.logits(own, x)[0])


def log_probs(tree: decoder.Params, tokens: np.ndarray, *, longest: int) -> np.ndarray:
    """log p(tokens[t + 1] | tokens[:t + 1]) of a sequence of at most `longest` tokens."""
    padded = np.pad(np.asarray(tokens), (0, longest - len(tokens)))
    return np.asarray(_scores(tree, padded))[np.arange(len(tokens) - 1), np.asarray(tokens)[1:]]
