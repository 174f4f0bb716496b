"""How checkpoints lay out what the decoder stacks: one table of names, and the shape of each stored tensor.

Pure. A checkpoint stores a matrix for each layer as [outputs, inputs]; the decoder has the inputs first, splits heads
into an axis of their own, and stacks the layers.
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from optimrl_jax.settings import ModelSettings

LAYERS = "layers/"
QK, QKV = ("query", "key"), ("query", "key", "value")

HUGGING_FACE: Mapping[str, str] = {
    "embedding": "model.embed_tokens.weight",
    "layers/attention_norm/scale": "model.layers.{layer}.input_layernorm.weight",
    "layers/attention/query": "model.layers.{layer}.self_attn.q_proj.weight",
    "layers/attention/query_bias": "model.layers.{layer}.self_attn.q_proj.bias",
    "layers/attention/key": "model.layers.{layer}.self_attn.k_proj.weight",
    "layers/attention/key_bias": "model.layers.{layer}.self_attn.k_proj.bias",
    "layers/attention/value": "model.layers.{layer}.self_attn.v_proj.weight",
    "layers/attention/value_bias": "model.layers.{layer}.self_attn.v_proj.bias",
    "layers/attention/query_norm/scale": "model.layers.{layer}.self_attn.q_norm.weight",
    "layers/attention/key_norm/scale": "model.layers.{layer}.self_attn.k_norm.weight",
    "layers/attention/output": "model.layers.{layer}.self_attn.o_proj.weight",
    "layers/mlp_norm/scale": "model.layers.{layer}.post_attention_layernorm.weight",
    "layers/mlp/gate": "model.layers.{layer}.mlp.gate_proj.weight",
    "layers/mlp/up": "model.layers.{layer}.mlp.up_proj.weight",
    "layers/mlp/down": "model.layers.{layer}.mlp.down_proj.weight",
    "final_norm/scale": "model.norm.weight",
    "unembedding": "lm_head.weight",
}

GGUF: Mapping[str, str] = {
    "embedding": "token_embd.weight",
    "layers/attention_norm/scale": "blk.{layer}.attn_norm.weight",
    "layers/attention/query": "blk.{layer}.attn_q.weight",
    "layers/attention/key": "blk.{layer}.attn_k.weight",
    "layers/attention/value": "blk.{layer}.attn_v.weight",
    "layers/attention/output": "blk.{layer}.attn_output.weight",
    "layers/mlp_norm/scale": "blk.{layer}.ffn_norm.weight",
    "layers/mlp/gate": "blk.{layer}.ffn_gate.weight",
    "layers/mlp/up": "blk.{layer}.ffn_up.weight",
    "layers/mlp/down": "blk.{layer}.ffn_down.weight",
    "final_norm/scale": "output_norm.weight",
    "unembedding": "output.weight",
}


@dataclasses.dataclass(frozen=True)
class StoredParameter:
    """One parameter of the decoder, here and in a checkpoint.

    Attributes:
      path: names of the nested parameters, joined by slashes.
      shape: of one layer of the parameter, here.
      stored_shape: of one layer of the parameter, in a checkpoint.
      layers: how many there are; None for a parameter outside the layers.
    """

    path: str
    shape: tuple[int, ...]
    stored_shape: tuple[int, ...]
    layers: int | None

    @property
    def stacked_shape(self) -> tuple[int, ...]:
        """Return the shape of the whole parameter: the layer axis first, where there is one."""
        return self.shape if self.layers is None else (self.layers, *self.shape)

    def stored_names(self, names: Mapping[str, str]) -> list[str]:
        """List the names of its tensors in a checkpoint: one for each layer, or a single one."""
        return [names[self.path].format(layer=layer) for layer in range(self.layers or 1)]

    def from_stored(self, tensor: np.ndarray) -> np.ndarray:
        """Return one layer of the parameter, a view where possible, from a tensor of `stored_shape`."""
        return tensor if self.path == "embedding" else tensor.T.reshape(self.shape)

    def to_stored(self, values: np.ndarray) -> np.ndarray:
        """Invert `from_stored`."""
        return values if self.path == "embedding" else values.reshape(self.stored_shape[::-1]).T


def stored_parameters(settings: ModelSettings) -> list[StoredParameter]:
    """List every parameter of a decoder of this shape, in the order of `HUGGING_FACE`."""
    c = settings
    shapes = {
        "embedding": (c.vocabulary, c.width),
        "layers/attention_norm/scale": (c.width,),
        "layers/attention/query": (c.width, c.heads, c.head_width),
        "layers/attention/key": (c.width, c.kv_heads, c.head_width),
        "layers/attention/value": (c.width, c.kv_heads, c.head_width),
        "layers/attention/output": (c.heads, c.head_width, c.width),
        "layers/mlp_norm/scale": (c.width,),
        "layers/mlp/gate": (c.width, c.mlp_width),
        "layers/mlp/up": (c.width, c.mlp_width),
        "layers/mlp/down": (c.mlp_width, c.width),
        "final_norm/scale": (c.width,),
    }
    if c.has_qkv_bias:
        shapes |= {f"layers/attention/{name}_bias": shapes[f"layers/attention/{name}"][1:] for name in QKV}
    if c.has_qk_norm:
        shapes |= {f"layers/attention/{name}_norm/scale": (c.head_width,) for name in QK}
    if not c.has_tied_embeddings:
        shapes["unembedding"] = (c.width, c.vocabulary)
    return [_parameter(path, shapes[path], c.layers) for path in HUGGING_FACE if path in shapes]


def _parameter(path: str, shape: tuple[int, ...], layers: int) -> StoredParameter:
    if path == "embedding":
        stored: tuple[int, ...] = shape
    elif path.endswith(("scale", "bias")):
        stored = (math.prod(shape),)
    else:
        inputs = math.prod(shape[:-1]) if path.endswith("output") else shape[0]
        stored = (math.prod(shape) // inputs, inputs)
    return StoredParameter(path, shape, stored, layers if path.startswith(LAYERS) else None)
