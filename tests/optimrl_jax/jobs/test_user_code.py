"""A user's own environment, reward, quality map, prompt and answer extraction come from a file that a setting names."""

import dataclasses
import re

import numpy as np
import pytest

from optimrl_jax import arrays
from optimrl_jax.data import prompts
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.jobs.user_code import load_function
from optimrl_jax.rollout import rewarder
from optimrl_jax.rollout.execution import CandidateRun
from optimrl_jax.settings import DataSettings, EnvironmentSettings, RewardSettings, Settings
from tests import source
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


@pytest.fixture
def of_the_page(tmp_path):
    """The file that the researchers' page shows."""
    text = (source.ROOT / "docs" / "researchers.md").read_text()
    (example,) = (block for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if "# own.py" in block)
    path = tmp_path / "page.py"
    path.write_text(example)
    return path


def judged(runs, *, family="qp_ranked", beta_s=0.0, **reward):
    settings = dataclasses.replace(
        Settings(), environment=EnvironmentSettings(family=family, beta_s=beta_s), reward=RewardSettings(**reward)
    )
    return rewarder.Rewarder([records.record()], settings)(0, runs, stream=0, batch=0)


def run(status, seconds):
    return CandidateRun(np.full(5, status, np.int8), np.full(5, seconds, np.float32))


def rewards_of(**reward):
    return judged([run(0, 0.015), run(2, 0.015)], **reward).reward


def test_an_own_environment_judges_and_the_reward_stays_ours(of_the_page):
    family = f"{of_the_page}:twice_as_fast"
    # The fastest reference takes 10 ms: 4 ms is twice as fast, 15 ms is not, a wrong program is wrong, a lost one lost.
    runs = [run(0, 0.004), run(0, 0.015), run(2, 0.004), run(arrays.Status.FAULT, 0.004)]
    found = judged(runs, family=family)
    np.testing.assert_allclose(found.reward[:3], [1.0, 0.0, -1.0])
    assert found.is_valid.tolist() == [True, True, True, False]
    assert found.is_fast.tolist()[:3] == [True, False, False]
    # On a clock that adds 30 ms to what was stored, 15 ms is twice as fast as well.
    assert judged(runs, family=family, beta_s=0.03).reward[1] == 1.0


def test_the_other_functions_of_the_page_do_what_it_says(of_the_page):
    np.testing.assert_allclose(rewards_of(composition=f"{of_the_page}:reward"), [0.75, 0.0])
    found = rewards_of(composition="two_gate_graded", quality_map=f"{of_the_page}:quality")
    np.testing.assert_allclose(found, [0.75**2, -1.0], atol=1e-6)
    data = DataSettings(prompt_function=f"{of_the_page}:ask", answer_function=f"{of_the_page}:answer")
    asked = prompts.encode_prompt(TOKENIZER, "Add.", data)
    np.testing.assert_array_equal(asked, prompts.encode_prompt(TOKENIZER, "Write a fast program.\nAdd."))
    assert prompts.sampled_program(TOKENIZER, asked, TOKENIZER.encode("so ANSWER:print(1)"), data) == "print(1)"


def test_what_an_own_function_raises_is_named(tmp_path):
    (tmp_path / "wrong.py").write_text("def judge(tests, references, execution):\n    return references.seconds\n")
    with pytest.raises(ValueError, match=r"environment\.family = .*wrong\.py:judge': AttributeError"):
        judged([run(0, 0.004)], family=f"{tmp_path / 'wrong.py'}:judge")


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
