"""Continuous batching: every rollout is the one that sampling it alone would give, in whichever slot and order."""

import dataclasses
import functools
import itertools

import jax
import numpy as np
import pytest

from optimrl_jax.data import prompts
from optimrl_jax.model.generation import continuous, sampling
from tests.optimrl_jax.model import tiny, windowed

END, STEPS, SAMPLES, LONGEST = 29, 12, 3, 8
PROMPTS = [np.array(ids) for ids in ([5, 6, 7], [9, 8, 7, 6, 5, 4], [11], [3, 2, 8, 30, 12, 25, 4, 9])]
ROWS = len(PROMPTS) * SAMPLES
KEYS = sampling.row_keys(jax.random.key(3), np.arange(ROWS))
PLAN = continuous.SlotPlan(slots=5, prompt_tokens=LONGEST, steps=STEPS, block=4)
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"


def letters(tokens) -> str:
    """Each token is a letter; the end token vanishes."""
    return "".join(LETTERS[token] for token in tokens if token != END)


def requests(prompts=PROMPTS):
    keys = KEYS.reshape(len(PROMPTS), SAMPLES)
    return itertools.starmap(continuous.SampleRequest, zip(prompts, keys, strict=True))


def stream(asked, *, settings=tiny.SETTINGS, plan=PLAN, temperature=1.0, stop=None):
    tree = tiny.params(settings)
    return continuous.stream_rollouts(
        tree, settings, asked, plan=plan, temperature=temperature, end_token=END, stop=stop
    )


def gathered(found) -> sampling.Completions:
    return continuous.gather_completions(found, samples=SAMPLES, rows=ROWS, steps=STEPS)


@functools.cache
def at_once(temperature: float = 1.0) -> sampling.Completions:
    tokens, mask = np.zeros((len(PROMPTS), LONGEST), np.int32), np.zeros((len(PROMPTS), LONGEST), bool)
    for row, prompt in enumerate(PROMPTS):
        tokens[row, : len(prompt)], mask[row, : len(prompt)] = prompt, True
    found = sampling.generate(
        tiny.params(),
        tiny.SETTINGS,
        prompts=tokens,
        prompt_mask=mask,
        keys=KEYS,
        temperature=temperature,
        samples=SAMPLES,
        steps=STEPS,
        end_token=END,
    )
    return jax.tree.map(np.asarray, found)


def assert_same(found: sampling.Completions, expected: sampling.Completions) -> None:
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_array_equal(found.length, expected.length)
    np.testing.assert_array_equal(found.has_ended, expected.has_ended)
    np.testing.assert_allclose(found.log_prob, expected.log_prob, atol=1e-4)


def test_the_workload_has_rollouts_that_end_and_rollouts_that_fill_their_room():
    assert 0 < at_once().has_ended.sum() < ROWS
    assert len(set(at_once().length)) > 2


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_rollouts_equal_those_of_a_batch_sampled_at_once(temperature):
    assert_same(gathered(stream(requests(), temperature=temperature)), at_once(temperature))


@pytest.mark.parametrize("change", [{"slots": 1}, {"slots": 16}, {"block": 1}], ids=str)
def test_neither_slots_nor_pace_change_a_rollout(change):
    assert_same(gathered(stream(requests(), plan=dataclasses.replace(PLAN, **change))), at_once())


def test_log_probs_of_refilled_slots_equal_teacher_forced_ones():
    found = gathered(stream(requests()))
    for row in range(ROWS):
        prompt, length = PROMPTS[row // SAMPLES], found.length[row]
        sequence = np.concatenate([prompt, found.tokens[row, :length]])
        expected = tiny.log_probs(tiny.params(), tiny.SETTINGS, np.pad(sequence, (0, LONGEST + STEPS - len(sequence))))
        expected = expected[len(prompt) - 1 : len(sequence) - 1]
        np.testing.assert_allclose(found.log_prob[row, :length], expected, atol=1e-4)


def test_log_probs_behind_windows_equal_teacher_forced_ones():
    found = gathered(stream(requests(PROMPTS), settings=windowed.SETTINGS))
    assert (found.length > windowed.SETTINGS.window).any()
    for row in range(ROWS):
        prompt, length = PROMPTS[row // SAMPLES], found.length[row]
        sequence = np.concatenate([prompt, found.tokens[row, :length]])
        expected = windowed.log_probs(tiny.params(windowed.SETTINGS), sequence, longest=LONGEST + STEPS)
        np.testing.assert_allclose(found.log_prob[row, :length], expected[len(prompt) - 1 :], atol=1e-4)


def test_rollouts_come_out_as_they_end_and_requests_are_taken_up_as_slots_free():
    taken = []

    def endless():
        for number in itertools.count():
            taken.append(number)
            yield continuous.SampleRequest(PROMPTS[0], KEYS[:SAMPLES])

    found = list(itertools.islice(stream(endless()), 9))
    assert len(taken) <= 3 + PLAN.slots
    assert {rollout.request for rollout in found} <= set(taken)
    first = {rollout.sample: rollout for rollout in found if rollout.request == 0}
    for rollout in found:
        np.testing.assert_array_equal(rollout.tokens, first[rollout.sample].tokens)


def test_programs_are_compiled_once_for_each_prompt_width():
    list(stream(requests()))
    before = [step._cache_size() for step in (continuous.slots_lib.prefill_prompt, continuous.slots_lib.advance_slots)]
    longer = [np.concatenate([prompt, prompt])[:LONGEST] for prompt in PROMPTS]
    list(stream(requests(longer)))
    after = [step._cache_size() for step in (continuous.slots_lib.prefill_prompt, continuous.slots_lib.advance_slots)]
    assert after[1] == before[1]
    assert after[0] - before[0] <= 1
    assert continuous.prompt_widths(LONGEST) == [1, 2, 4, 8]
    assert continuous.prompt_widths(48) == [6, 12, 24, 48]
    assert continuous.prompt_widths(2) == [1, 2]


@pytest.mark.parametrize("block", [1, 4, 32])
def test_a_stop_string_ends_a_completion_wherever_the_blocks_lie(block):
    plain = at_once()
    row = int(np.argmax(plain.length))
    wanted = letters(plain.tokens[row, 4:6])
    stop = functools.partial(prompts.stop_length, stops=(wanted, "never"), decode=letters)
    found = gathered(stream(requests(), plan=dataclasses.replace(PLAN, block=block), stop=stop))
    assert_same(found, sampling.cut_at_stop(plain, stop))
    assert found.has_ended[row]
    assert found.length[row] <= 6
    np.testing.assert_array_equal(found.tokens[row, : found.length[row]], plain.tokens[row, : found.length[row]])
    for other in range(ROWS):
        text = letters(plain.tokens[other, : plain.length[other]])
        assert (found.length[other] < plain.length[other]) <= (wanted in text)


@pytest.mark.parametrize("prompt", [np.array([], int), np.arange(9)], ids=["empty", "too_long"])
def test_a_prompt_that_does_not_fit_is_named(prompt):
    with pytest.raises(ValueError, match=rf"prompt of request 0: {len(prompt)} tokens, expected 1 to 8"):
        list(stream([continuous.SampleRequest(prompt, KEYS[:1])]))


def test_nothing_asked_gives_nothing():
    assert list(stream([])) == []
    assert list(stream([continuous.SampleRequest(PROMPTS[0], KEYS[:0])])) == []
