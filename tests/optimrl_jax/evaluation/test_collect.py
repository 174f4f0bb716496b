"""Seconds of two passes never meet: other hosts, rebuilt datasets, killed passes; with a stand-in for the sandbox."""

import dataclasses
import logging

import numpy as np
import pytest

from optimrl_jax.evaluation import collect, policies, records, timing_pass
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.rollout import execution
from optimrl_jax.rollout.actor import SampledProgram
from optimrl_jax.settings import Settings
from tests.optimrl_jax.evaluation.service import Killed, StandInService
from tests.optimrl_jax.records import record

SETTINGS = freeze(Settings, {"evaluation": {"policies": (("one", "runs/one"),), "samples": 2, "ks": (1,)}})
PROBLEMS = [record(), dataclasses.replace(record(name="triple"), test_output=("3\n",) * 5)]


@pytest.fixture
def evaluated(tmp_path, monkeypatch):
    """Collects records of a policy whose programs are given, on a service of a given speed."""

    def evaluate(*, seconds, programs=("a", "b"), problems=PROBLEMS, dies_after=None, step=1, settings=SETTINGS):
        service = StandInService(seconds, dies_after=dies_after)
        sampled = [[SampledProgram(text, 3) for text in programs] for _ in problems]
        monkeypatch.setattr(policies, "sample_programs", lambda *_, **__: sampled)
        facts = {"source": "runs/one", "step": step, "written": step, "seed": 0, "recipe": {}, "wall_s": None}
        monkeypatch.setattr(policies, "policy_facts", lambda _: facts)
        monkeypatch.setattr(
            execution, "connect_sandbox", lambda _, pass_store="": service.client(pass_store=pass_store)
        )
        return collect.collect_evaluation(settings, problems, tmp_path), service

    return evaluate


def seconds_of(evaluation):
    return {float(np.float32(second)) for sample in evaluation.samples for second in sample.duration_s}


def test_a_new_policy_on_a_slower_host_is_never_ranked_against_seconds_of_the_faster_one(evaluated):
    first, _ = evaluated(seconds=0.125)
    assert seconds_of(first) == {0.125}
    second, service = evaluated(seconds=0.25, programs=("a", "c"), step=2)
    assert seconds_of(second) == {0.25}
    assert service.executed == 12
    assert first.facts["pass"]["id"] != second.facts["pass"]["id"]


def test_the_same_question_is_answered_from_its_records(evaluated):
    evaluated(seconds=0.125)
    again, service = evaluated(seconds=0.25)
    assert (service.executed, seconds_of(again)) == (0, {0.125})


def test_a_rebuilt_dataset_under_the_same_ids_is_a_new_evaluation_and_the_log_says_so(evaluated, caplog):
    evaluated(seconds=0.125)
    rebuilt = [dataclasses.replace(PROBLEMS[0], test_output=("0\n",) * 5), PROBLEMS[1]]
    with caplog.at_level(logging.INFO):
        again, service = evaluated(seconds=0.25, problems=rebuilt)
    assert (service.executed, seconds_of(again)) == (12, {0.25})
    assert "(dataset changed): timing everything anew" in caplog.text


@pytest.mark.parametrize("field", ["system", "instruction", "prompt_function", "answer_function"])
def test_another_prompt_or_answer_is_another_question(evaluated, tmp_path, field):
    own = tmp_path / "own.py"
    own.write_text("def read(text): return text\n")
    value = f"{own}:read" if field.endswith("function") else "Be fast: {statement}"
    settings = dataclasses.replace(SETTINGS, data=dataclasses.replace(SETTINGS.data, **{field: value}))
    evaluated(seconds=0.125)
    assert seconds_of(evaluated(seconds=0.25, settings=settings)[0]) == {0.25}
    assert seconds_of(evaluated(seconds=0.5, settings=settings)[0]) == {0.25}
    own.write_text("def read(text): return text.strip()\n")
    again = evaluated(seconds=0.5, settings=settings)[0]
    assert seconds_of(again) == ({0.5} if field.endswith("function") else {0.25})


def test_a_killed_pass_goes_on_and_leaves_no_store_behind(evaluated, tmp_path):
    with pytest.raises(Killed):
        evaluated(seconds=0.125, dies_after=5)
    left = timing_pass.enter_pass(tmp_path, "another question")
    assert not list(tmp_path.glob("pass-*"))
    timing_pass.finish_pass(left)
    with pytest.raises(Killed):
        evaluated(seconds=0.125, dies_after=5)
    # Sampled a second time, the policy would say something else.
    found, service = evaluated(seconds=0.125, programs=("c", "d"))
    assert service.executed == 12 - 5
    assert len(found.samples) == 12
    assert {(sample.program, sample.tokens) for sample in found.samples if sample.policy == "one"} == {
        ("a", 3),
        ("b", 3),
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == [records.PROBLEMS, records.RECORDS]


def test_programs_keep_the_length_of_their_completions(evaluated):
    found, _ = evaluated(seconds=0.125)
    assert {sample.tokens for sample in found.samples if sample.policy == "one"} == {3}
    assert {sample.tokens for sample in found.samples if sample.policy == records.REFERENCES} == {-1}


def test_programs_of_stored_records_are_timed_again_in_another_pass(tmp_path):
    answers, stored = tmp_path / "answers.jsonl", [records.stored_problem(problem) for problem in PROBLEMS]
    nothing = np.zeros(5, np.int8), np.zeros(5, np.float32)
    samples = [records.SampleRecord("one", p.id, n, "yx"[n], *nothing, tokens=3) for n in (1, 0) for p in stored]
    facts = {"policies": {"one": {"source": "runs/one", "step": 1}}}
    records.write_evaluation(tmp_path, records.Evaluation(stored, samples, facts))
    again = policies.sample_programs(f"{tmp_path}#one", PROBLEMS, SETTINGS, answers=answers)
    assert again == [[SampledProgram("y", 3), SampledProgram("x", 3)]] * 2
    known = policies.policy_facts(f"{tmp_path}#one")
    assert (known["source"], known["step"]) == ("runs/one", 1)
    with pytest.raises(UserError, match=r"expected one of one after #"):
        policies.policy_facts(f"{tmp_path}#two")
    more = dataclasses.replace(SETTINGS, evaluation=dataclasses.replace(SETTINGS.evaluation, samples=3))
    with pytest.raises(UserError, match=r"has 2 programs for .*: expected evaluation.samples = 3"):
        policies.sample_programs(f"{tmp_path}#one", PROBLEMS, more, answers=answers)
