"""The reward in other trainers: programs earn the same however a trainer asks; what is lost is no reward."""

import dataclasses

import numpy as np
import pytest

from optimrl_jax import arrays
from optimrl_jax.integrations import SpeedReward, reward_function
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.rollout import execution
from optimrl_jax.settings import EnvironmentSettings, Settings
from tests.optimrl_jax import records

RECORDS = [records.record(name=name) for name in "ab"]
# Slower by far than what its references are said to take, and not slow enough for a limit.
SLOW = "import time\ntime.sleep(0.2)\nprint(2 * int(input()))"
RIGHT, WRONG = "print(2 * int(input()))", "print('no number')"
SETTINGS = freeze(
    Settings,
    {
        "environment": {"family": "qp_ranked", "threshold": 0.3},
        "reward": {"composition": "two_gate_binary"},
        "sandbox": {"address": "local", "workers": 1},
    },
)


@pytest.fixture(scope="module")
def reward():
    # A reference of 10 ms is beaten by a program of one millisecond on any machine.
    with SpeedReward(RECORDS, SETTINGS) as opened:
        yield opened


def test_fast_slow_and_wrong_programs_earn_what_the_composition_pays(reward):
    found = reward.rewards_of(["twin/a", "twin/b", "twin/a"], [RIGHT, WRONG, SLOW])
    assert found == [1.0, -1.0, 0.0]


def test_every_trainer_is_told_the_same(reward):
    fenced = f"Twice the number:\n\n```python\n{RIGHT}\n```"
    messages = [{"role": "assistant", "content": fenced}]
    columns = {"problem_id": ["twin/a", "twin/b"], "trainer_state": None}
    assert reward(prompts=["p", "p"], completions=[fenced, WRONG], **columns) == [1.0, -1.0]
    assert reward(prompts=[[], []], completions=[messages, messages], **columns) == [1.0, 1.0]
    assert reward.compute_score("optimrl", fenced, "twin/a", extra_info={"index": 0}) == 1.0
    told = reward.for_tunix(
        prompts=["p", "p"], completions=[fenced, WRONG], problem_id=np.array([b"twin/a", b"twin/b"])
    )
    assert told.dtype == np.float32
    assert told.tolist() == [1.0, -1.0]


def test_a_draft_in_reasoning_that_the_prompt_opened_is_no_program(reward):
    draft = f"Like this:\n\n```python\n{RIGHT}\n```\n"
    asked = {"completions": [draft, draft], "problem_id": ["twin/a", "twin/a"]}
    assert reward(prompts=["Twice?\n", "Twice?\n<think>\n"], **asked) == [1.0, -1.0]
    assert reward.for_tunix(prompts=np.array(["Twice?\n", "Twice?\n<think>\n"]), **asked).tolist() == [1.0, -1.0]


def test_the_function_of_the_user_reads_answers(tmp_path):
    own = tmp_path / "own.py"
    own.write_text("def read(text): return text.partition('ANSWER:')[2]\n")
    settings = dataclasses.replace(SETTINGS, data=dataclasses.replace(SETTINGS.data, answer_function=f"{own}:read"))
    with SpeedReward(RECORDS, settings) as own_reward:
        assert own_reward.rewards_of(["twin/a"], [f"```python\n{WRONG}\n```\nANSWER:{RIGHT}"]) == [1.0]


def test_what_the_sandbox_lost_is_no_reward(monkeypatch):
    def lost(self, attempts, **_):
        status = np.full(len(RECORDS[0].test_input), arrays.Status.FAULT, np.int8)
        return [execution.CandidateRun(status, np.zeros(len(status), np.float32)) for _ in attempts]

    monkeypatch.setattr(execution.Executor, "execute", lost)
    with SpeedReward(RECORDS, SETTINGS, fault_reward=-0.5) as reward:
        assert reward(completions=[RIGHT], problem_id=["twin/a"]) == [None]
        assert reward.compute_score("optimrl", RIGHT, "twin/a") == -0.5
        assert reward.faults == 2


@pytest.mark.parametrize(("family", "expected"), [("qp_ranked", True), ("mc", False)])
def test_the_sandbox_is_told_whether_stored_seconds_will_be_read(monkeypatch, family, expected):
    told = []

    def run(self, attempts, *, reads_references, **_):
        told.append(reads_references)
        return [execution.CandidateRun(np.zeros(5, np.int8), np.full(5, 0.01, np.float32)) for _ in attempts]

    monkeypatch.setattr(execution.Executor, "execute", run)
    settings = dataclasses.replace(SETTINGS, environment=EnvironmentSettings(family=family))
    with SpeedReward(RECORDS, settings) as reward:
        reward.rewards_of(["twin/a"], [RIGHT])
    assert told == [expected]


def test_mistakes_are_named(reward, tmp_path):
    with pytest.raises(ValueError, match="problem_id = 'twin/c': expected the id of a problem"):
        reward.rewards_of(["twin/c"], [RIGHT])
    with pytest.raises(ValueError, match=r"columns = \['id'\]: expected 'problem_id'"):
        reward(completions=[RIGHT], id=["twin/a"])
    with pytest.raises(UserError, match="ranked_p31"):
        reward_function(tmp_path, "local", "ranked_p31")
