"""The policy network: a Flax linen decoder of the Qwen/Llama family (rotary, RMSNorm, grouped queries, SwiGLU).

Takes tokens with positions and segments, returns the final hidden states; `logits` turns those into scores over the
vocabulary. Layers are scanned, so that every parameter of a block carries a leading layer axis. Never samples, never
touches a file; one token at a time is `generation.token_step`.
"""

import functools
import math
import typing

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from optimrl_jax.distributed import sharding
from optimrl_jax.distributed.sharding import constrain
from optimrl_jax.model import attention, blockwise, inner_products, kv_cache, packed_attention
from optimrl_jax.model.kv_cache import KeyValue
from optimrl_jax.settings import ComputeSettings, ModelSettings, Network

_INIT = nn.initializers.normal(0.02)
# A nested dict of arrays by the names below; Flax has no better type for it.
Params = dict[str, typing.Any]
# NAME_lora beside the matrix NAME is a low-rank addition to it (`adapters`).
ADAPTER = "_lora"
_POLICIES = jax.checkpoint_policies
_BLOCK = _POLICIES.save_only_these_names(blockwise.ATTENDED)
POLICIES = {
    "block": _BLOCK,
    "dots": _POLICIES.save_from_both_policies(_POLICIES.dots_with_no_batch_dims_saveable, _BLOCK),
}


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def project(x: Float[Array, "..."], weights: Float[Array, "..."], inputs: int = 1) -> Float[Array, "..."]:
    """Sum over the last `inputs` axes of `x`, which are the first ones of `weights`, in the type of `x`.

    Equals `jnp.tensordot`, with gradients that move less memory. The gradient of a matrix is a product over tokens
    whose first factor compilers for CPU transpose, and automatic differentiation always puts the gradient of the output
    there, even where the input has fewer features. Weights are cast on the way, and their gradient comes back in the
    type in which they are stored: float32 sums are not rounded to bfloat16 before microbatches are added.

    Args:
      x: `[*rest, *inputs]`.
      weights: `[*inputs, *outputs]`, in the type in which they are stored.
      inputs: number of axes that are summed over.

    Returns:
      `[*rest, *outputs]`.
    """
    return jnp.tensordot(x, weights.astype(x.dtype), axes=inputs)


def _project_forward(x: Array, weights: Array, inputs: int) -> tuple[Array, tuple[Array, Array, Array]]:
    # Not `project` itself: a policy of rematerialization looks for products and sees none in a custom gradient. The
    # cast weights are kept because they are what is gathered on a mesh: cast again, they would be gathered again.
    narrow = weights.astype(x.dtype)
    return jnp.tensordot(x, narrow, axes=inputs), (x, narrow, jnp.zeros((), weights.dtype))


def _project_backward(inputs: int, kept: tuple[Array, Array, Array], grad: Array) -> tuple[Array, Array]:
    x, weights, stored = kept
    rest = tuple(range(x.ndim - inputs))
    outputs = weights.ndim - inputs
    x_grad = jnp.tensordot(grad, weights, axes=(tuple(range(-outputs, 0)), tuple(range(inputs, weights.ndim))))
    sum_tokens = functools.partial(jnp.tensordot, axes=(rest, rest), preferred_element_type=stored.dtype)
    if math.prod(weights.shape[:inputs]) <= math.prod(weights.shape[inputs:]):
        return x_grad, sum_tokens(x, grad)
    outputs_first = sum_tokens(grad, x)
    return x_grad, jnp.moveaxis(outputs_first, range(outputs), range(-outputs, 0))


project.defvjp(_project_forward, _project_backward)


def _project_adapted(
    module: nn.Module, name: str, x: Float[Array, "..."], weights: Float[Array, "..."], inputs: int = 1
) -> Float[Array, "..."]:
    """Project with the matrix `name` of a module, plus its low-rank adapter where the parameters have one."""
    projected = project(x, weights, inputs)
    if not module.has_variable("params", name + ADAPTER):
        return projected
    pair = module.get_variable("params", name + ADAPTER)
    return projected + project(project(x, pair["down"], inputs), pair["up"])


