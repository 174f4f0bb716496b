"""The policy network: a Flax linen decoder of the Qwen2/Llama family (rotary, RMSNorm, grouped queries, SwiGLU).

Takes tokens with positions and segments, returns the final hidden states; `logits` turns those into scores over the
vocabulary. Layers are scanned, so that every parameter of a block carries a leading layer axis. Never samples, never
touches a file.
"""

import functools
import math
import typing

import flax.linen as nn
import jax
import jax.numpy as jnp

from optimrl_jax.model import attention, blockwise, kv_cache
from optimrl_jax.model.kv_cache import KeyValue
from optimrl_jax.settings import ModelSettings

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int

_INIT = nn.initializers.normal(0.02)
Params = typing.Any
_POLICIES = jax.checkpoint_policies
_BLOCK = _POLICIES.save_only_these_names(blockwise.ATTENDED)
POLICIES = {
    "block": _BLOCK,
    "dots": _POLICIES.save_from_both_policies(_POLICIES.dots_with_no_batch_dims_saveable, _BLOCK),
}


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(
    x: "Float[Array, '*rest *inputs']", weights: "Float[Array, '*inputs *outputs']", inputs: int = 1
) -> "Float[Array, '*rest *outputs']":
    """Sum over the last `inputs` axes of `x`, which are the first ones of `weights`: [*rest, *outputs]."""
    return jnp.tensordot(x, weights, axes=inputs)


def _forward(x: "Array", weights: "Array", inputs: int) -> tuple["Array", tuple["Array", "Array"]]:
    return product(x, weights, inputs), (x, weights)


def _backward(inputs: int, kept: tuple["Array", "Array"], grad: "Array") -> tuple["Array", "Array"]:
    x, weights = kept
    rest = tuple(range(x.ndim - inputs))
    outputs = weights.ndim - inputs
    x_grad = jnp.tensordot(grad, weights, axes=(tuple(range(-outputs, 0)), tuple(range(inputs, weights.ndim))))
    if math.prod(weights.shape[:inputs]) <= math.prod(weights.shape[inputs:]):
        return x_grad, jnp.tensordot(x, grad, axes=(rest, rest))
    turned = jnp.tensordot(grad, x, axes=(rest, rest))
    return x_grad, jnp.moveaxis(turned, range(outputs), range(-outputs, 0))


product.defvjp(_forward, _backward)


class RMSNorm(nn.Module):
    """x / rms(x) * scale, computed in float32."""

    epsilon: float

    @nn.compact
    def __call__(self, x: "Float[Array, '*rest w']") -> "Float[Array, '*rest w']":
        scale = self.param("scale", nn.initializers.ones, (x.shape[-1],))
        wide = x.astype(jnp.float32)
        normal = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + self.epsilon)
        # Spelled out, so that the gradient is one sum over all axes but the last, however few rows there are.
        return (normal * jnp.broadcast_to(scale, x.shape)).astype(x.dtype)


class Branches(typing.NamedTuple):
    """What a row sees of its own cache, and of a trunk that neighbouring rows share."""

    own: "Bool[Array, 's 1 u']"
    trunk: attention.Held


class Attention(nn.Module):
    settings: ModelSettings

    def setup(self) -> None:
        c = self.settings
        for name, heads in (("query", c.heads), ("key", c.kv_heads), ("value", c.kv_heads)):
            setattr(self, name, self.param(name, _INIT, (c.width, heads, c.head_width)))
            if c.has_qkv_bias:
                bias = self.param(f"{name}_bias", nn.initializers.zeros, (heads, c.head_width))
                setattr(self, f"{name}_bias", bias)
        self.output = self.param("output", _INIT, (c.heads, c.head_width, c.width))

    def _project(self, x: "Float[Array, 's t w']", name: str) -> "Float[Array, 's t n d']":
        projected = product(x, getattr(self, name).astype(x.dtype))
        if self.settings.has_qkv_bias:
            projected += getattr(self, f"{name}_bias").astype(x.dtype)
        return projected

    def __call__(
        self,
        x: "Float[Array, 's t w']",
        by: attention.Rotation,
        seen: typing.Any,
        past: KeyValue | None,
        slot: typing.Any,
        window: "int | Int[Array, '']",
    ) -> tuple["Float[Array, 's t w']", KeyValue]:
        query = attention.rotate(self._project(x, "query"), by)
        key, value = attention.rotate(self._project(x, "key"), by), self._project(x, "value")
        new = KeyValue(key.transpose(0, 2, 3, 1), value.swapaxes(1, 2))
        if past is not None:
            new = kv_cache.write(past, new, slot)
        if isinstance(seen, attention.Layout):
            block = self.settings.attention_block
            summed = blockwise.attend(query, new.key, new.value, seen, block=block, window=window)
        elif isinstance(seen, Branches):
            summed = attention.attend(query, attention.Held(new, seen.own), seen.trunk)
        else:
            summed = attention.attend(query, attention.Held(new, seen))
        return product(summed, self.output.astype(x.dtype), 2), new


