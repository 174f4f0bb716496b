"""A policy behind the protocol: what a seed is answered, what each field does, and what callers are refused."""

import dataclasses
import json
import threading
import time

import fastapi.testclient
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
import uvicorn

from beam_pipelines import sample_generators
from optimrl_jax import arrays
from optimrl_jax.data import chat
from optimrl_jax.distributed import sampling_sharding
from optimrl_jax.jobs.command_line import run_command
from optimrl_jax.model.generation import sampling
from optimrl_jax.model.pretrained import hugging_face
from optimrl_jax.serving import api
from optimrl_jax.serving.engine import CompletionRequest, Engine
from optimrl_jax.serving.row_sampling import RowSampling, choose_tokens
from optimrl_jax.serving.text_stream import TextStream
from optimrl_jax.serving.weights import WeightReceiver
from optimrl_jax.settings import DataSettings
from tests.beam_pipelines import planted
from tests.optimrl_jax.grpo.stored import POLICY

DATA = DataSettings(prompt_tokens=12, completion_tokens=8)
ROOMY = DataSettings(prompt_tokens=2048, completion_tokens=2)


PROMPT = POLICY.tokenizer.encode("case a")


@pytest.fixture(scope="module")
def engine():
    found = Engine(POLICY, DATA, rows=4)
    yield found
    found.close()


@pytest.fixture(scope="module")
def client(engine):
    return fastapi.testclient.TestClient(api.create_policy_app(engine, name="tiny"))


@pytest.fixture
def ask(client):
    def post(**fields):
        question = {"model": "tiny", "messages": [{"role": "user", "content": "case a"}], "seed": 1} | fields
        return client.post("/v1/chat/completions", json=question)

    return post


@pytest.fixture
def go_on(client):
    def post(**fields):
        return client.post("/v1/completions", json={"model": "tiny", "prompt": "case a", "seed": 1} | fields)

    return post


def served(engine):
    app = api.create_policy_app(engine, name="tiny")
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    return server, thread, server.servers[0].sockets[0].getsockname()[1]


def tokens_of(engine, **fields):
    request = CompletionRequest(**({"prompt": PROMPT, "seed": 0, "max_tokens": 8} | fields))
    return [(token.token, token.log_prob) for token in engine.submit(request)]


def test_an_answer_depends_on_its_seed_and_not_on_what_is_asked_beside_it(engine):
    alone = tokens_of(engine, seed=5)
    crowd = [engine.submit(CompletionRequest(PROMPT[:4], seed, 8, temperature=3.0)) for seed in range(6)]
    assert tokens_of(engine, seed=5) == alone
    assert len({tuple(token.token for token in completion) for completion in crowd}) > 1


def test_a_seed_is_answered_as_sampling_at_once_would(engine):
    key = arrays.stream_key(3, "serve")[None]
    done = sampling.generate(
        POLICY.params, POLICY.settings, prompts=PROMPT[None], prompt_mask=np.ones((1, len(PROMPT)), bool), keys=key,
        temperature=1.0, samples=1, steps=8, end_token=POLICY.tokenizer.end,
    )  # fmt: skip
    found, log_probs = zip(*tokens_of(engine, seed=3), strict=True)
    length = int(done.length[0])
    assert list(found) == done.tokens[0, :length].tolist()
    np.testing.assert_allclose(log_probs, done.log_prob[0, :length], atol=2e-5)


def test_temperature_zero_and_a_narrow_nucleus_take_the_likeliest_token(engine):
    greedy = [token.token for token in engine.submit(CompletionRequest(PROMPT, 1, 8, temperature=0.0))]
    narrow = [token.token for token in engine.submit(CompletionRequest(PROMPT, 2, 8, top_p=1e-6))]
    best = [token.alternatives[0][0] for token in engine.submit(CompletionRequest(PROMPT, 3, 8, temperature=0.0))]
    assert greedy == narrow == best


