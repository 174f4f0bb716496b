"""Generation: its log-probabilities are the teacher-forced ones, and neither padding nor neighbours matter."""

import jax
import numpy as np
import pytest

from optimrl_jax.model.generation import sampling
from tests.optimrl_jax.model import tiny

END = 1
PROMPTS = [np.array([5, 6, 7]), np.array([9, 8, 7, 6, 5, 4]), np.array([11])]


def sample(
    prompts, *, width: int, side: str = "right", samples: int = 2, rows=None, temperature: float = 1.0, steps: int = 12
):
    tokens = np.zeros((len(prompts), width), np.int32)
    mask = np.zeros((len(prompts), width), bool)
    for row, prompt in enumerate(prompts):
        span = slice(0, len(prompt)) if side == "right" else slice(width - len(prompt), width)
        tokens[row, span], mask[row, span] = prompt, True
    rows = np.arange(len(prompts) * samples) if rows is None else np.asarray(rows)
    found = sampling.generate(
        tiny.params(),
        tiny.SETTINGS,
        prompts=tokens,
        prompt_mask=mask,
        keys=sampling.row_keys(jax.random.key(3), rows),
        temperature=temperature,
        samples=samples,
        steps=steps,
        end_token=END,
    )
    return jax.tree.map(np.asarray, found)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_of_sampled_tokens_equal_teacher_forced_ones(temperature):
    found = sample(PROMPTS, width=8, temperature=temperature)
    for row in range(6):
        prompt, length = PROMPTS[row // 2], found.length[row]
        sequence = np.concatenate([prompt, found.tokens[row, :length]])
        settings = tiny.SETTINGS
        tree = tiny.params()
        tree = {**tree, "final_norm": {"scale": tree["final_norm"]["scale"] / temperature}}
        expected = tiny.log_probs(tree, settings, sequence)[len(prompt) - 1 :]
        np.testing.assert_allclose(found.log_prob[row, :length], expected, atol=2e-4)
        assert (found.log_prob[row, length:] == 0).all()


@pytest.mark.parametrize(("side", "padding"), [("left", 0), ("left", 7), ("left", 64), ("right", 64)])
def test_padding_on_either_side_changes_no_sample(side, padding):
    plain = sample(PROMPTS, width=6)
    padded = sample(PROMPTS, width=6 + padding, side=side)
    np.testing.assert_array_equal(plain.tokens, padded.tokens)
    np.testing.assert_allclose(plain.log_prob, padded.log_prob, atol=1e-4)


def test_a_row_samples_the_same_whatever_its_neighbours():
    together = sample(PROMPTS, width=6)
    alone = sample(PROMPTS[1:2], width=6, rows=[2, 3])
    np.testing.assert_array_equal(together.tokens[2:4], alone.tokens)


@pytest.mark.parametrize("steps", [1, sampling.STRETCH, sampling.STRETCH + 1])
def test_the_room_of_a_completion_changes_none_of_its_tokens(steps):
    roomy, narrow = sample(PROMPTS, width=6, steps=2 * sampling.STRETCH), sample(PROMPTS, width=6, steps=steps)
    np.testing.assert_array_equal(roomy.tokens[:, :steps], narrow.tokens)
    np.testing.assert_allclose(roomy.log_prob[:, :steps], narrow.log_prob, atol=1e-5)
    np.testing.assert_array_equal(np.minimum(roomy.length, steps), narrow.length)


def test_rows_stop_at_the_end_token_and_count_it():
    found = sample(PROMPTS, width=6, samples=16)
    ended = found.has_ended
    assert ended.any()
    for row in np.flatnonzero(ended):
        assert found.tokens[row, found.length[row] - 1] == END
        assert (found.tokens[row, : found.length[row] - 1] != END).all()
    assert (found.length[~ended] == 12).all()


def test_samples_follow_the_distribution_of_the_model():
    found = sample([PROMPTS[0]], width=3, samples=4000)
    shares = np.bincount(found.tokens[:, 0], minlength=40) / 4000
    expected = np.array(
        [np.exp(tiny.log_probs(tiny.params(), tiny.SETTINGS, [*PROMPTS[0], token])[-1]) for token in range(40)]
    )
    # Five standard errors of a share.
    assert (np.abs(shares - expected) < 5 * np.sqrt(expected * (1 - expected) / 4000) + 1e-4).all()
