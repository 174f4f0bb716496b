"""Checkpoints: logits equal those of `transformers`, round trips keep every bit, misfits are one line.

`goldens/make.py` made the golden files.
"""

import dataclasses
import json
import pathlib
import shutil
import tracemalloc

import jax
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from jax.sharding import Mesh, NamedSharding

from optimrl_jax.distributed import sharding
from optimrl_jax.jobs.errors import SettingsError, UserError
from optimrl_jax.model import decoder, kv_cache
from optimrl_jax.model.generation import sampling
from optimrl_jax.model.pretrained import hugging_face
from optimrl_jax.model.pretrained.config import config_from_settings, settings_from_config
from optimrl_jax.model.pretrained.names import stored_parameters
from optimrl_jax.model.pretrained.shapes import MODELS
from optimrl_jax.settings import ComputeSettings, Network
from tests.optimrl_jax.model import tiny

GOLDENS = pathlib.Path(__file__).parent / "goldens"
NAMES = sorted(path.parent.name for path in GOLDENS.glob("*/config.json"))
CONFIG = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 8,
          "intermediate_size": 96, "vocab_size": 40, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
          "rope_scaling": {"rope_type": "default"}}  # fmt: skip


def network_and_params(name):
    shape, params = hugging_face.load_hugging_face(GOLDENS / name)
    return Network.of(shape, ComputeSettings()), params


def logits_of(params, settings, tokens):
    positions = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
    hidden, _ = tiny.hidden_states(params, settings, tokens=tokens, positions=positions, segments=np.ones_like(tokens))
    return np.asarray(decoder.logits(params, hidden))


def same(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(np.asarray(x), np.asarray(y), strict=True), a, b)


@pytest.mark.parametrize("name", NAMES)
def test_logits_equal_those_of_transformers(name):
    settings, params = network_and_params(name)
    with np.load(GOLDENS / name / "expected.npz") as expected:
        np.testing.assert_allclose(logits_of(params, settings, expected["tokens"]), expected["logits"], atol=1e-4)


def test_goldens_cover_windows_shorter_than_their_texts_and_every_stretching():
    found = [hugging_face.read_model_settings(GOLDENS / name) for name in NAMES]
    assert {settings.rope_scaling for settings in found} == {"none", "linear", "llama3", "yarn"}
    assert {(c.window, c.global_every, c.global_first) for c in found} == {(0, 0, 0), (8, 0, 0), (8, 0, 1), (8, 4, 0)}
    assert {settings.has_tied_embeddings for settings in found} == {True, False}


def test_decoding_token_by_token_honours_the_window():
    settings, params = network_and_params("cwm")
    with np.load(GOLDENS / "cwm" / "expected.npz") as expected:
        tokens, logits = expected["tokens"], expected["logits"]
    past = (kv_cache.empty_cache(settings, rows=1, columns=32),) * settings.layers
    for at in range(32):
        found, past = tiny.decode(
            params,
            settings,
            tokens=tokens[:, at],
            positions=np.full(1, at),
            past=past,
            slot=np.int32(at),
        )
        np.testing.assert_allclose(found, logits[:, at], atol=1e-4)