def test_a_nucleus_holds_the_fewest_tokens_with_that_mass():
    scores = jnp.log(jnp.array([[0.1, 0.4, 0.2, 0.3]] * 3))
    rows = RowSampling(jnp.ones(3), jnp.array([0.5, 0.71, 1.0]))
    keys = jax.random.split(jax.random.key(0), 3)
    seen = [set(), set(), set()]
    choose = jax.jit(choose_tokens)
    for step in range(200):
        for row, token in enumerate(choose(keys, jnp.full(3, step), scores, rows)[0].tolist()):
            seen[row].add(token)
    assert seen == [{1, 3}, {1, 2, 3}, {0, 1, 2, 3}]


def test_devices_that_do_not_divide_the_rows_have_some_more(monkeypatch):
    expected = tokens_of(Engine(POLICY, DATA, rows=4), seed=1)
    monkeypatch.setattr(sampling_sharding, "even_rows", lambda _, rows: rows + 1)
    assert tokens_of(Engine(POLICY, DATA, rows=3), seed=1) == expected


def test_new_weights_take_over_between_blocks_and_say_so(client):
    engine = Engine(POLICY, DATA, rows=2)
    app = fastapi.testclient.TestClient(api.create_policy_app(engine, name="tiny", weights=WeightReceiver(engine)))
    fields = {"model": "tiny", "prompt": PROMPT.tolist(), "seed": 1, "max_tokens": 8, "return_token_ids": True}
    before = app.post("/v1/completions", json=fields).json()["choices"][0]
    params = jax.tree.map(lambda x: 0.3 * np.asarray(x), POLICY.params)
    body = safetensors.numpy.save(dict(hugging_face.named_tensors(POLICY.settings, params)))
    assert app.post("/v1/policy?version=7", content=body).json() == {"version": 7}
    after = app.post("/v1/completions", json=fields).json()["choices"][0]
    assert (before["policy_version"], after["policy_version"]) == (0, 7)
    assert before["token_ids"] != after["token_ids"]
    assert after["prompt_token_ids"] == PROMPT.tolist()
    other = Engine(dataclasses.replace(POLICY, params=params), DATA, rows=2)
    assert [token for token, _ in tokens_of(other, seed=1)] == after["token_ids"]
    refused = app.post("/v1/policy?version=8", content=safetensors.numpy.save({"x": np.zeros(1, np.float32)}))
    assert refused.status_code == 400
    assert "missing tensor" in refused.json()["error"]["message"]
    assert client.post("/v1/policy?version=1", content=body).status_code == 404
    for each in (engine, other):
        each.close()


def test_choices_come_with_usage_and_a_reason(ask):
    body = ask(n=3, max_tokens=2).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert {choice["finish_reason"] for choice in body["choices"]} <= {"stop", "length"}
    assert body["usage"]["completion_tokens"] <= 6
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"]


def test_the_same_seed_is_the_same_answer(ask):
    first, second = (ask(n=2).json()["choices"] for _ in range(2))
    assert first == second


