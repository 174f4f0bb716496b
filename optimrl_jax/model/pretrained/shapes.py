"""The shapes of published models by name, as data: what a configuration names instead of a dozen numbers.

Pure. Numbers are those of the `config.json` that is published with each base model (for CWM, of its model class).
"""

import dataclasses
import types
import typing

from optimrl_jax.settings import ModelSettings

_QWEN = ModelSettings(head_width=128, rope_theta=1e6, has_qkv_bias=True, norm_epsilon=1e-6)
_QWEN3 = dataclasses.replace(_QWEN, has_qkv_bias=False, has_qk_norm=True, vocabulary=151_936)
_LLAMA = ModelSettings(has_qkv_bias=False, norm_epsilon=1e-5)
_SMOLLM = dataclasses.replace(_LLAMA, head_width=64, vocabulary=49_152, rope_theta=1e5)
_LLAMA3 = dataclasses.replace(_LLAMA, vocabulary=128_256, rope_theta=5e5, rope_scaling="llama3")


def _shape(
    start: ModelSettings, width: int, layers: int, heads: int, kv_heads: int, mlp_width: int, **other: typing.Any
) -> ModelSettings:
    return dataclasses.replace(
        start, width=width, layers=layers, heads=heads, kv_heads=kv_heads, mlp_width=mlp_width, **other
    )


def _large_qwen(
    width: int, layers: int, heads: int, kv_heads: int, mlp_width: int, **other: typing.Any
) -> ModelSettings:
    """Describe a Qwen shape from 7B on: the table is padded further and the output layer has a table of its own."""
    return _shape(
        _QWEN, width, layers, heads, kv_heads, mlp_width, vocabulary=152_064, has_tied_embeddings=False, **other
    )


MODELS = types.MappingProxyType({
    "qwen2.5-0.5b": _shape(_QWEN, 896, 24, 14, 2, 4864, head_width=64, vocabulary=151_936),
    "qwen2.5-1.5b": _shape(_QWEN, 1536, 28, 12, 2, 8960, vocabulary=151_936),
    "qwen2.5-3b": _shape(_QWEN, 2048, 36, 16, 2, 11_008, vocabulary=151_936),
    "qwen2.5-7b": _large_qwen(3584, 28, 28, 4, 18_944),
    "qwen2.5-14b": _large_qwen(5120, 48, 40, 8, 13_824, norm_epsilon=1e-5),
    "qwen2.5-32b": _large_qwen(5120, 64, 40, 8, 27_648, norm_epsilon=1e-5),
    "qwen3-0.6b": _shape(_QWEN3, 1024, 28, 16, 8, 3072),
    "qwen3-1.7b": _shape(_QWEN3, 2048, 28, 16, 8, 6144),
    "qwen3-4b": _shape(_QWEN3, 2560, 36, 32, 8, 9728),
    "qwen3-8b": _shape(_QWEN3, 4096, 36, 32, 8, 12_288, has_tied_embeddings=False),
    "qwen3-14b": _shape(_QWEN3, 5120, 40, 40, 8, 17_408, has_tied_embeddings=False),
    "qwen3-32b": _shape(_QWEN3, 5120, 64, 64, 8, 25_600, has_tied_embeddings=False),
    "smollm2-135m": _shape(_SMOLLM, 576, 30, 9, 3, 1536),
    "smollm2-360m": _shape(_SMOLLM, 960, 32, 15, 5, 2560),
    "smollm2-1.7b": _shape(_SMOLLM, 2048, 24, 32, 32, 8192, rope_theta=130_000.0),
    "llama3.2-1b": _shape(_LLAMA3, 2048, 16, 32, 8, 8192, head_width=64, rope_factor=32.0),
    "llama3.1-8b": _shape(
        _LLAMA3, 4096, 32, 32, 8, 14_336, head_width=128, rope_factor=8.0, has_tied_embeddings=False
    ),
    "cwm-32b": _shape(
        _LLAMA3, 6144, 64, 48, 8, 21_504, head_width=128, rope_theta=1e6, rope_factor=16.0,
        has_tied_embeddings=False, window=8192, global_every=4,
    ),
})  # fmt: skip

# Tokens of a context that each was published for.
CONTEXT_TOKENS = types.MappingProxyType({
    "qwen2.5-0.5b": 32_768, "qwen2.5-1.5b": 32_768, "qwen2.5-3b": 32_768, "qwen2.5-7b": 131_072,
    "qwen2.5-14b": 131_072, "qwen2.5-32b": 131_072,
    "qwen3-0.6b": 40_960, "qwen3-1.7b": 40_960, "qwen3-4b": 40_960, "qwen3-8b": 40_960, "qwen3-14b": 40_960,
    "qwen3-32b": 40_960,
    "smollm2-135m": 8_192, "smollm2-360m": 8_192, "smollm2-1.7b": 8_192,
    "llama3.2-1b": 131_072, "llama3.1-8b": 131_072, "cwm-32b": 131_072,
})  # fmt: skip
