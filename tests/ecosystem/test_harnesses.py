"""Evaluation harnesses on our endpoint: likelihoods and completions that they see are the policy's own."""

import json
import pathlib

import jax
import numpy as np
import pytest

from optimrl_jax.model import decoder
from optimrl_jax.model.pretrained.transformers_files import save_for_transformers
from optimrl_jax.settings import DataSettings
from tests.ecosystem.environments import python_with, run_script
from tests.optimrl_jax.grpo.stored import POLICY, TOKENIZER
from tests.optimrl_jax.model import tiny
from tests.optimrl_jax.serving.served import served

HERE = pathlib.Path(__file__).parent
ROOMY = DataSettings(prompt_tokens=64, completion_tokens=8)
ROOMY_CHAT = DataSettings(prompt_tokens=512, completion_tokens=16)
# Tokens of the longest text that is scored here, and of an answer: `max_gen_toks` of the script.
LONGEST, ANSWER_TOKENS = 64, 6
QUESTIONS = [
    {"prompt": "Read a number and print it case a.", "choices": ["a", "zq", "0 1"], "target": 0},
    {"prompt": "case b.", "choices": ["\nxy", "Read a"], "target": 1},
]


def log_probs(ids: list[int]) -> np.ndarray:
    """Score every token in each place of a text, by one pass over the policy that no server takes part in."""
    tokens = np.zeros((1, LONGEST), np.int32)
    tokens[0, : len(ids)] = ids
    positions = np.arange(LONGEST)[None]
    hidden, _ = tiny.hidden_states(
        POLICY.params, POLICY.settings, tokens=tokens, positions=positions, segments=np.ones_like(tokens)
    )
    return np.asarray(jax.nn.log_softmax(decoder.logits(POLICY.params, hidden[0])))


def log_likelihood(prompt: str, answer: str) -> float:
    start, whole = TOKENIZER.encode(prompt).tolist(), TOKENIZER.encode(prompt + answer).tolist()
    assert whole[: len(start)] == start, "expected texts that meet at the border of two tokens"
    assert len(whole) > len(start)
    scores = log_probs(whole)
    return float(sum(scores[place - 1, whole[place]] for place in range(len(start), len(whole))))


def greedy_line(prompt: str) -> str:
    ids = TOKENIZER.encode(prompt).tolist()
    start = len(ids)
    while len(ids) < start + ANSWER_TOKENS and ids[-1] != TOKENIZER.end:
        ids.append(int(log_probs(ids)[len(ids) - 1].argmax()))
    return TOKENIZER.decode(np.array(ids[start:])).partition("\n")[0]


@pytest.fixture(scope="module")
def lm_eval_answer(tmp_path_factory):
    python = python_with("lm_eval", "lm-eval[api]==0.4.*", "transformers>=5,<6")
    directory = tmp_path_factory.mktemp("lm_eval")
    save_for_transformers(directory / "policy", POLICY.settings, POLICY.params, TOKENIZER, dtype="float32")
    questions = directory / "questions.json"
    questions.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    with served(data=ROOMY) as url:
        script = HERE / "evaluate_with_lm_eval.py"
        printed = run_script(python, script, url, "tiny", str(directory / "policy"), str(questions))
    return json.loads(printed.splitlines()[-1])


def test_lm_eval_compares_answers_by_the_policys_own_likelihoods(lm_eval_answer):
    found = lm_eval_answer["samples"]["chosen"]
    assert len(found) == len(QUESTIONS)
    for sample in found:
        prompt, choices = sample["doc"]["prompt"], sample["doc"]["choices"]
        seen = [float(answer[0]) for answer in sample["filtered_resps"]]
        np.testing.assert_allclose(seen, [log_likelihood(prompt, choice) for choice in choices], atol=1e-3)
        assert float(sample["acc"]) == float(np.argmax(seen) == sample["doc"]["target"])


def test_lm_eval_gets_greedy_completions_up_to_its_stop_text(lm_eval_answer):
    found = lm_eval_answer["samples"]["written"]
    assert len(found) == len(QUESTIONS)
    for sample in found:
        assert sample["filtered_resps"] == [greedy_line(sample["doc"]["prompt"])]


@pytest.fixture(scope="module")
def evalplus_answer(tmp_path_factory):
    python = python_with("evalplus", "evalplus==0.3.*")
    directory = tmp_path_factory.mktemp("evalplus")
    problems = [
        {"task_id": f"HumanEval/{n}", "prompt": f"def f{n}(x):\n", "entry_point": f"f{n}", "canonical_solution": ""}
        for n in range(2)
    ]
    path = directory / "problems.jsonl"
    path.write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    with served(data=ROOMY_CHAT, key="k") as url:
        variables = {"HUMANEVAL_OVERRIDE_PATH": str(path), "OPENAI_API_KEY": "k"}
        script = HERE / "generate_with_evalplus.py"
        printed = run_script(python, script, url, "tiny", str(directory), variables=variables, limit_s=300)
    return json.loads(printed.splitlines()[-1])


def test_evalplus_gets_as_many_answers_as_it_asks_for(evalplus_answer):
    for samples in (1, 3):
        names = [row["task_id"] for row in evalplus_answer[str(samples)]]
        assert sorted(names) == sorted(["HumanEval/0", "HumanEval/1"] * samples)
        assert all(isinstance(row["solution"], str) for row in evalplus_answer[str(samples)])