def test_samples_beyond_the_window_have_teacher_forced_log_probabilities():
    settings, params = network_and_params("cwm")
    prompts = np.arange(24, dtype=np.int32).reshape(2, 12)
    mask = np.arange(12) < np.array([[12], [5]])
    found = sampling.generate(
        params,
        settings,
        prompts=prompts,
        prompt_mask=mask,
        keys=sampling.row_keys(jax.random.key(0), np.arange(4)),
        temperature=1.0,
        samples=2,
        steps=16,
        end_token=99,
    )
    for row in range(4):
        prompt = prompts[row // 2][mask[row // 2]]
        expected = tiny.log_probs(params, settings, np.concatenate([prompt, found.tokens[row]]))[len(prompt) - 1 :]
        np.testing.assert_allclose(found.log_prob[row], expected, atol=2e-4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shard_bytes", [10**9, 3000], ids=["one_file", "shards"])
def test_a_round_trip_keeps_every_bit(tmp_path, name, shard_bytes):
    settings, params = hugging_face.load_hugging_face(GOLDENS / name)
    hugging_face.save_hugging_face(tmp_path, settings, params, shard_bytes=shard_bytes)
    again, found = hugging_face.load_hugging_face(tmp_path)
    assert again == settings
    same(found, params)
    stored = safetensors.numpy.load_file(GOLDENS / name / "model.safetensors")
    written = {k: v for path in tmp_path.glob("*.safetensors") for k, v in safetensors.numpy.load_file(path).items()}
    same(written, stored)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == (shard_bytes == 3000)


def test_shards_stay_below_their_size_and_the_index_names_each_tensor(tmp_path):
    settings, params = hugging_face.load_hugging_face(GOLDENS / "cwm")
    hugging_face.save_hugging_face(tmp_path, settings, params, shard_bytes=3000)
    index = json.loads((tmp_path / hugging_face.INDEX_FILE).read_text())
    for path in tmp_path.glob("*.safetensors"):
        tensors = safetensors.numpy.load_file(path)
        assert sum(x.nbytes for x in tensors.values()) <= 3000 or len(tensors) == 1
        assert set(tensors) == {name for name, file in index["weight_map"].items() if file == path.name}
    assert index["metadata"]["total_size"] == sum(x.nbytes for x in jax.tree.leaves(params))


def test_half_precision_files_are_read_and_written(tmp_path):
    settings, params = hugging_face.load_hugging_face(GOLDENS / "cwm")
    hugging_face.save_hugging_face(tmp_path, settings, params, dtype="bfloat16")
    assert {x.dtype for x in safetensors.numpy.load_file(tmp_path / hugging_face.SINGLE_FILE).values()} == {
        np.dtype(ml_dtypes.bfloat16)
    }
    _, found = hugging_face.load_hugging_face(tmp_path)
    same(found, jax.tree.map(lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32), params))


def test_loading_and_saving_never_hold_a_second_copy(tmp_path):
    settings = dataclasses.replace(tiny.SETTINGS, layers=16, width=128, mlp_width=256, vocabulary=256)
    rng = np.random.default_rng(0)
    shapes = decoder.abstract_params(settings)
    params = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), shapes)
    total = sum(x.nbytes for x in jax.tree.leaves(params))
    slack = total / 8
    tracemalloc.start()
    hugging_face.save_hugging_face(tmp_path, settings, params, shard_bytes=total // 16)
    assert tracemalloc.get_traced_memory()[1] < total / 16 * 2 + slack
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    _, found = hugging_face.load_hugging_face(tmp_path)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    same(found, params)
    assert total <= peak < total + slack


def test_finished_parameters_go_where_the_rules_of_the_mesh_say():
    mesh = Mesh(np.array(jax.devices()[:1]).reshape(1, 1, 1, 1), sharding.AXES)
    _, params = hugging_face.load_hugging_face(
        GOLDENS / "cwm", placement=lambda path: NamedSharding(mesh, sharding.spec_of(path))
    )
    assert jax.tree.map(lambda x: x.sharding, params) == sharding.param_shardings(mesh, params)
    same(params, hugging_face.load_hugging_face(GOLDENS / "cwm")[1])


def _without(tensors, config):
    del tensors["model.norm.weight"]


def _beside(tensors, config):
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.zeros(3, np.float32)


def _misshapen(tensors, config):
    tensors["model.norm.weight"] = np.ones(7, np.float32)


def _tied_after_all(tensors, config):
    config["tie_word_embeddings"] = True


def _unknown_type(tensors, config):
    config["model_type"] = "gpt_neox"


def _no_stretching(tensors, config):
    del config["rope_parameters"]


def _no_theta(tensors, config):
    del config["rope_parameters"]["rope_theta"]


def _unknown_stretching(tensors, config):
    config["rope_parameters"]["rope_type"] = "longrope"


def _other_activation(tensors, config):
    config["hidden_act"] = "gelu"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_without, "missing tensor model.norm.weight: expected"),
        (_beside, "unknown tensor model.layers.0.self_attn.rotary_emb.inv_freq: expected"),
        (_misshapen, r"model.norm.weight has shape \(7,\): expected \(16,\)"),
        (_tied_after_all, "unknown tensor lm_head.weight: expected"),
        (_unknown_type, "model_type = 'gpt_neox': expected one of"),
        (_no_stretching, "expected the field 'rope_scaling' or 'rope_parameters'"),
        (_no_theta, "expected the field 'rope_theta'"),
        (_unknown_stretching, "rope_type = 'longrope': expected one of"),
        (_other_activation, "hidden_act = 'gelu': expected 'silu'"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(tmp_path, spoil, message):
    tensors = safetensors.numpy.load_file(GOLDENS / "cwm" / hugging_face.SINGLE_FILE)
    config = json.loads((GOLDENS / "cwm" / hugging_face.CONFIG_FILE).read_text())
    spoil(tensors, config)
    safetensors.numpy.save_file(tensors, tmp_path / hugging_face.SINGLE_FILE)
    (tmp_path / hugging_face.CONFIG_FILE).write_text(json.dumps(config))
    with pytest.raises(UserError, match=message) as raised:
        hugging_face.load_hugging_face(tmp_path)
    assert "\n" not in str(raised.value)


def test_missing_cut_and_occupied_directories_are_one_clear_line(tmp_path):
    with pytest.raises(UserError, match=r"config.json: expected the file"):
        hugging_face.load_hugging_face(tmp_path)
    shutil.copytree(GOLDENS / "cwm", tmp_path / "cut")
    file = tmp_path / "cut" / hugging_face.SINGLE_FILE
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(UserError, match="expected a complete safetensors file"):
        hugging_face.load_hugging_face(tmp_path / "cut")
    with pytest.raises(UserError, match="expected a directory without weights"):
        hugging_face.save_hugging_face(tmp_path / "cut", *hugging_face.load_hugging_face(GOLDENS / "cwm"))


@pytest.mark.parametrize("name", MODELS)
def test_named_models_have_the_parameters_of_their_decoder_and_a_configuration(name):
    settings = MODELS[name]
    tree = decoder.abstract_params(settings)
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    shapes = {"/".join(key.key for key in path): leaf.shape for path, leaf in leaves}
    assert shapes == {each.path: each.stacked_shape for each in stored_parameters(settings)}
    assert settings_from_config(config_from_settings(settings)) == settings


@pytest.mark.parametrize(
    ("name", "billions"),
    [("qwen2.5-0.5b", 0.494), ("qwen2.5-7b", 7.616), ("qwen2.5-32b", 32.76), ("smollm2-135m", 0.1345),
     ("smollm2-1.7b", 1.711), ("llama3.2-1b", 1.236), ("llama3.1-8b", 8.030)],
)  # fmt: skip
def test_named_models_have_their_published_size(name, billions):
    sizes = [np.prod(each.stacked_shape) for each in stored_parameters(MODELS[name])]
    assert round(sum(sizes) / 1e9, 4) == pytest.approx(billions, rel=1e-3)


def test_every_fourth_layer_of_cwm_is_global_beginning_with_the_first():
    windows = decoder.layer_windows(MODELS["cwm-32b"])
    assert [layer for layer, window in enumerate(windows) if window != 8192] == list(range(0, 64, 4))


def test_layer_types_without_a_pattern_are_refused():
    types = ["sliding_attention", "full_attention", "full_attention", *["sliding_attention"] * 5]
    with pytest.raises(SettingsError, match="layer_types: expected global layers at regular distances"):
        settings_from_config({**CONFIG, "model_type": "cwm", "sliding_window": 8, "layer_types": types})


def test_a_model_type_without_layer_types_follows_its_own_pattern():
    cwm = settings_from_config({**CONFIG, "model_type": "cwm", "sliding_window": 8})
    assert (cwm.window, cwm.global_every, cwm.global_first) == (8, 4, 0)
    qwen = {**CONFIG, "model_type": "qwen2", "sliding_window": 8, "max_window_layers": 3}
    assert settings_from_config(qwen).window == 0
    late = settings_from_config({**qwen, "use_sliding_window": True})
    assert (late.window, late.global_every, late.global_first) == (8, 0, 3)


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_is_written_as_the_model_type_it_was_read_from(name):
    config = json.loads((GOLDENS / name / hugging_face.CONFIG_FILE).read_text())
    written = config_from_settings(hugging_face.read_model_settings(GOLDENS / name))
    assert written["model_type"] == config["model_type"]
    assert written.get("layer_types") in (None, config.get("layer_types"))


def test_cwm_without_stretching_says_so_because_its_class_would_stretch():
    settings = dataclasses.replace(MODELS["cwm-32b"], rope_scaling="none")
    assert config_from_settings(settings)["rope_scaling"] == {"rope_type": "default"}
