"""Learner and actors agree on everything that shapes a rollout, and on nothing that does not."""

import dataclasses

import pytest

from optimrl_jax.actors import messages
from optimrl_jax.settings import ActorSettings, ComputeSettings, DataSettings, SandboxSettings, Settings
from tests.optimrl_jax.grpo.stored import RECORDS, TOKENIZER

SAME = {
    "address": {"sandbox": SandboxSettings(address="docker", workers=9)},
    "listen": {"actors": ActorSettings(listen="tcp://127.0.0.1:1")},
    "slots": {"data": DataSettings(slots=4)},
}
OTHER = {
    "stop": {"data": DataSettings(stop=("```",))},
    "precision": {"sandbox": SandboxSettings(precision=0.5)},
    "dtype": {"compute": ComputeSettings(dtype="bfloat16")},
}


def identity(records=RECORDS, tokenizer=TOKENIZER, **changes):
    return messages.job_id(dataclasses.replace(Settings(), **changes), records, tokenizer)


@pytest.mark.parametrize("name", SAME)
def test_where_things_run_is_each_hosts_own(name):
    assert identity(**SAME[name]) == identity()


@pytest.mark.parametrize("name", OTHER)
def test_what_shapes_a_rollout_is_part_of_the_identity(name):
    assert identity(**OTHER[name]) != identity()


@pytest.mark.parametrize("field", ["statement", "test_output", "duration_s"])
def test_so_is_the_content_of_every_problem(field):
    first = RECORDS[0]
    values = {
        "statement": f"{first.statement} Twice.",
        "test_output": (f"{first.test_output[0]}1", *first.test_output[1:]),
        "duration_s": first.duration_s * 2,
    }
    changed = dataclasses.replace(first, **{field: values[field]})
    assert identity(records=[changed, *RECORDS[1:]]) != identity()
