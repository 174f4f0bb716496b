"""One more token in every row: the decoder as sampling runs it again and again, over caches instead of sequences.

Pure. Between the prefill of a prompt (`decoder.hidden_states`) and the draw of the next token (`sampling`). Layers are
unrolled: inside a scan each step would copy every cache.
"""

import typing

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from optimrl_jax.model import attention, decoder
from optimrl_jax.model.decoder import Params
from optimrl_jax.model.kv_cache import KeyValue
from optimrl_jax.settings import Network


def unstack_layers(params: Params, settings: Network) -> Params:
    """Return parameters with a tuple of layers, and matrices in the type that they are used in.

    Slicing and casting here, once, keeps both out of the loop over tokens. Norms stay in float32. Parameters that are
    unstacked already are returned as they are.

    Args:
      params: parameters with stacked layers, or unstacked ones.
      settings: shape of the decoder and its compute type.
    """
    if isinstance(params["layers"], tuple):
        return params
    dtype = jnp.dtype(settings.compute.dtype)

    def cast(path: tuple, x: Array) -> Array:
        return x if path[-1].key == "scale" else x.astype(dtype)

    params = jax.tree_util.tree_map_with_path(cast, params)
    layers = (jax.tree.map(lambda stacked, n=n: stacked[n], params["layers"]) for n in range(settings.layers))
    return {**params, "layers": tuple(layers)}


class SharedPrefix(typing.NamedTuple):
    """The cache of prompts, one row for every k neighbouring rows that decode.

    Attributes:
      past: keys and values of each layer, b rows.
      key_positions: `[b, u]`, the position of each column, -1 where it is empty.
    """

    past: tuple[KeyValue, ...]
    key_positions: Int[Array, "b u"]

    def block(self, layer: int, positions: Int[Array, " s"], *, window: int) -> attention.KVBlock:
        """Return what rows see of the prefix in one layer: as much as the window reaches, because they stand behind it.

        Args:
          layer: its number.
          positions: `[s]` position of each row's newest token.
          window: positions that the layer sees.
        """
        columns = jnp.repeat(self.key_positions, len(positions) // len(self.key_positions), axis=0)[:, None]
        visible = columns >= 0
        # Left out where nothing is hidden, so that what is visible is the same for every token, and computed once.
        if window < attention.NO_WINDOW:
            visible &= positions[:, None, None] - columns < window
        return attention.KVBlock(self.past[layer], visible)


def decode_token(
    params: Params,
    settings: Network,
    *,
    tokens: Int[Array, " s"],
    positions: Int[Array, " s"],
    past: tuple[KeyValue, ...],
    slot: Int[Array, ""] | None = None,
    prefix: SharedPrefix | None = None,
) -> tuple[Float[Array, "s v"], tuple[KeyValue, ...]]:
    """Run one token a row and write it into the caches.

    Args:
      params: parameters; `unstack_layers` them first where this is called in a loop.
      settings: shape of the decoder.
      tokens: `[s]` token ids.
      positions: `[s]` their positions.
      past: the cache of each layer.
      slot: the column that all rows write, behind those that they have written before. Without it the caches are rings,
        no longer than the layer's window, and each row writes where its position belongs.
      prefix: what neighbouring rows also see, and share; only with `slot`.

    Returns:
      Scores of the next token `[s, v]` in float32, and the caches with the new token.
    """
    c, unstacked = settings, unstack_layers(params, settings)
    x = unstacked["embedding"][tokens][:, None].astype(jnp.dtype(c.compute.dtype))
    rotation = attention.rotary_angles(positions[:, None], c)
    kept = []
    for n, (layer, old, window) in enumerate(zip(unstacked["layers"], past, decoder.layer_windows(c), strict=True)):
        width = old.columns
        # A ring holds no more than the window sees.
        column = positions % width if slot is None else slot
        end = jnp.minimum(positions, width - 1) + 1 if slot is None else jnp.broadcast_to(slot + 1, positions.shape)
        own = attention.FilledColumns(jnp.maximum(end - window, 0), end)
        visibility: attention.Visibility = own
        if prefix is not None:
            visibility = attention.PrefixedColumns(own, prefix.block(n, positions, window=window))
        step = decoder.Block(c).apply({"params": layer}, x, rotation, visibility, old, column)
        x, new = typing.cast("tuple[Array, KeyValue]", step)
        kept.append(new)
    normal = decoder.RMSNorm(c.norm_epsilon).apply({"params": unstacked["final_norm"]}, x)
    x = typing.cast(Array, normal)
    return decoder.logits(unstacked, x[:, 0]), tuple(kept)
