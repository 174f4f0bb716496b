"""Edge: GGUF files of Llama models (SmolLM2 among them) in and out: settings, parameters, and the tokenizer inside.

GGUF stores the rows of each query and key head with the two halves interleaved, for kernels that turn neighbouring
features; the decoder turns feature i with feature i + d / 2, so the rows go back to where the training had them.
"""

import json
import pathlib
import typing

import gguf
import numpy as np
import tokenizers
from gguf import quants

from optimrl_jax.data import tokenizer as tokenizer_lib
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.errors import SettingsError, UserError
from optimrl_jax.model import decoder
from optimrl_jax.model.pretrained import hugging_face
from optimrl_jax.model.pretrained.hugging_face import stored_tensor
from optimrl_jax.model.pretrained.names import GGUF, stored_parameters
from optimrl_jax.settings import ModelSettings

ARCHITECTURE = "llama"
FIELDS = {
    "width": "llama.embedding_length",
    "layers": "llama.block_count",
    "heads": "llama.attention.head_count",
    "kv_heads": "llama.attention.head_count_kv",
    "mlp_width": "llama.feed_forward_length",
    "rope_theta": "llama.rope.freq_base",
    "norm_epsilon": "llama.attention.layer_norm_rms_epsilon",
}
# Splits before merges, by the name that GGUF gives to a way of splitting.
DIGITS_ALONE = ("smollm",)
TOKENIZER_FIELDS = ("model", "pre", "tokens", "token_type", "merges")
CONTROL = gguf.TokenType.CONTROL
INTERLEAVED = ("attn_q", "attn_k")
FILE_TYPES = {
    "float32": gguf.GGMLQuantizationType.F32,
    "float16": gguf.GGMLQuantizationType.F16,
    "bfloat16": gguf.GGMLQuantizationType.BF16,
}


def load_gguf(
    path: str | pathlib.Path, *, dtype: str = "float32", placement: hugging_face.Placement | None = None
) -> tuple[ModelSettings, decoder.Params, tokenizer_lib.Tokenizer]:
    """Read settings, parameters and tokenizer of a GGUF file; parameters are dequantized one tensor at a time.

    Args:
      path: of the file.
      dtype: of the parameters, whatever the type of the file.
      placement: the sharding of each parameter by its path; without it they are NumPy arrays.

    Raises:
      UserError: in one line, for a file that is none, another architecture, tensors that do not fit, or a tokenizer
        that is not a byte-level BPE split like SmolLM2's.
    """
    path = pathlib.Path(path)
    reader = open_gguf(path)
    settings, tokenizer = read_gguf_shape(reader, path), _tokenizer(reader, path)
    stored = _Tensors(reader, settings)
    params = hugging_face.assemble_parameters(
        settings, stored, names=GGUF, source=path, dtype=dtype, placement=placement
    )
    return settings, params, tokenizer


def _tokenizer(reader: gguf.GGUFReader, path: pathlib.Path) -> tokenizer_lib.Tokenizer:
    kind, split, tokens, kinds, merges = (_field(reader, f"tokenizer.ggml.{name}", path) for name in TOKENIZER_FIELDS)
    if kind != "gpt2" or split not in DIGITS_ALONE:
        raise UserError(f"{path}, tokenizer {kind}/{split}: expected gpt2/{' or gpt2/'.join(DIGITS_ALONE)}")
    model = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab={token: index for index, token in enumerate(tokens)},
            merges=[tuple(merge.split(" ")) for merge in merges],
        )
    )
    model.pre_tokenizer = _splitting()
    model.decoder = tokenizers.decoders.ByteLevel()
    model.add_special_tokens([token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL])
    return tokenizer_lib.adopt_tokenizer(model, source=str(path))


