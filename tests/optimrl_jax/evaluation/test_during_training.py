"""A policy is scored while it trains: the scores are those of its programs, and training does not notice.

The sandbox is a stand-in: a program is wrong, slow (twice the references' seconds) or fast by its text alone.
"""

import dataclasses
import zlib

import jax
import numpy as np
import pytest

from optimrl_jax.evaluation import records
from optimrl_jax.evaluation.held_out.during_training import HeldOutEvaluation
from optimrl_jax.rollout.actor import Sampler
from optimrl_jax.settings import EvaluationSettings
from optimrl_jax.training.checkpoints import Policy
from sandbox.protocol import Verdict
from tests.optimrl_jax.actors import job
from tests.optimrl_jax.evaluation.service import Killed, StandInService
from tests.optimrl_jax.grpo.stored import MODEL, POLICY, RECORDS, TOKENIZER

EVALUATION = EvaluationSettings(every=2, samples=4, ks=(1, 2), taus=(100, 50), resamples=50)
STATEMENTS = [problem.statement for problem in RECORDS]
REFERENCE_RUNS = sum(len(problem.reference_program) for problem in RECORDS)


def judged(program):
    if program in RECORDS[0].reference_program:
        return Verdict.SUCCESS, 1.0
    return [(Verdict.WRONG_OUTPUT, 1.0), (Verdict.SUCCESS, 2.0), (Verdict.SUCCESS, 0.5)][
        zlib.crc32(program.encode()) % 3
    ]


def shares(params, *, accepts):
    """Of the programs that these weights write, the share in each problem that the stand-in accepts."""
    programs = Sampler(Policy(params, MODEL, TOKENIZER), SETTINGS.data, 1.0).sample(STATEMENTS, 4, seed=0)
    return np.mean([[judged(program) in accepts for program in of_problem] for of_problem in programs])


SETTINGS = dataclasses.replace(job.settings_of(), evaluation=EVALUATION)
RIGHT, FAST = {(Verdict.SUCCESS, 2.0), (Verdict.SUCCESS, 0.5)}, {(Verdict.SUCCESS, 0.5)}


def held_out(directory, service):
    directory.mkdir(exist_ok=True)
    return HeldOutEvaluation(
        RECORDS, MODEL, TOKENIZER, settings=SETTINGS, client=service.client(pass_store=""), workdir=directory
    )


def evaluated_steps(directory):
    return {row["step"]: row for row in job.metrics(directory) if "held_out/pass_at_1_p100" in row}