class RMSNorm(nn.Module):
    """Normalize by the root mean square, x / rms(x) * scale, computed in float32.

    Attributes:
      epsilon: added to the mean square.
    """

    epsilon: float

    @nn.compact
    def __call__(self, x: Float[Array, "*rest w"]) -> Float[Array, "*rest w"]:
        scale = self.param("scale", nn.initializers.ones, (x.shape[-1],))
        wide = x.astype(jnp.float32)
        normal = inner_products.scale_vectors(wide, jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1) + self.epsilon))
        # Spelled out, so that the gradient is one sum over all axes but the last, however few rows there are.
        return (normal * jnp.broadcast_to(scale, x.shape)).astype(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions; biases and norms of heads where the family has them.

    Attributes:
      settings: shape of the decoder and how it is computed.
    """

    settings: Network

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "s t w"],
        rotation: attention.Rotation,
        visibility: attention.Visibility,
        past: KeyValue | None,
        slot: Int[Array, " *s"] | int,
        window: attention.Window | None,
    ) -> tuple[Float[Array, "s t w"], KeyValue]:
        c = self.settings
        query, key, value = (
            self._project_heads(x, name, heads)
            for name, heads in (("query", c.heads), ("key", c.kv_heads), ("value", c.kv_heads))
        )
        if c.has_qk_norm:
            query = RMSNorm(c.norm_epsilon, name="query_norm")(query)
            key = RMSNorm(c.norm_epsilon, name="key_norm")(key)
        query, key = attention.rotate(query, rotation), attention.rotate(key, rotation)
        new = KeyValue(key.transpose(0, 2, 3, 1), value.swapaxes(1, 2))
        if past is not None:
            new = kv_cache.write_token(past, new, slot)
        summed = _attend(query, new, visibility, compute=c.compute, window=window)
        output = self.param("output", _INIT, (c.heads, c.head_width, c.width))
        return _project_adapted(self, "output", constrain(constrain(summed, "heads"), "projected"), output, 2), new

    def _project_heads(self, x: Float[Array, "s t w"], name: str, heads: int) -> Float[Array, "s t n d"]:
        width, head_width = self.settings.width, self.settings.head_width
        weights = self.param(name, _INIT, (width, heads, head_width))
        projected = constrain(_project_adapted(self, name, x, weights), "projected")
        if self.settings.has_qkv_bias:
            projected += self.param(f"{name}_bias", nn.initializers.zeros, (heads, head_width)).astype(x.dtype)
        return constrain(projected, "heads")


def _attend(
    query: Float[Array, "s t n d"],
    new: KeyValue,
    visibility: attention.Visibility,
    *,
    compute: ComputeSettings,
    window: attention.Window | None,
) -> Float[Array, "s t n d"]:
    """Attend under whatever stands for visibility; a window does not narrow what decoding sees, which is narrowed."""
    match visibility:
        case attention.TokenLayout():
            return packed_attention.attend_packed(query, new, visibility, compute=compute, window=window)
        case attention.FilledColumns():
            return packed_attention.attend_filled(query, new, visibility, compute=compute)
        case attention.PrefixedColumns():
            return packed_attention.attend_filled(query, new, visibility.own, visibility.prefix, compute=compute)
        case attention.Mask():
            return attention.attend(query, attention.KVBlock(new, visibility.within(window)))


class Mlp(nn.Module):
    """The SwiGLU feed-forward network: down(silu(gate(x)) * up(x)).

    Attributes:
      settings: shape of the decoder and how it is computed.
    """

    settings: Network

    @nn.compact
    def __call__(self, x: Float[Array, "s t w"]) -> Float[Array, "s t w"]:
        c = self.settings
        gate, up = (
            constrain(_project_adapted(self, name, x, self.param(name, _INIT, (c.width, c.mlp_width))), "features")
            for name in ("gate", "up")
        )
        # The backward pass computes it again: reading what is between would take longer.
        gated = jax.checkpoint(lambda gate, up: nn.silu(gate) * up)(gate, up)
        return _project_adapted(self, "down", gated, self.param("down", _INIT, (c.mlp_width, c.width)))


class Block(nn.Module):
    """One decoder block: x + attention(norm(x)), then x + mlp(norm(x)).

    With `past`, the new keys and values are first written there, in column `slot`: one column for all rows, or one for
    each row.

    Attributes:
      settings: shape of the decoder and how it is computed.
    """

    settings: Network

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "s t w"],
        rotation: attention.Rotation,
        visibility: attention.Visibility,
        past: KeyValue | None = None,
        slot: Int[Array, " *s"] | int = 0,
        window: Int[Array, ""] | None = None,
    ) -> tuple[Float[Array, "s t w"], KeyValue]:
        epsilon = self.settings.norm_epsilon
        attended, kept = Attention(self.settings, name="attention")(
            RMSNorm(epsilon, name="attention_norm")(x), rotation, visibility, past, slot, window
        )
        x = constrain(x + attended, "hidden")
        return constrain(x + Mlp(self.settings, name="mlp")(RMSNorm(epsilon, name="mlp_norm")(x)), "hidden"), kept


def rematerialized(block: type[nn.Module], remat: str, *, is_unrolled: bool) -> type[nn.Module]:
    """Return `block` under the policy `remat`, which says what its backward pass keeps and what it computes again.

    The results are the same, the memory of activations is not. Meant for blocks that are scanned: there the loop
    already keeps the compiler from merging what is computed twice, unless it is unrolled.

    Args:
      block: a Flax module class.
      remat: "none" keeps everything; "block" keeps the input of a block and the result of attention over packed rows;
        "dots" keeps the results of products with weights as well.
      is_unrolled: whether the scan over blocks is unrolled.
    """
    if remat == "none":
        return block
    return nn.remat(block, policy=POLICIES[remat], prevent_cse=is_unrolled)


class Decoder(nn.Module):
    """The whole stack over full sequences: training, scoring and the prefill of a cache.

    Attributes:
      settings: shape of the decoder and how it is computed.
    """

    settings: Network

    @nn.compact
    def __call__(
        self, tokens: Int[Array, "s t"], layout: attention.TokenLayout
    ) -> tuple[Float[Array, "s t w"], KeyValue]:
        """Return final hidden states, and the keys and values of all layers with a leading layer axis.

        Tokens of segment 0 are padding and see only each other.
        """
        c = self.settings
        table = self.param("embedding", _INIT, (c.vocabulary, c.width))
        if not c.has_tied_embeddings:
            self.param("unembedding", _INIT, (c.width, c.vocabulary))
        x = sharding.look_up(table, tokens, jnp.dtype(c.compute.dtype))
        rotation = attention.rotary_angles(layout.positions, c)
        windows = jnp.asarray(layer_windows(c), jnp.int32) if c.window else None
        visibility: attention.Visibility = layout
        if not packed_attention.uses_layout(c.compute, tokens=tokens.shape[1]):
            visibility = attention.Mask(attention.packed_mask(layout, layout), layout.positions, layout.positions)
        stack = nn.scan(
            rematerialized(Block, c.compute.remat, is_unrolled=c.compute.unroll > 1),
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=(nn.broadcast, nn.broadcast, nn.broadcast, nn.broadcast, 0),
            length=c.layers,
            unroll=c.compute.unroll,
        )
        x, kept = stack(c, name="layers")(x, rotation, visibility, None, 0, windows)
        return RMSNorm(c.norm_epsilon, name="final_norm")(x), kept


def initial_params(settings: ModelSettings, key: jax.Array) -> Params:
    """Draw random parameters: normal with standard deviation 0.02, norms at one, biases at zero.

    Args:
      settings: shape of the decoder.
      key: one key, one set of parameters.

    Returns:
      A nested dict of float32 arrays; parameters of blocks have a leading layer axis.
    """
    dummy = jnp.zeros((1, 1), jnp.int32)
    network = Network.of(settings, ComputeSettings())
    variables = Decoder(network).init(key, dummy, attention.TokenLayout(dummy, dummy + 1, dummy))
    return typing.cast(Params, variables["params"])


def abstract_params(settings: ModelSettings) -> Params:
    """Return the shapes and types of the parameters without allocating any."""
    return jax.eval_shape(lambda: initial_params(settings, jax.random.key(0)))


def hidden_states(
    params: Params,
    settings: Network,
    *,
    tokens: Int[Array | np.ndarray, "s t"],
    positions: Int[Array | np.ndarray, "s t"],
    segments: Int[Array | np.ndarray, "s t"],
    suffixes: Int[Array | np.ndarray, "s t"] | None = None,
) -> tuple[Float[Array, "s t w"], KeyValue]:
    """Run the decoder over whole rows.

    Args:
      params: parameters with stacked layers.
      settings: shape of the decoder and how it is computed.
      tokens: `[s, t]` token ids.
      positions: `[s, t]`, see `attention.TokenLayout`, as for the next two.
      segments: `[s, t]`, 0 for padding.
      suffixes: `[s, t]`; without them no sequences share a prefix.

    Returns:
      Final hidden states `[s, t, width]` in the compute type, and the keys and values of every layer, stacked.
    """
    suffixes = jnp.zeros_like(segments) if suffixes is None else suffixes
    layout = attention.TokenLayout(*map(jnp.asarray, (positions, segments, suffixes)))
    hidden, kept = typing.cast("tuple[Array, KeyValue]", Decoder(settings).apply({"params": params}, tokens, layout))
    return hidden, kept


def logits(params: Params, hidden: Float[Array, "*rest w"]) -> Float[Array, "*rest v"]:
    """Compute scores over the vocabulary, through the embedding table where the two are tied.

    Args:
      params: parameters with the embedding.
      hidden: `[*rest, w]` final hidden states.

    Returns:
      `[*rest, v]` in float32.
    """
    table = params["unembedding"] if "unembedding" in params else params["embedding"].T
    return jnp.matmul(hidden, table.astype(hidden.dtype), preferred_element_type=jnp.float32)


def layer_windows(settings: ModelSettings) -> tuple[int, ...]:
    """Return how many tokens each layer sees, itself included; `attention.NO_WINDOW` for a global layer."""
    every, first = settings.global_every, settings.global_first

    def is_global(layer: int) -> bool:
        return not settings.window or layer < first or (every > 0 and layer % every == 0)

    return tuple(attention.NO_WINDOW if is_global(layer) else settings.window for layer in range(settings.layers))