class Mlp(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    settings: ModelSettings

    @nn.compact
    def __call__(self, x: "Float[Array, 's t w']") -> "Float[Array, 's t w']":
        c = self.settings
        gate, up = (self.param(name, _INIT, (c.width, c.mlp_width)).astype(x.dtype) for name in ("gate", "up"))
        down = self.param("down", _INIT, (c.mlp_width, c.width)).astype(x.dtype)
        return product(nn.silu(product(x, gate)) * product(x, up), down)


class Block(nn.Module):
    """One decoder block; with `past`, the new keys and values are first written there at `slot`.

    `seen` is a mask, or what stands for one: beside a `window` an `attention.Sight` that it narrows, or an
    `attention.Layout` for attention block by block.
    """

    settings: ModelSettings

    @nn.compact
    def __call__(
        self,
        x: "Float[Array, 's t w']",
        by: attention.Rotation,
        seen: typing.Any,
        past: KeyValue | None = None,
        slot: typing.Any = 0,
        window: "Int[Array, ''] | None" = None,
    ) -> tuple["Float[Array, 's t w']", KeyValue]:
        if window is None:
            window = attention.NO_WINDOW
        elif isinstance(seen, attention.Sight):
            seen = attention.within(seen, window)
        epsilon = self.settings.norm_epsilon
        attended, kept = Attention(self.settings, name="attention")(
            RMSNorm(epsilon, name="attention_norm")(x), by, seen, past, slot, window
        )
        x = x + attended
        return x + Mlp(self.settings, name="mlp")(RMSNorm(epsilon, name="mlp_norm")(x)), kept


def rematerialized(block: type[nn.Module], remat: str, *, is_unrolled: bool) -> type[nn.Module]:
    """`block` under the policy `remat`: what its backward pass keeps beside the input of the block.

    "none" keeps everything, "block" what blockwise attention found, "dots" also the results of products with weights.
    For blocks that are scanned: there the loop already keeps the compiler from sharing what is computed twice, unless
    it is unrolled.
    """
    if remat == "none":
        return block
    return nn.remat(block, policy=POLICIES[remat], prevent_cse=is_unrolled)


class Decoder(nn.Module):
    """The whole stack over full sequences: training, scoring and the prefill of a cache."""

    settings: ModelSettings

    @nn.compact
    def __call__(
        self, tokens: "Int[Array, 's t']", layout: attention.Layout
    ) -> tuple["Float[Array, 's t w']", KeyValue]:
        """Final hidden states, and the keys and values of all layers with a leading layer axis.

        Tokens of segment 0 are padding and see only each other.
        """
        c = self.settings
        table = self.param("embedding", _INIT, (c.vocabulary, c.width))
        if not c.has_tied_embeddings:
            self.param("unembedding", _INIT, (c.width, c.vocabulary))
        x = table[tokens].astype(jnp.dtype(c.compute_dtype))
        by = attention.rotary_angles(layout.positions, c)
        windows = jnp.asarray(layer_windows(c), jnp.int32) if c.window else None
        seen = layout
        if not c.attention_block:
            seen = attention.visible_in_rows(layout, layout)
            seen = attention.Sight(seen, layout.positions, layout.positions) if c.window else seen
        stack = nn.scan(
            rematerialized(Block, c.remat, is_unrolled=c.unroll > 1),
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=(nn.broadcast, nn.broadcast, nn.broadcast, nn.broadcast, 0),
            length=c.layers,
            unroll=c.unroll,
        )
        x, kept = stack(c, name="layers")(x, by, seen, None, 0, windows)
        return RMSNorm(c.norm_epsilon, name="final_norm")(x), kept


def initial(settings: ModelSettings, key: jax.Array) -> Params:
    """Random parameters: normal with standard deviation 0.02, norms at one, biases at zero; float32."""
    dummy = jnp.zeros((1, 1), jnp.int32)
    return Decoder(settings).init(key, dummy, attention.Layout(dummy, dummy + 1, dummy))["params"]


def abstract(settings: ModelSettings) -> Params:
    """Shapes and types of the parameters, without allocating any."""
    return jax.eval_shape(lambda: initial(settings, jax.random.key(0)))


def hidden_states(
    params: Params,
    settings: ModelSettings,
    *,
    tokens: "Int[Array, 's t']",
    positions: "Int[Array, 's t']",
    segments: "Int[Array, 's t']",
    branches: "Int[Array, 's t'] | None" = None,
) -> tuple["Float[Array, 's t w']", KeyValue]:
    """Final hidden states [s, t, width] and the stacked keys and values of every layer.

    See `attention.Layout` for where tokens stand; without `branches` no sequences share a trunk.
    """
    layout = attention.Layout(positions, segments, jnp.zeros_like(segments) if branches is None else branches)
    return Decoder(settings).apply({"params": params}, tokens, layout)


def logits(params: Params, hidden: "Float[Array, '*rest w']") -> "Float[Array, '*rest v']":
    """Scores over the vocabulary in float32, through the embedding table where it is tied."""
    table = params["unembedding"] if "unembedding" in params else params["embedding"].T
    return jnp.matmul(hidden, table.astype(hidden.dtype), preferred_element_type=jnp.float32)


def layer_windows(settings: ModelSettings) -> tuple[int, ...]:
    """Tokens that each layer sees, itself included; `attention.NO_WINDOW` for a global layer."""
    every, first = settings.global_every, settings.global_first

    def is_global(layer: int) -> bool:
        return not settings.window or layer < first or (every > 0 and layer % every == 0)

    return tuple(attention.NO_WINDOW if is_global(layer) else settings.window for layer in range(settings.layers))


def unstacked(params: Params, settings: ModelSettings) -> Params:
    """Parameters as `decode` reads them again and again: a tuple of layers, matrices in the type they are used in.

    Slicing and casting here, once, keeps both out of the loop over tokens. Norms stay as they are, in float32, and so
    does what is unstacked already.
    """
    if isinstance(params["layers"], tuple):
        return params
    dtype = jnp.dtype(settings.compute_dtype)

    def cast(path: tuple, x: "Array") -> "Array":
        return x if path[-1].key == "scale" else x.astype(dtype)

    params = jax.tree_util.tree_map_with_path(cast, params)
    layers = (jax.tree.map(lambda stacked, n=n: stacked[n], params["layers"]) for n in range(settings.layers))
    return {**params, "layers": tuple(layers)}


class Trunk(typing.NamedTuple):
    """The cache of prompts, one row for every k neighbouring rows that decode, and the position of each column."""

    past: tuple[KeyValue, ...]
    key_positions: "Int[Array, 'b u']"

    def held(self, layer: int, positions: "Int[Array, 's']", *, window: int) -> attention.Held:
        """What rows whose newest tokens stand at `positions` see of it."""
        holds = jnp.repeat(self.key_positions, len(positions) // len(self.key_positions), axis=0)
        return attention.Held(self.past[layer], attention.visible(positions[:, None], holds, window=window))


def decode(
    params: Params,
    settings: ModelSettings,
    *,
    tokens: "Int[Array, 's']",
    positions: "Int[Array, 's']",
    past: tuple[KeyValue, ...],
    key_positions: "Int[Array, 's u'] | None" = None,
    slot: "Int[Array, ''] | None" = None,
    trunk: Trunk | None = None,
) -> tuple["Float[Array, 's v']", tuple[KeyValue, ...]]:
    """Logits after one more token a row, and the caches with that token written; `params` may be `unstacked`.

    The token goes to column `slot` of every row where `key_positions` says what the columns hold: the new token's
    position is already there, -1 marks empty columns. Without them the caches are rings (`kv_cache.held`) and each row
    writes where its position belongs. Rows also see their `trunk`, if there is one. Layers are unrolled: inside a scan
    each step would copy every cache.
    """
    c, own = settings, unstacked(params, settings)
    x = own["embedding"][tokens][:, None].astype(jnp.dtype(c.compute_dtype))
    by = attention.rotary_angles(positions[:, None], c)
    kept = []
    for n, (layer, old, window) in enumerate(zip(own["layers"], past, layer_windows(c), strict=True)):
        width = old.columns
        holds = kv_cache.held(positions, width) if key_positions is None else key_positions
        seen = attention.visible(positions[:, None], holds, window=window)
        if trunk is not None:
            seen = Branches(seen, trunk.held(n, positions, window=window))
        column = positions % width if slot is None else slot
        x, new = Block(c).apply({"params": layer}, x, by, seen, old, column)
        kept.append(new)
    x = RMSNorm(c.norm_epsilon).apply({"params": own["final_norm"]}, x)
    return logits(own, x[:, 0]), tuple(kept)
