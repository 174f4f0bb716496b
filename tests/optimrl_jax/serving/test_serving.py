"""A policy behind the chat protocol: what a seed is answered, and what the dataset pipeline gets from it."""

import json
import threading
import time

import fastapi.testclient
import pytest
import uvicorn

from beam_pipelines import sample_generators
from optimrl_jax.jobs.command_line import run_command
from optimrl_jax.serving import api
from optimrl_jax.serving.batcher import Batcher, Question
from optimrl_jax.settings import DataSettings
from optimrl_jax.training import checkpoints
from tests.beam_pipelines import planted
from tests.optimrl_jax.grpo.stored import POLICY

DATA = DataSettings(prompt_tokens=12, completion_tokens=8)
ROOMY = DataSettings(prompt_tokens=2048, completion_tokens=2)


@pytest.fixture
def batcher():
    found = Batcher(POLICY, DATA, rows=4)
    yield found
    found.close()


@pytest.fixture
def ask(batcher):
    client = fastapi.testclient.TestClient(api.create_app(batcher, name="tiny", completion_tokens=8))

    def post(**fields):
        question = {"model": "tiny", "messages": [{"role": "user", "content": "case a"}], "seed": 1} | fields
        return client.post("/v1/chat/completions", json=question)

    return post


def served(batcher, most):
    app = api.create_app(batcher, name="tiny", completion_tokens=most)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    return server, thread, server.servers[0].sockets[0].getsockname()[1]


def test_an_answer_depends_on_its_seed_and_not_on_what_is_asked_beside_it(batcher):
    prompt, other = batcher.encode("case a"), batcher.encode("case b")
    alone = batcher.ask(Question(prompt, 1.0, 8, seed=5)).result()
    crowd = [batcher.ask(Question(other, 1.0, 8, seed)) for seed in range(6)]
    crowded = batcher.ask(Question(prompt, 1.0, 8, seed=5)).result()
    assert alone == crowded
    assert len({future.result().text for future in crowd}) > 1


def test_temperatures_are_not_mixed(batcher):
    prompt = batcher.encode("case a")
    cold = [batcher.ask(Question(prompt, 1e-3, 8, seed)) for seed in range(3)]
    hot = [batcher.ask(Question(prompt, 5.0, 8, seed)) for seed in range(3)]
    assert len({future.result().text for future in cold}) == 1
    assert len({future.result().text for future in hot}) == 3


def test_choices_come_with_usage_and_a_reason(ask):
    body = ask(n=3, max_tokens=2).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert {choice["finish_reason"] for choice in body["choices"]} <= {"stop", "length"}
    assert body["usage"]["completion_tokens"] <= 6
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"]


def test_the_same_seed_is_the_same_answer(ask):
    first, second = (ask(n=2).json()["choices"] for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"model": "other"}, 404, "model = 'other': expected 'tiny'"),
        ({"messages": []}, 400, "messages: "),
        ({"temperature": 0}, 400, "temperature: "),
        ({"max_tokens": 0}, 400, "max_tokens: "),
        ({"messages": [{"role": "user", "content": "x" * 99}]}, 400, "prompt of 100 tokens: expected at most 12"),
    ],
)
def test_mistakes_are_answered_in_one_line(ask, fields, status, message):
    answer = ask(**fields)
    assert answer.status_code == status
    assert answer.json()["error"]["message"].startswith(message)


def test_a_failure_reaches_those_who_wait_and_the_next_question_is_answered():
    policy = checkpoints.Policy({"embedding": POLICY.params["embedding"]}, POLICY.settings, POLICY.tokenizer)
    broken = Batcher(policy, DATA, rows=1)
    question = Question(broken.encode("case a"), 1.0, 8, seed=0)
    with pytest.raises(Exception, match=r"layers|scope|param"):
        broken.ask(question).result(timeout=60)
    broken._policy = POLICY
    assert broken.ask(question).result(timeout=60).tokens > 0
    broken.close()


@pytest.mark.parametrize(("data", "outcome"), [(ROOMY, "no_program"), (DATA, "refused")])
def test_generators_can_be_asked_of_our_own_policy(tmp_path, data, outcome):
    corpus, output = tmp_path / "corpus.jsonl", tmp_path / "generators.jsonl"
    corpus.write_text(json.dumps(planted.as_object(planted.problem())) + "\n")
    batcher = Batcher(POLICY, data, rows=1)
    server, thread, port = served(batcher, data.completion_tokens)
    arguments = [
        "--source=jsonl", f"--input={corpus}", f"--endpoint=http://127.0.0.1:{port}/v1", "--model=tiny",
        f"--output={output}", "--attempts=2", "--requests_per_s=1000",
    ]  # fmt: skip
    code = run_command(sample_generators.main, arguments, name="sample_generators")
    server.should_exit = True
    thread.join()
    batcher.close()
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert (code, [line["outcome"] for line in lines]) == (0, [outcome] * 2)
