"""The `config.json` of a Hugging Face checkpoint to and from `ModelSettings`, without a guess in between.

Pure. A field that would change what the model computes and that the decoder does not have is an error, and so is a
missing one: a default in its place would load and then compute something else.
"""

import typing
from collections.abc import Mapping

from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.model import decoder
from optimrl_jax.settings import ModelSettings

MODEL_TYPES = {
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "cwm": "CwmForCausalLM",
}
# Fields with the only value that the decoder computes, where they are given at all.
FIXED = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "partial_rotary_factor": 1.0,
         "use_mrope": False}  # fmt: skip
ROPE_FIELDS = {
    "none": {},
    "linear": {"factor": "rope_factor"},
    "llama3": {
        "factor": "rope_factor",
        "original_max_position_embeddings": "rope_original_tokens",
        "low_freq_factor": "rope_slow_turns",
        "high_freq_factor": "rope_fast_turns",
    },
    "yarn": {
        "factor": "rope_factor",
        "original_max_position_embeddings": "rope_original_tokens",
        "beta_slow": "rope_slow_turns",
        "beta_fast": "rope_fast_turns",
    },
}
YARN_DEFAULTS = {"beta_slow": 1.0, "beta_fast": 32.0}
# Their class stretches where the file says nothing.
STRETCHED = ("cwm",)
QWEN = ("qwen2", "qwen3")
# What its class takes where the file names none; the others divide the width by the heads.
QWEN3_HEAD_WIDTH = 128
FULL, SLIDING = "full_attention", "sliding_attention"
Config = Mapping[str, typing.Any]


def settings_from_config(config: Config) -> ModelSettings:
    """Read the decoder that a `config.json` describes.

    Args:
      config: its contents.

    Raises:
      SettingsError: for a model type or field that the decoder cannot follow.
    """
    kind = _field(config, "model_type")
    if kind not in MODEL_TYPES:
        raise SettingsError(f"model_type = {kind!r}: expected one of {', '.join(MODEL_TYPES)}")
    for name, value in FIXED.items():
        if config.get(name, value) != value:
            raise SettingsError(f"{name} = {config[name]!r}: expected {value!r}")
    width, heads = _field(config, "hidden_size"), _field(config, "num_attention_heads")
    values = {
        "width": width,
        "layers": _field(config, "num_hidden_layers"),
        "heads": heads,
        "kv_heads": config.get("num_key_value_heads") or heads,
        "head_width": config.get("head_dim") or (QWEN3_HEAD_WIDTH if kind == "qwen3" else width // heads),
        "mlp_width": _field(config, "intermediate_size"),
        "vocabulary": _field(config, "vocab_size"),
        "norm_epsilon": _field(config, "rms_norm_eps"),
        "has_tied_embeddings": config.get("tie_word_embeddings", False),
        "has_qkv_bias": kind == "qwen2",
        "has_qk_norm": kind == "qwen3",
        **_rope(config),
        **_windows(config, kind),
    }
    return freeze(ModelSettings, values)


def config_from_settings(settings: ModelSettings) -> dict[str, typing.Any]:
    """Return the `config.json` of a decoder: inverse of `settings_from_config` in all that decides what is computed."""
    c = settings
    windows = set(decoder.layer_windows(c))
    local = "mistral" if windows == {c.window} else "cwm"
    if c.has_qkv_bias and c.has_qk_norm:
        raise SettingsError("has_qkv_bias, has_qk_norm: expected at most one of them, as in every published family")
    plain = local if c.window else "llama"
    kind = "qwen2" if c.has_qkv_bias else "qwen3" if c.has_qk_norm else plain
    window: dict[str, typing.Any] = {}
    if c.window:
        window = {"sliding_window": c.window}
    if c.window and kind != "mistral":
        window["layer_types"] = [FULL if seen != c.window else SLIDING for seen in decoder.layer_windows(c)]
    if kind in QWEN:
        window |= {"use_sliding_window": bool(c.window)}
    return {
        "architectures": [MODEL_TYPES[kind]],
        "model_type": kind,
        "hidden_act": "silu",
        "hidden_size": c.width,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads,
        "head_dim": c.head_width,
        "intermediate_size": c.mlp_width,
        "vocab_size": c.vocabulary,
        "rms_norm_eps": c.norm_epsilon,
        "tie_word_embeddings": c.has_tied_embeddings,
        "rope_theta": c.rope_theta,
        "rope_scaling": _scaling(c, kind),
        **window,
    }


def _field(config: Config, name: str) -> typing.Any:
    if config.get(name) is None:
        raise SettingsError(f"expected the field {name!r}")
    return config[name]


def _rope(config: Config) -> dict[str, typing.Any]:
    """Read the base and its stretching: newer files keep both in `rope_parameters`, older ones in two fields."""
    given = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    if not given and config["model_type"] in STRETCHED:
        raise SettingsError("expected the field 'rope_scaling' or 'rope_parameters'")
    theta = given.pop("rope_theta", None) or _field(config, "rope_theta")
    kinds = [given.pop(name, None) for name in ("rope_type", "type")]
    kind = next(filter(None, kinds), "none")
    kind = "none" if kind == "default" else kind
    if kind not in ROPE_FIELDS:
        raise SettingsError(f"rope_type = {kind!r}: expected one of default, {', '.join(ROPE_FIELDS)}")
    if kind == "yarn":
        given = {**YARN_DEFAULTS, **given}
    names = ROPE_FIELDS[kind]
    for name, value in given.items():
        if name not in names and FIXED.get(name) != value:
            raise SettingsError(f"rope scaling, {name} = {value!r}: expected only {', '.join(names) or 'rope_theta'}")
    values = {field: _field(given, name) for name, field in names.items()}
    return {"rope_theta": theta, "rope_scaling": kind, **values}


def _scaling(settings: ModelSettings, kind: str) -> dict[str, typing.Any] | None:
    if settings.rope_scaling == "none":
        return {"rope_type": "default"} if kind in STRETCHED else None
    names = ROPE_FIELDS[settings.rope_scaling]
    values = {name: getattr(settings, field) for name, field in names.items()}
    return {"rope_type": settings.rope_scaling, **values}


def _windows(config: Config, kind: str) -> dict[str, int]:
    """Find the window and the global layers among the patterns that `ModelSettings` has."""
    window = config.get("sliding_window")
    if kind == "llama" or not window or (kind in QWEN and not config.get("use_sliding_window", False)):
        return {}
    layers = _field(config, "num_hidden_layers")
    types = config.get("layer_types") or _default_layer_types(config, kind, layers)
    if len(types) != layers or set(types) - {FULL, SLIDING}:
        raise SettingsError(f"layer_types: expected {layers} of {FULL} and {SLIDING}")
    is_global = [name == FULL for name in types]
    first = is_global.index(False) if False in is_global else layers
    later = [layer for layer in range(first, layers) if is_global[layer]]
    every = later[0] if later and first == 1 else 0
    fields = {"window": window, "global_every": every, "global_first": 0 if every else first}
    if is_global != [layer < fields["global_first"] or (every > 0 and layer % every == 0) for layer in range(layers)]:
        raise SettingsError("layer_types: expected global layers at regular distances from the first, or first of all")
    return fields


def _default_layer_types(config: Config, kind: str, layers: int) -> list[str]:
    """Return what the model class of each type does where the file names no `layer_types`."""
    if kind == "cwm":
        return [FULL if layer % 4 == 0 else SLIDING for layer in range(layers)]
    first = _field(config, "max_window_layers") if kind in QWEN else 0
    return [FULL if layer < first else SLIDING for layer in range(layers)]
