"""Rollouts from an engine elsewhere: our own server, over HTTP, with weights that are pushed to it."""

import contextlib
import dataclasses
import http.server
import json
import logging
import threading

import jax
import numpy as np
import pytest

from optimrl_jax.data import prompts
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model.generation import sampling
from optimrl_jax.rollout import engine_client
from optimrl_jax.rollout.actor import Actor
from optimrl_jax.rollout.engine_client import push_hook, push_weights
from optimrl_jax.rollout.engine_sampler import EngineSampler
from optimrl_jax.settings import EngineSettings
from tests.optimrl_jax.grpo.groups import SETTINGS
from tests.optimrl_jax.grpo.stored import DATA, POLICY, RECORDS
from tests.optimrl_jax.model import tiny
from tests.optimrl_jax.serving.served import served

ENGINE = EngineSettings(model="tiny", requests=2, timeout_s=60.0)
KEEPS = dataclasses.replace(ENGINE, push="")
PROMPTS = [prompts.encode_prompt(POLICY.tokenizer, record.statement) for record in RECORDS]
KEYS = sampling.row_keys(jax.random.key(0), np.arange(2 * len(PROMPTS)))


def sampler(url, *, engine=KEEPS, data=DATA):
    grpo = dataclasses.replace(SETTINGS.grpo, sampler=url, temperature=1.0)
    return EngineSampler(dataclasses.replace(SETTINGS, grpo=grpo, engine=engine, data=data), POLICY.tokenizer)


def complete(url, asked=PROMPTS, *, version=0, policy=POLICY, **settings):
    samples = 2 if asked is PROMPTS else 1
    keys = KEYS[: samples * len(asked)]
    return sampler(url, **settings).complete(policy, version, asked, samples, keys=keys)


def assert_of_policy(done, params):
    for row in range(len(KEYS)):
        prompt, length = PROMPTS[row // 2], int(done.length[row])
        whole = np.concatenate([prompt, done.tokens[row, :length]])
        expected = tiny.log_probs(params, POLICY.settings, whole)[len(prompt) - 1 :]
        np.testing.assert_allclose(done.log_prob[row, :length], expected, atol=2e-5)


def test_completions_carry_the_probabilities_of_the_weights_that_were_pushed():
    other = dataclasses.replace(POLICY, params=jax.tree.map(lambda x: 0.5 * np.asarray(x), POLICY.params))
    with served() as url:
        before, version = complete(url)
        assert_of_policy(before, POLICY.params)
        again, _ = complete(url)
        after, pushed = complete(url, policy=other, version=3, engine=ENGINE)
        assert_of_policy(after, other.params)
    assert (version, pushed) == (0, 3)
    np.testing.assert_array_equal(before.tokens, again.tokens)
    assert (before.tokens != after.tokens).any()
    ends = [before.tokens[row, length - 1] == POLICY.tokenizer.end for row, length in enumerate(before.length)]
    assert before.has_ended.tolist() == ends


def test_weights_that_an_engine_has_lost_are_pushed_to_it_again(caplog):
    with served() as url:
        engine = sampler(url, engine=ENGINE)
        engine.complete(POLICY, 3, PROMPTS[:1], 1, keys=KEYS[:1])
        # As after a restart: weights of its own, which are of version 0.
        push_weights(url, POLICY.settings, jax.tree.map(np.zeros_like, POLICY.params), 0)
        done, version = engine.complete(POLICY, 3, PROMPTS, 2, keys=KEYS)
    assert version == 3
    assert_of_policy(done, POLICY.params)
    assert [record.getMessage().split("/v1: ")[1] for record in caplog.records if "again" in record.getMessage()] == [
        "answered with weights of version 0, expected 3: pushing them again"
    ]


def test_an_actor_pushes_its_weights_before_it_samples():
    settings = dataclasses.replace(SETTINGS, data=DATA, engine=ENGINE)
    with served(dataclasses.replace(POLICY, params=jax.tree.map(np.zeros_like, POLICY.params))) as url:
        settings = dataclasses.replace(settings, grpo=dataclasses.replace(settings.grpo, sampler=url, rollouts=2))
        actor = Actor(POLICY, RECORDS, None, judge=None, settings=settings)
        sampled = actor.generate([0, 1, 2], batch=0, timings={})
        assert_of_policy(sampled.completions, POLICY.params)
        actor.update_weights(jax.tree.map(lambda x: 0.5 * x, POLICY.params), 1)
        sampled = actor.generate([0, 1, 2], batch=1, timings={})
        assert sampled.version == 1
        assert_of_policy(sampled.completions, actor.params)


def test_stop_texts_cut_completions_of_an_engine_too():
    with served() as url:
        plain, _ = complete(url)
        row = int(np.argmax(plain.length))
        text = POLICY.tokenizer.decode(plain.tokens[row, : plain.length[row]])
        cut, _ = complete(url, data=dataclasses.replace(DATA, stop=(text[1],)))
    assert cut.length[row] < plain.length[row]
    assert cut.has_ended[row]


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (dataclasses.replace(KEEPS, model="other"), "404: .*expected 'tiny'"),
        (KEEPS, "400: .*prompt of 40 tokens"),
    ],
)
def test_what_an_engine_refuses_is_one_line(engine, message):
    asked = [np.full(40, 5) if engine is KEEPS else PROMPTS[0]]
    with served() as url, pytest.raises(UserError, match=message):
        complete(url, asked, engine=engine)


