"""Rollouts from an engine elsewhere: our own server, over HTTP, with weights that are pushed to it."""

import dataclasses

import jax
import numpy as np
import pytest

from optimrl_jax.data import prompts
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model.generation import sampling
from optimrl_jax.rollout.actor import Actor
from optimrl_jax.rollout.engine_client import EngineSampler, push_hook, push_weights
from optimrl_jax.settings import EngineSettings
from tests.optimrl_jax.grpo.groups import SETTINGS
from tests.optimrl_jax.grpo.stored import DATA, POLICY, RECORDS
from tests.optimrl_jax.model import tiny
from tests.optimrl_jax.serving.served import served

ENGINE = EngineSettings(model="tiny", requests=2, timeout_s=60.0)
PROMPTS = [prompts.encode_prompt(POLICY.tokenizer, record.statement) for record in RECORDS]
KEYS = sampling.row_keys(jax.random.key(0), np.arange(2 * len(PROMPTS)))


def sampler(url, data=DATA):
    return EngineSampler(url, ENGINE, POLICY.tokenizer, data, temperature=1.0)


def assert_of_policy(done, params):
    for row in range(len(KEYS)):
        prompt, length = PROMPTS[row // 2], int(done.length[row])
        whole = np.concatenate([prompt, done.tokens[row, :length]])
        expected = tiny.log_probs(params, POLICY.settings, whole)[len(prompt) - 1 :]
        np.testing.assert_allclose(done.log_prob[row, :length], expected, atol=2e-5)


def test_completions_carry_the_probabilities_of_the_weights_that_were_pushed():
    other = jax.tree.map(lambda x: 0.5 * np.asarray(x), POLICY.params)
    with served() as url:
        before = sampler(url).complete(PROMPTS, 2, keys=KEYS)
        assert_of_policy(before, POLICY.params)
        again = sampler(url).complete(PROMPTS, 2, keys=KEYS)
        push_weights(url, POLICY.settings, other, 3)
        after = sampler(url).complete(PROMPTS, 2, keys=KEYS)
        assert_of_policy(after, other)
    np.testing.assert_array_equal(before.tokens, again.tokens)
    assert (before.tokens != after.tokens).any()
    ends = [before.tokens[row, length - 1] == POLICY.tokenizer.end for row, length in enumerate(before.length)]
    assert before.has_ended.tolist() == ends


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
        plain = sampler(url).complete(PROMPTS, 2, keys=KEYS)
        row = int(np.argmax(plain.length))
        text = POLICY.tokenizer.decode(plain.tokens[row, : plain.length[row]])
        cut = sampler(url, dataclasses.replace(DATA, stop=(text[1],))).complete(PROMPTS, 2, keys=KEYS)
    assert cut.length[row] < plain.length[row]
    assert cut.has_ended[row]


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (dataclasses.replace(ENGINE, model="other"), "404: .*expected 'tiny'"),
        (ENGINE, "400: .*prompt of 40 tokens"),
    ],
)
def test_what_an_engine_refuses_is_one_line(engine, message):
    prompt = np.full(40, 5) if engine is ENGINE else PROMPTS[0]
    with served() as url:
        asked = EngineSampler(url, engine, POLICY.tokenizer, DATA, temperature=1.0)
        with pytest.raises(UserError, match=message):
            asked.complete([prompt], 1, keys=KEYS[:1])


def test_a_hook_is_named_by_module_and_function():
    assert push_hook(EngineSettings().push) is push_weights
    assert push_hook("") is None
    with pytest.raises(UserError, match="expected module:function"):
        push_hook("no.such:thing")