def scores_of(rows):
    names = [f"held_out/pass_at_{k}_p{tau}" for k in (1, 2) for tau in (100, 50)]
    return {step: [row[name] for name in names] for step, row in rows.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run with its weights at the end, and how many programs its evaluations executed."""
    directory, service = tmp_path_factory.mktemp("whole"), StandInService(0.01, judges=judged)
    learner = job.Learner(POLICY.params, MODEL, SETTINGS)
    evaluation = held_out(directory, service)
    summary = job.sync_loop(directory, SETTINGS, learner=learner, held_out=evaluation).run()
    return directory, jax.tree.map(np.asarray, learner.trainer.state.params), summary, evaluation


def test_scores_are_the_shares_of_the_programs_that_the_weights_write(whole):
    directory, params, summary, _ = whole
    rows = evaluated_steps(directory)
    assert sorted(rows) == [0, 2, 4, 6]
    for step, weights in ((0, POLICY.params), (6, params)):
        assert rows[step]["held_out/pass_at_1_p100"] == pytest.approx(shares(weights, accepts=RIGHT))
        assert rows[step]["held_out/pass_at_1_p50"] == pytest.approx(shares(weights, accepts=FAST))
        assert rows[step]["held_out/faulted_share"] == 0
    assert summary["held_out/pass_at_1_p50"] == rows[6]["held_out/pass_at_1_p50"]
    assert (rows[0]["reward"], "reward" in rows[6]) == (job.metrics(directory)[0]["reward"], False)


def test_the_table_has_the_first_and_the_last_evaluation_and_their_gain(whole):
    directory, _, _, evaluation = whole
    found, gains = evaluation.table()
    rows = evaluated_steps(directory)
    assert found["step 6"]["pass@2"]["p100"]["mean"] == pytest.approx(rows[6]["held_out/pass_at_2_p100"])
    gain = rows[6]["held_out/pass_at_1_p50"] - rows[0]["held_out/pass_at_1_p50"]
    assert gains["step 6 - step 0"]["pass@1"]["p50"]["mean"] == pytest.approx(gain)


def test_every_evaluation_is_a_pass_with_the_references_in_it_and_no_second_of_another(tmp_path):
    service = StandInService(0.25, judges=judged)
    evaluation = held_out(tmp_path, service)
    first = evaluation.evaluate(POLICY.params, 0)
    executed, service.seconds = service.executed, 0.125
    second = evaluation.evaluate(POLICY.params, 2)
    assert service.executed == 2 * executed >= 2 * REFERENCE_RUNS
    stored = [records.read_evaluation(tmp_path / "held_out" / f"{step:08d}") for step in (0, 2)]
    assert stored[0].facts["pass"]["id"] != stored[1].facts["pass"]["id"]
    factors = {0.5, 1.0, 2.0}
    for found, seconds in zip(stored, (0.25, 0.125), strict=True):
        assert {float(second) for one in found.samples for second in one.duration_s} <= {f * seconds for f in factors}
    assert {n: v for n, v in first.items() if "pass" in n} == {n: v for n, v in second.items() if "pass" in n}


def test_training_takes_the_steps_that_it_takes_without_evaluation(whole, tmp_path):
    directory, params, _, _ = whole
    learner = job.Learner(POLICY.params, MODEL, SETTINGS)
    job.sync_loop(tmp_path, SETTINGS, learner=learner).run()
    rewards = [row["reward"] for row in job.metrics(tmp_path)]
    assert [row["reward"] for row in job.metrics(directory) if "reward" in row] == rewards
    for left, right in zip(jax.tree.leaves(params), jax.tree.leaves(learner.trainer.state.params), strict=True):
        np.testing.assert_array_equal(left, np.asarray(right))


def test_a_run_killed_in_an_evaluation_neither_repeats_nor_skips_one(whole, tmp_path):
    directory = whole[0]
    # Step 0 and step 2 are whole; the pass of step 4 has begun.
    service = StandInService(0.01, judges=judged, dies_after=2 * _programs(directory) + 5)
    stopped = job.sync_loop(tmp_path, SETTINGS, held_out=held_out(tmp_path, service))
    with pytest.raises(Killed):
        stopped.run()
    service.dies_after, before = None, service.executed
    job.sync_loop(tmp_path, SETTINGS, held_out=held_out(tmp_path, service)).run()
    assert scores_of(evaluated_steps(tmp_path)) == scores_of(evaluated_steps(directory))
    # The pass goes on where it was; step 6 comes after it.
    assert service.executed - before <= 2 * _programs(directory) - 5
    assert not list((tmp_path / "held_out").glob("*/pass*"))


def _programs(directory):
    """The most distinct programs that one evaluation of a run executed."""
    stored = [records.read_evaluation(path) for path in sorted((directory / "held_out").iterdir())]
    return max(len({(one.problem_id, one.program) for one in found.samples}) for found in stored)


def test_records_of_weights_that_a_restart_has_lost_are_dropped(tmp_path):
    service = StandInService(0.01, judges=judged)
    evaluation = held_out(tmp_path, service)
    for step in (0, 2, 4):
        evaluation.evaluate(POLICY.params, step)
    executed = service.executed
    evaluation.forget_after(2)
    evaluation.evaluate(POLICY.params, 2)
    assert service.executed == executed
    evaluation.evaluate(POLICY.params, 4)
    assert service.executed > executed


def test_asynchronous_runs_are_evaluated_at_the_same_steps(tmp_path):
    settings = dataclasses.replace(job.settings_of(count=2, item_problems=1), evaluation=EVALUATION)
    service = StandInService(0.01, judges=judged)
    training, _ = job.training(tmp_path, settings, held_out=held_out(tmp_path, service))
    summary = training.run()
    rows = evaluated_steps(tmp_path)
    assert sorted(rows) == [0, 2, 4, 6]
    assert rows[0]["held_out/pass_at_1_p100"] == pytest.approx(shares(POLICY.params, accepts=RIGHT))
    assert summary["held_out/pass_at_1_p100"] == rows[6]["held_out/pass_at_1_p100"]
    job.assert_each_once(job.trained(tmp_path), count=6)
