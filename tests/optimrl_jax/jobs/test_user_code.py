"""A user's own reward, quality map, prompt and answer extraction come from a file that a setting names."""

import dataclasses

import numpy as np
import pytest

from optimrl_jax.data import prompts
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.jobs.user_code import load_function
from optimrl_jax.rollout import rewarder
from optimrl_jax.rollout.execution import CandidateRun
from optimrl_jax.settings import DataSettings, EnvironmentSettings, RewardSettings, Settings
from tests.optimrl_jax import records
from tests.optimrl_jax.grpo.stored import TOKENIZER

OWN = """
def halves(outcome):
    return outcome.c * 0.5

def square(q):
    return (1 - q) ** 2

def ask(statement):
    return statement.upper()

def answer(completion):
    return completion.split("ANSWER")[-1].strip()
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


def rewards_of(**reward):
    settings = dataclasses.replace(
        Settings(), environment=EnvironmentSettings(family="qp_ranked"), reward=RewardSettings(**reward)
    )
    runs = [CandidateRun(np.array(status, np.int8), np.full(5, 0.015, np.float32)) for status in ([0] * 5, [2] * 5)]
    return rewarder.Rewarder([records.record()], settings)(0, runs, stream=0, batch=0).reward


def test_an_own_reward_is_a_function_of_the_outcome(own):
    np.testing.assert_allclose(rewards_of(composition=f"{own}:halves"), [0.5, 0.0])


def test_an_own_quality_map_turns_positions_into_credit(own):
    found = rewards_of(composition="two_gate_graded", quality_map=f"{own}:square")
    # One of four references is faster: q = 1/4, so the credit of the correct program is (3/4)^2.
    np.testing.assert_allclose(found, [0.75**2, -1.0], atol=1e-6)


def test_an_own_prompt_and_an_own_answer(own):
    data = DataSettings(prompt_function=f"{own}:ask", answer_function=f"{own}:answer")
    expected = prompts.encode_prompt(TOKENIZER, "READ A NUMBER.")
    np.testing.assert_array_equal(prompts.encode_prompt(TOKENIZER, "Read a number.", data), expected)
    sampled = TOKENIZER.encode("print(1)")
    assert prompts.sampled_program(TOKENIZER, expected, sampled, data) == "print(1)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("absent.py:f", "expected an existing file absent.py"),
        ("{own}:halvse", "did you mean 'halves'?"),
        ("absent_package.module:f", "ModuleNotFoundError"),
        ("{broken}:f", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_name_that_leads_nowhere_is_one_line(own, text, message):
    broken = own.with_name("broken.py")
    broken.write_text("1 / 0")
    with pytest.raises(UserError) as raised:
        load_function(text.format(own=own, broken=broken), "reward.composition")
    assert message in str(raised.value)
    assert str(raised.value).startswith("reward.composition = ")
