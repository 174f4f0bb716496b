"""Exported adapters added by `peft` to the exported base: the scores of the policy that was trained."""

import json
import pathlib

import jax
import numpy as np

from optimrl_jax.data import tokenizer as tokenizer_lib
from optimrl_jax.model import adapters, decoder
from optimrl_jax.model.pretrained.peft_files import save_for_peft
from optimrl_jax.model.pretrained.transformers_files import save_for_transformers
from optimrl_jax.settings import LoraSettings, Network
from tests.ecosystem.environments import TRANSFORMERS, python_with, run_script
from tests.optimrl_jax.model import tiny

SCRIPT = pathlib.Path(__file__).parent / "add_adapters.py"
LORA = LoraSettings(rank=3, alpha=12.0)
ROWS = np.random.default_rng(0).integers(0, 256, (4, 20))


def test_peft_adds_the_adapters_to_the_base(tmp_path):
    python = python_with("transformers", *TRANSFORMERS)
    tokenizer = tokenizer_lib.train_tokenizer(["print(1)", "for each a[i]"], 300)
    network = Network(**{**vars(tiny.SETTINGS), "vocabulary": tokenizer.size})
    base = tiny.params(network, scale=3.0)
    tree = adapters.initial_adapters(network, LORA, jax.random.key(0))
    tree = jax.tree.map(lambda x: x + 0.2 * np.sin(np.arange(x.size)).reshape(x.shape).astype(x.dtype), tree)
    save_for_transformers(tmp_path / "base", network, base, tokenizer, dtype="float32", context_tokens=96)
    save_for_peft(tmp_path / "adapters", tree, LORA, base=str(tmp_path / "base"))
    answer = json.loads(run_script(python, SCRIPT, str(tmp_path), json.dumps(ROWS.tolist())))
    expected = scores(adapters.add_adapters(base, tree, LORA), network)
    np.testing.assert_allclose(answer["added"], expected, atol=2e-4, rtol=1e-3)
    np.testing.assert_allclose(answer["merged"], expected, atol=2e-4, rtol=1e-3)
    assert np.abs(expected - scores(base, network)).max() > 0.1


def scores(params, network) -> np.ndarray:
    hidden, _ = tiny.hidden_states(
        params, network, tokens=ROWS, positions=np.broadcast_to(np.arange(20), ROWS.shape), segments=np.ones_like(ROWS)
    )
    return np.asarray(decoder.logits(params, hidden))