def events_of(answer):
    lines = [line for line in answer.text.splitlines() if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def test_a_stream_holds_the_same_choices(ask):
    whole = ask(n=2, logprobs=True).json()
    events = events_of(ask(n=2, logprobs=True, stream=True, stream_options={"include_usage": True}))
    assert events[-1]["usage"] == whole["usage"]
    for choice in whole["choices"]:
        parts = [part for event in events for part in event["choices"] if part["index"] == choice["index"]]
        assert "".join(part["delta"].get("content", "") for part in parts) == choice["message"]["content"]
        assert parts[0]["delta"]["role"] == "assistant"
        assert [part["finish_reason"] for part in parts if part["finish_reason"]] == [choice["finish_reason"]]
        log_probs = [entry for part in parts if part["logprobs"] for entry in part["logprobs"]["content"]]
        assert log_probs == choice["logprobs"]["content"]


def test_a_stop_text_ends_a_choice_and_is_no_part_of_it(ask, go_on):
    text = ask(temperature=0).json()["choices"][0]["message"]["content"]
    stop = text[2:4]
    stopped = ask(temperature=0, stop=["never", stop]).json()["choices"][0]
    assert stopped["message"]["content"] == text[: text.index(stop)]
    assert stopped["finish_reason"] == "stop"
    parts = [
        part["text"] for event in events_of(go_on(temperature=0, stop=stop, stream=True)) for part in event["choices"]
    ]
    assert stop not in "".join(parts)


def test_log_probabilities_name_the_tokens_and_what_came_close(ask, go_on):
    choice = ask(temperature=0, logprobs=True, top_logprobs=3, max_completion_tokens=3).json()["choices"][0]
    assert len(choice["logprobs"]["content"]) == 3
    for entry in choice["logprobs"]["content"]:
        assert len(entry["top_logprobs"]) == 3
        assert entry["logprob"] == entry["top_logprobs"][0]["logprob"] <= 0
    log_probs = go_on(temperature=0, logprobs=2, max_tokens=3).json()["choices"][0]["logprobs"]
    assert [len(log_probs[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")] == [3] * 4


def test_an_echoed_prompt_is_scored_as_the_policy_would_have_scored_it_while_sampling(go_on):
    fields = {"temperature": 0, "logprobs": 3, "max_tokens": 4, "return_token_ids": True}
    plain = go_on(**fields).json()["choices"][0]
    longer = [*PROMPT.tolist(), *plain["token_ids"]]
    echoed = go_on(**fields | {"prompt": [longer, longer[:1]], "echo": True}).json()["choices"]
    assert echoed[0]["text"].startswith("case a" + plain["text"])
    assert echoed[0]["token_ids"][: len(longer)] == longer
    found = echoed[0]["logprobs"]
    assert found["token_logprobs"][0] is found["top_logprobs"][0] is None
    np.testing.assert_allclose(
        found["token_logprobs"][len(PROMPT) : len(longer)], plain["logprobs"]["token_logprobs"], atol=1e-4
    )
    # Greedy tokens are the likeliest ones, to the last bit: harnesses compare them so.
    near = zip(found["token_logprobs"], found["top_logprobs"], strict=True)
    assert all(own == max(top.values()) for own, top in [*near][len(PROMPT) :])
    assert echoed[1]["token_ids"][0] == longer[0]
    parts = [part for event in events_of(go_on(**fields, echo=True, stream=True)) for part in event["choices"]]
    assert "".join(part["text"] for part in parts) == "case a" + plain["text"]


def test_prompts_may_be_several_texts_or_token_ids(go_on):
    texts = go_on(prompt=["case a", "case b"], n=2, max_tokens=4).json()["choices"]
    ids = go_on(prompt=[POLICY.tokenizer.encode(text).tolist() for text in ("case a", "case b")], n=2, max_tokens=4)
    assert texts == ids.json()["choices"]
    assert [choice["index"] for choice in texts] == [0, 1, 2, 3]


def test_contents_may_come_in_parts_and_null_is_the_default(ask):
    parts = [{"type": "text", "text": "case"}, {"type": "text", "text": " a"}]
    whole = ask(temperature=None, stop=None, tools=None).json()["choices"]
    assert ask(messages=[{"role": "user", "content": parts}]).json()["choices"] == whole


def test_roles_go_through_the_template_of_a_chat_model():
    template = chat.ChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ eos }}", {})
    engine = Engine(dataclasses.replace(POLICY, tokenizer=dataclasses.replace(POLICY.tokenizer, template=template)),
                    ROOMY, rows=1)  # fmt: skip
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    assert POLICY.tokenizer.decode(engine.encode_messages(messages)) == "<system>a<user>b"
    card = fastapi.testclient.TestClient(api.create_policy_app(engine, name="tiny")).get("/v1/models/tiny").json()
    assert card["has_chat_template"]
    engine.close()


def test_a_service_with_a_key_answers_nobody_without_it(engine):
    client = fastapi.testclient.TestClient(api.create_policy_app(engine, name="tiny", key="secret"))
    assert client.get("/v1/models").status_code == 401
    assert client.get("/v1/models", headers={"Authorization": "Bearer other"}).status_code == 401
    (card,) = client.get("/v1/models", headers={"Authorization": "Bearer secret"}).json()["data"]
    assert (card["id"], card["has_chat_template"]) == ("tiny", False)


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"model": "other"}, 404, "model = 'other': expected 'tiny'"),
        ({"messages": []}, 400, "messages: "),
        ({"temperature": -1}, 400, "temperature: "),
        ({"top_p": 0}, 400, "top_p: "),
        ({"tools": [{}]}, 400, "tools: "),
        ({"presence_penalty": 0.5}, 400, "presence_penalty: "),
        ({"invented": 1}, 400, "invented: expected no such field"),
        ({"top_logprobs": 2}, 400, "body: Value error, top_logprobs: expected logprobs = true beside it"),
        ({"messages": [{"role": "banana", "content": "x"}]}, 400, "messages.0.role: "),
        ({"max_tokens": 0}, 400, "max_tokens: "),
        (
            {"messages": [{"role": "user", "content": "x" * 99}]},
            400,
            "messages: prompt of 100 tokens: expected",
        ),
    ],
)
def test_mistakes_are_answered_in_one_line(ask, fields, status, message):
    answer = ask(**fields)
    assert answer.status_code == status
    assert answer.json()["error"]["message"].startswith(message)


