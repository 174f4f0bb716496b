"""What the decoder is and how it is computed."""

import dataclasses

from optimrl_jax.jobs.checked_fields import (
    EVEN,
    NOT_NEGATIVE,
    POSITIVE,
    one_of,
    section,
    setting,
)
from optimrl_jax.jobs.errors import SettingsError


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """Shape of the decoder (the Qwen2/Llama family)."""

    width: int = setting(128, "residual stream, features", POSITIVE)
    layers: int = setting(4, "decoder blocks", POSITIVE)
    heads: int = setting(4, "query heads", POSITIVE)
    kv_heads: int = setting(2, "key and value heads", POSITIVE)
    head_width: int = setting(32, "features of one head", EVEN)
    mlp_width: int = setting(352, "features of the gated hidden layer", POSITIVE)
    vocabulary: int = setting(2048, "tokens the tokenizer is trained to, at most", POSITIVE)
    rope_theta: float = setting(10_000.0, "base of the rotary frequencies", POSITIVE)
    rope_scaling: str = setting(
        "none", "how rotary frequencies are stretched for long contexts", one_of("none", "linear", "llama3", "yarn")
    )
    rope_factor: float = setting(1.0, "stretch of the slow rotary frequencies", POSITIVE)
    rope_original_tokens: int = setting(8192, "context before stretching, tokens (llama3, yarn)", POSITIVE)
    rope_slow_turns: float = setting(1.0, "turns over that context below which stretching is full", POSITIVE)
    rope_fast_turns: float = setting(4.0, "turns over that context above which nothing is stretched", POSITIVE)
    window: int = setting(0, "tokens that a local layer sees, itself included; 0: every layer is global", NOT_NEGATIVE)
    global_every: int = setting(0, "beside a window: layers 0, n, 2n, ... are global; 0: none of these", NOT_NEGATIVE)
    global_first: int = setting(0, "beside a window: so many first layers are global", NOT_NEGATIVE)
    norm_epsilon: float = setting(1e-6, "RMSNorm epsilon", POSITIVE)
    has_tied_embeddings: bool = setting(True, "output layer shares the embedding table")
    has_qkv_bias: bool = setting(True, "biases on query, key and value (Qwen2)")
    has_qk_norm: bool = setting(False, "norms on the query and the key of each head (Qwen3)")

    def __post_init__(self) -> None:
        """Raise SettingsError where query heads cannot share the key heads evenly."""
        if self.heads % self.kv_heads:
            raise SettingsError(f"model.heads = {self.heads}: expected a multiple of model.kv_heads = {self.kv_heads}")


@dataclasses.dataclass(frozen=True)
class ComputeSettings:
    """How the decoder is computed: type, memory and time of a step. But for the type, nothing here changes a result."""

    dtype: str = setting("float32", "activations, and weights as they are used", one_of("float32", "bfloat16"))
    remat: str = setting(
        "none",
        "what the backward pass computes again: nothing, all of a block, or all but products with weights",
        one_of("none", "block", "dots"),
    )
    unroll: int = setting(
        1, "layers of the update compiled one by one: faster, and longer to compile; 1: one for all", POSITIVE
    )
    attention: str = setting(
        "auto",
        "attention over packed rows: kernels of the GPU or TPU (pallas), XLA's operations by blocks (blockwise), or "
        "kernels where there are any (auto)",
        one_of("auto", "pallas", "blockwise"),
    )
    attention_block: int = setting(
        0, "without kernels: queries and keys whose attention weights exist at once; 0: the whole row", NOT_NEGATIVE
    )
    logits_chunk: int = setting(
        0, "tokens of a row whose scores over the vocabulary exist at once in the loss; 0: the whole row", NOT_NEGATIVE
    )


@dataclasses.dataclass(frozen=True)
class Network(ModelSettings):
    """A decoder's shape with how it is computed here: what the functions of `model` take. The shape alone is stored."""

    compute: ComputeSettings = section(ComputeSettings)

    @classmethod
    def of(cls, model: ModelSettings, compute: ComputeSettings) -> "Network":
        """Combine a shape with how it is computed."""
        shape = {field.name: getattr(model, field.name) for field in dataclasses.fields(ModelSettings)}
        return cls(**shape, compute=compute)