def save_gguf(
    path: pathlib.Path,
    settings: ModelSettings,
    params: decoder.Params,
    tokenizer: tokenizer_lib.Tokenizer,
    *,
    dtype: str,
    context_tokens: int,
) -> None:
    """Write a policy as a GGUF file that `load_gguf`, llama.cpp and their like read.

    Args:
      path: of the file; must not exist.
      settings: shape of the decoder.
      params: parameters with stacked layers.
      tokenizer: of the policy.
      dtype: of matrices; norms stay float32.
      context_tokens: prompt and completion together, at most.

    Raises:
      UserError: for a shape that is not Llama's, or a tokenizer whose way of splitting texts has no name in GGUF.
    """
    if path.exists():
        raise UserError(f"{path}: expected a file that does not exist yet")
    if settings.has_qkv_bias or settings.has_qk_norm or settings.window or settings.rope_scaling != "none":
        raise UserError(f"{path}: expected the shape of Llama: no biases, norms of heads, windows or stretching")
    model = json.loads(tokenizer.model.to_str())
    if model["pre_tokenizer"] != json.loads(_splitting().__getstate__()):
        raise UserError(f"{path}: expected a tokenizer that splits as SmolLM2's: others have no name in GGUF")
    writer = gguf.GGUFWriter(path, ARCHITECTURE)
    writer.add_name(path.stem)
    writer.add_context_length(context_tokens)
    for name, field in FIELDS.items():
        value = getattr(settings, name)
        writer.add_key_value(
            field, value, gguf.GGUFValueType.FLOAT32 if isinstance(value, float) else gguf.GGUFValueType.UINT32
        )
    writer.add_rope_dimension_count(settings.head_width)
    _write_vocabulary(writer, model, tokenizer, rows=settings.vocabulary)
    for parameter in stored_parameters(settings):
        for layer, name in enumerate(parameter.stored_names(GGUF)):
            tensor = stored_tensor(params, parameter, layer if parameter.layers else None, np.dtype(np.float32))
            if any(part in name for part in INTERLEAVED):
                tensor = interleave(tensor, settings.head_width)
            kind = FILE_TYPES[dtype] if tensor.ndim == 2 else FILE_TYPES["float32"]
            writer.add_tensor(name, quants.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_vocabulary(
    writer: gguf.GGUFWriter, model: dict[str, typing.Any], tokenizer: tokenizer_lib.Tokenizer, *, rows: int
) -> None:
    tokens = {index: token for token, index in model["model"]["vocab"].items()}
    special = {token["id"]: token["content"] for token in model["added_tokens"] if token["special"]}
    tokens |= special
    # Embeddings may have more rows than the tokenizer has tokens.
    names = [tokens.get(row, f"[UNUSED{row}]") for row in range(rows)]
    kinds = [
        CONTROL if row in special else gguf.TokenType.NORMAL if row in tokens else gguf.TokenType.UNUSED
        for row in range(rows)
    ]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(DIGITS_ALONE[0])
    writer.add_token_list(names)
    writer.add_token_types(kinds)
    merges = model["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_eos_token_id(tokenizer.end)
    writer.add_pad_token_id(tokenizer.pad)


def _splitting() -> tokenizers.pre_tokenizers.Sequence:
    return tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


class _Tensors:
    """The tensors of a file under their own names, dequantized and with their rows in order."""

    def __init__(self, reader: gguf.GGUFReader, settings: ModelSettings) -> None:
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self._head_width = settings.head_width
        # GGUF writes the fastest axis first.
        self.shapes = {name: tuple(int(n) for n in tensor.shape[::-1]) for name, tensor in self._tensors.items()}

    def tensor(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        values = quants.dequantize(tensor.data, tensor.tensor_type).reshape(self.shapes[name])
        return undo_interleaving(values, self._head_width) if any(part in name for part in INTERLEAVED) else values


def interleave(rows: np.ndarray, head_width: int) -> np.ndarray:
    """Put the rows `[n d, w]` of each head into the order 0, d/2, 1, d/2 + 1, ..."""
    return rows.reshape(-1, 2, head_width // 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def undo_interleaving(rows: np.ndarray, head_width: int) -> np.ndarray:
    """Put the rows `[n d, w]` of each head from the order 0, d/2, 1, d/2 + 1, ... back to 0, 1, 2, ..."""
    return rows.reshape(-1, head_width // 2, 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def open_gguf(path: pathlib.Path) -> gguf.GGUFReader:
    """Open a GGUF file.

    Raises:
      UserError: where it cannot be read as one.
    """
    try:
        return gguf.GGUFReader(path)
    except OSError as error:
        raise UserError(f"{path}: expected a GGUF file ({error.strerror})") from None
    except (ValueError, KeyError, IndexError) as error:
        raise UserError(f"{path}: expected a complete GGUF file ({str(error).splitlines()[0]})") from None


def read_gguf_shape(reader: gguf.GGUFReader, path: pathlib.Path) -> ModelSettings:
    """Read the shape of the decoder from the header of a file; raise UserError where it is of another kind."""
    architecture = _field(reader, "general.architecture", path)
    if architecture != ARCHITECTURE:
        raise UserError(f"{path}, architecture {architecture!r}: expected {ARCHITECTURE!r}")
    scaling = [name for name in reader.fields if name.startswith("llama.rope.scaling.")]
    if scaling:
        raise UserError(f"{path}: expected no {scaling[0]}")
    values = {name: _field(reader, field, path) for name, field in FIELDS.items()}
    # Kept as float32 in the file: a checkpoint's 1e-5 comes back as 9.99999974e-06.
    values |= {name: float(str(np.float32(values[name]))) for name in ("rope_theta", "norm_epsilon")}
    values |= {
        "head_width": values["width"] // values["heads"],
        "vocabulary": len(_field(reader, "tokenizer.ggml.tokens", path)),
        "has_qkv_bias": False,
        "has_tied_embeddings": all(tensor.name != GGUF["unembedding"] for tensor in reader.tensors),
    }
    try:
        return freeze(ModelSettings, values)
    except SettingsError as error:
        raise UserError(f"{path}: {error}") from None


def _field(reader: gguf.GGUFReader, name: str, path: pathlib.Path) -> typing.Any:
    if name not in reader.fields:
        raise UserError(f"{path}: expected the field {name}")
    return reader.fields[name].contents()