def test_a_failure_reaches_those_who_wait_and_the_next_question_is_answered():
    broken = {"embedding": POLICY.params["embedding"]}
    engine = Engine(dataclasses.replace(POLICY, params=broken), DATA, rows=1)
    with pytest.raises(Exception, match=r"layers|scope|param"):
        tokens_of(engine)
    engine.update_weights(POLICY.params, 1)
    assert tokens_of(engine)
    engine.close()


def test_a_choice_that_nobody_reads_gives_its_slot_back(engine):
    completions = [engine.submit(CompletionRequest(PROMPT, seed, 8)) for seed in range(40)]
    for completion in completions:
        completion.cancel()
    assert tokens_of(engine)


@pytest.mark.parametrize(("data", "outcome"), [(ROOMY, "no_program"), (DATA, "refused")])
def test_generators_can_be_asked_of_our_own_policy(tmp_path, data, outcome):
    corpus, output = tmp_path / "corpus.jsonl", tmp_path / "generators.jsonl"
    corpus.write_text(json.dumps(planted.as_object(planted.problem())) + "\n")
    engine = Engine(POLICY, data, rows=1)
    server, thread, port = served(engine)
    arguments = [
        "--source=jsonl", f"--input={corpus}", f"--endpoint=http://127.0.0.1:{port}/v1", "--model=tiny",
        f"--output={output}", "--attempts=2", "--requests_per_s=1000",
    ]  # fmt: skip
    code = run_command(sample_generators.main, arguments, name="sample_generators")
    server.should_exit = True
    thread.join()
    engine.close()
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert (code, [line["outcome"] for line in lines]) == (0, [outcome] * 2)


@pytest.mark.parametrize("stops", [["b日"], ["zz", "\n\n"], []])
def test_text_comes_in_whole_characters_and_nothing_is_taken_back(stops):
    text = "a日本b日 c\n\nd"
    data = text.encode()

    def decode(ids):
        return bytes(ids.tolist()).decode(errors="replace")

    stream = TextStream(decode, stops)
    parts = []
    for byte in data:
        parts.append(stream.add(byte))
        if stream.is_stopped:
            break
    parts.append("" if stream.is_stopped else stream.finish())
    places = [text.index(stop) for stop in stops if stop in text]
    assert "".join(parts) == text[: min(places, default=len(text))]
    assert "\ufffd" not in "".join(parts)
