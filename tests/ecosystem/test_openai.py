"""A served policy asked by the real `openai` client: what it is asked for is done, or refused by name."""

import json
import pathlib

import pytest

from tests.ecosystem.environments import python_with, run_script
from tests.optimrl_jax.serving.served import served

SCRIPT = pathlib.Path(__file__).parent / "ask_endpoint.py"


@pytest.fixture(scope="module")
def answer():
    python = python_with("openai", "openai")
    with served(key="k") as url:
        yield json.loads(run_script(python, SCRIPT, url, "k", "tiny"))


def test_whole_streamed_and_parted_requests_have_one_answer(answer):
    assert answer["models"] == ["tiny"]
    assert answer["text"] == answer["streamed"] == answer["in_parts"] == answer["narrow"]
    assert answer["usage"] == answer["streamed_usage"] == len(answer["log_probs"])
    assert answer["finish_reasons"] in (["stop"], ["length"])


def test_limits_and_stop_texts_are_obeyed(answer):
    assert answer["one_token"] == 1
    assert answer["stopped"] == answer["text"][: answer["text"].index(answer["text"][1])]
    assert answer["roles"] == 3


def test_log_probabilities_come_with_what_came_close(answer):
    assert all(log_prob == best and count == 2 for log_prob, count, best in answer["log_probs"])


def test_batches_of_prompts_come_back_in_their_order(answer):
    assert [index for index, _, _ in answer["batch"]] == [0, 1, 2, 3]
    assert all(1 <= count <= 4 for _, _, count in answer["batch"])


def test_what_is_not_known_is_refused_by_name(answer):
    assert answer["unknown_field"] == ["BadRequestError", 400, "invented: expected no such field"]
    assert answer["tools"][:2] == ["BadRequestError", 400]
    assert answer["tools"][2].startswith("tools: ")
    assert answer["unknown_model"][:2] == ["NotFoundError", 404]
    assert answer["other_key"] == "AuthenticationError"