def test_weights_that_an_engine_refuses_end_the_batch_in_one_line():
    misfit = dataclasses.replace(POLICY.settings, layers=POLICY.settings.layers + 1)
    params = tiny.params(misfit)
    with (
        served() as url,
        pytest.raises(UserError, match=r"policy\?version=4: expected an answer .*400: .*unknown tensor"),
    ):
        complete(url, policy=dataclasses.replace(POLICY, params=params, settings=misfit), version=4, engine=ENGINE)


@contextlib.contextmanager
def answering(*answers):
    """An engine that gives these answers in turn, a status code or a body, and the last one ever after."""
    left = list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            answer = left.pop(0) if len(left) > 1 else left[0]
            body = b"busy" if isinstance(answer, int) else json.dumps(answer).encode()
            self.send_response(answer if isinstance(answer, int) else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def choice(ids, **fields):
    text = POLICY.tokenizer.decode(np.array(ids))
    return {"index": 0, "text": text, "token_ids": ids, "logprobs": {"token_logprobs": [-0.5] * len(ids)}} | fields


IDS = PROMPTS[1][:1].tolist() * 3


def test_an_engine_that_goes_away_for_some_seconds_is_waited_for_with_one_line(monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(engine_client, "FIRST_PAUSE_S", 0.01)
    with answering(503, 503, 500, {"choices": [choice(IDS)]}) as url:
        done, _ = complete(url, PROMPTS[:1])
    assert done.tokens[0, :3].tolist() == IDS
    lines = [record.getMessage().split("/v1: ")[1] for record in caplog.records]
    assert lines == ["no answer, asking again for 120 s (503: busy)", "answers again"]


def test_an_engine_that_stays_away_ends_the_batch_in_one_line(monkeypatch):
    monkeypatch.setattr(engine_client, "PATIENCE_S", 0.05)
    monkeypatch.setattr(engine_client, "FIRST_PAUSE_S", 0.02)
    with pytest.raises(UserError, match=r"completions: expected an answer of the engine within 0\.05 s \(ConnectError"):
        complete("http://127.0.0.1:9/v1", PROMPTS[:1])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"choices": [choice(IDS, text="quite another text")]}, "expected the tokenizer of the policy"),
        ({"choices": [choice([*IDS, POLICY.tokenizer.size], text="")]}, "expected token ids from 0 to"),
        ({"choices": [choice(IDS, prompt_token_ids=[1, 2])]}, "found another prompt"),
        ({"choices": [choice(IDS, logprobs={"token_logprobs": [-1.0, 0.5, -1.0]})]}, "expected finite log-prob"),
        ({"choices": [choice(IDS, logprobs={"token_logprobs": [-1.0, None, -1.0]})]}, "expected finite log-prob"),
        ({"choices": [choice(IDS, logprobs=None)]}, "equally many"),
        ({"choices": [{"token_ids": IDS}]}, "expected choices of the OpenAI protocol"),
        ({"choices": []}, "expected 1 choices, found 0"),
        ([], "expected a JSON object"),
    ],
)
def test_an_answer_in_other_tokens_is_never_a_rollout(answer, message):
    with answering(answer) as url, pytest.raises(UserError, match=message):
        complete(url, PROMPTS[:1])


def test_a_hook_is_named_by_module_and_function():
    assert push_hook(EngineSettings().push) is push_weights
    assert push_hook("") is None
    with pytest.raises(UserError, match="expected module:function"):
        push_hook("no.such:thing")
