"""The synchronous loop: bounded staleness by construction, and a stopped run ends where an uninterrupted one does."""

import dataclasses
import itertools
import json

import httpx
import jax
import numpy as np
import pytest

from optimrl_jax.data import prompts, stream
from optimrl_jax.grpo.loop import Learner, TrainingLoop
from optimrl_jax.grpo.sync_rollouts import SyncRollouts
from optimrl_jax.rollout import rewarder
from optimrl_jax.rollout.actor import Actor, Sampler
from optimrl_jax.settings import EngineSettings, EnvironmentSettings, LoraSettings
from tests.optimrl_jax.grpo.groups import SETTINGS
from tests.optimrl_jax.grpo.stored import DATA, MODEL, POLICY, RECORDS, TOKENIZER, Stopped, StoredExecutor
from tests.optimrl_jax.serving.served import served


def run(directory, *, stops_at: int = 0, data=DATA, engine=EngineSettings(), rank: int = 0, **grpo):  # noqa: B008 - frozen
    directory.mkdir(exist_ok=True)
    recipe = dataclasses.replace(SETTINGS.grpo, checkpoint_every=2, **grpo)
    settings = dataclasses.replace(SETTINGS, data=data, grpo=recipe, engine=engine, lora=LoraSettings(rank=rank))
    executor = StoredExecutor(stops_at)
    judge = rewarder.Rewarder(RECORDS, settings)
    learner = Learner(POLICY.params, MODEL, settings)
    problems = stream.problem_batches(range(len(RECORDS)), batch=recipe.problems, seed=0)
    actor = Actor(POLICY, RECORDS, executor, judge=judge, settings=settings)
    source = SyncRollouts(actor, stream=problems, settings=recipe, to_policy=learner.to_policy)
    TrainingLoop(source, learner, workdir=directory, settings=recipe).run()
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return jax.tree.map(np.asarray, learner.trainer.state.params), lines


@pytest.mark.parametrize(
    "grpo",
    [{}, {"ahead": 2, "broadcast_every": 3}, {"ahead": 2, "broadcast_every": 3, "rank": 2}],
    ids=["on_policy", "ahead", "adapters"],
)
def test_a_stopped_run_ends_where_an_uninterrupted_one_does(tmp_path, grpo):
    whole, expected = run(tmp_path / "whole", **grpo)
    with pytest.raises(Stopped):
        run(tmp_path / "stopped", stops_at=6, **grpo)
    resumed, lines = run(tmp_path / "stopped", **grpo)
    for left, right in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(left, right)
    assert [line["step"] for line in lines] == list(range(6))
    assert [line["reward"] for line in lines] == [line["reward"] for line in expected]


def test_staleness_follows_from_how_far_the_actor_works_ahead(tmp_path):
    _, lines = run(tmp_path, ahead=2)
    assert [line["staleness"] for line in lines] == [0, 1, 2, 2, 2, 2]
    assert {line["queue_depth"] for line in lines} == {2 * SETTINGS.grpo.problems}


def test_too_stale_groups_are_dropped_and_reported(tmp_path):
    _, lines = run(tmp_path, ahead=2, max_staleness=1)
    assert [line["stale_share"] for line in lines] == [0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(("family", "expected"), [("qp_ranked", True), ("rlvr", False)])
def test_the_sandbox_is_told_whether_stored_seconds_will_be_read(family, expected):
    told = []

    class Listens(StoredExecutor):
        def execute(self, attempts, **options):
            told.append(options["reads_references"])
            return super().execute(attempts, **options)

    settings = dataclasses.replace(SETTINGS, data=DATA, environment=EnvironmentSettings(family=family))
    actor = Actor(POLICY, RECORDS, Listens(), judge=rewarder.Rewarder(RECORDS, settings), settings=settings)
    actor.produce([0, 1], batch=0, timings={})
    assert told == [expected]


def test_an_engine_elsewhere_samples_with_the_weights_of_every_step(tmp_path):
    with served() as url:
        _, lines = run(tmp_path, engine=EngineSettings(model="tiny"), sampler=url, steps=3)
        assert httpx.get(f"{url}/policy").json() == {"version": 2}
    assert [line["staleness"] for line in lines] == [0, 0, 0]
    # The engine decodes token by token what the learner scores at once: the same numbers but for rounding.
    assert all(0 <= line["sampler_mismatch"] < 1e-4 for line in lines)
    assert [line["sampler_ratio"] for line in lines] == pytest.approx([1, 1, 1], abs=1e-4)
    assert {line["truncated_share"] for line in lines} == {0}


def test_a_sampler_gives_the_same_programs_for_a_statement_whoever_comes_with_it():
    sampler = Sampler(POLICY, DATA, 1.0)
    statements = [record.statement for record in RECORDS]
    together = sampler.sample(statements, 3, seed=5)
    assert [len(programs) for programs in together] == [3, 3, 3]
    assert sampler.sample(statements, 3, seed=5) == together
    assert sampler.sample(statements[:2], 3, seed=5) == together[:2]
    assert max(len(prompts.encode_prompt(TOKENIZER, statement)) for statement in statements) <= DATA.prompt_tokens


def test_refilled_slots_sample_the_programs_of_batches_sampled_at_once():
    statements = [record.statement for record in RECORDS]
    expected = Sampler(POLICY, DATA, 1.0).sample(statements, 3, seed=5)
    slots = dataclasses.replace(DATA, slots=4)
    assert Sampler(POLICY, slots, 1.0).sample(statements, 3, seed=5) == expected
    text = max(itertools.chain(*expected), key=len)
    stop = text[len(text) // 2 :][:2]
    cut = {
        count: Sampler(POLICY, dataclasses.replace(DATA, slots=count, stop=(stop,)), 1.0).sample(statements, 3, seed=5)
        for count in (0, 4)
    }
    assert cut[0] == cut[4]
    assert cut[0] != expected


def test_training_on_refilled_slots_takes_the_same_steps(tmp_path):
    _, expected = run(tmp_path / "at_once")
    _, found = run(tmp_path / "slots", data=dataclasses.replace(DATA, slots=3))
    for name in ("completion_tokens", "reward"):
        assert [line[name] for line in found] == [line[name] for line in expected]


def test_steps_of_a_token_budget_with_replayed_groups_go_on_after_a_stop(tmp_path):
    """The group that did not fit waits in the checkpoint, and so do those that may be learned from again."""
    grpo = {"batch_tokens": 9 * SETTINGS.data.row_tokens, "replay_groups": 4, "steps": 4, "learning_rate": 1e-3}
    data = dataclasses.replace(DATA, micro_rows=4)
    whole, expected = run(tmp_path / "whole", data=data, **grpo)
    with pytest.raises(Stopped):
        run(tmp_path / "stopped", stops_at=4, data=data, **grpo)
    resumed, lines = run(tmp_path / "stopped", data=data, **grpo)
    names = ("step", "reward", "trained_tokens", "replayed_groups", "dropped_groups", "staleness")
    assert [[line[name] for name in names] for line in lines] == [[line[name] for name in names] for line in expected]
    assert all(line["trained_tokens"] > 0 for line in lines)
    assert {line["replayed_groups"] for line in lines[1:]} == {1}
    for left, right in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(left, right)
