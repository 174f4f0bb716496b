"""Two processes with half of the rows each make the step that one process makes with all of them."""

import functools
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from optimrl_jax import arrays, settings, sft
from optimrl_jax.data.corpus import corpus_of_mix
from optimrl_jax.distributed import multihost
from optimrl_jax.evaluation import records
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.errors import EXIT_USER_ERROR, SettingsError
from optimrl_jax.model import decoder
from optimrl_jax.training import checkpoints, objectives, trainer
from tests.optimrl_jax.actors import job
from tests.optimrl_jax.data import conversations
from tests.optimrl_jax.distributed import sharer

ROOT = pathlib.Path(__file__).parents[3]
SFT = {
    "model": {"width": 32, "layers": 2, "heads": 4, "kv_heads": 2, "head_width": 8, "mlp_width": 48, "vocabulary": 320},
    "data": {"row_tokens": 128, "micro_rows": 4},
    "sft": {"mix": [["mix.jsonl", 1.0]], "batch": 8, "warmup_steps": 1, "checkpoint_every": 2},
}


def address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture(name="place", scope="module")
def _place(tmp_path_factory):
    """What two processes with one device each left, see `sharer`; in the end the second one was killed."""
    place, coordinator = tmp_path_factory.mktemp("processes"), address()
    mix = [conversations.conversation(f"Print {number}.", f"print({number})") for number in range(20)]
    conversations.jsonl(place / "mix.jsonl", mix)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.optimrl_jax.distributed.sharer", str(index), coordinator, json.dumps(SFT)],
            env=environment, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for index in range(2)
    ]  # fmt: skip
    try:
        outputs = [process.communicate(timeout=300)[0].decode() for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [EXIT_USER_ERROR, -signal.SIGKILL], outputs
    assert "processes.count = 2: expected all processes to go on" in outputs[0]
    return place


def test_a_job_of_two_processes_takes_the_examples_of_one_and_resumes(place):
    """The first loss is that of the first eight examples of the whole mix, under the initial parameters."""
    lines = [json.loads(line) for line in (place / "sft" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2, 3]
    policy = checkpoints.load_policy(place / "sft")
    own = freeze(settings.Settings, SFT | {"sft": SFT["sft"] | {"mix": [[str(place / "mix.jsonl"), 1.0]]}})
    taken = corpus_of_mix(place / "sft", own)
    packed, used = sft.pack_examples(next(taken.stream).examples, most=taken.microbatches, data=own.data)
    params = decoder.initial_params(policy.settings, arrays.stream_key(own.seed, "parameters"))
    total = jax.jit(functools.partial(objectives.supervised, settings=policy.settings))
    parts = [total(params, jax.tree.map(lambda x, index=index: x[index], packed))[1] for index in range(used)]
    expected = sum(part["loss"] for part in parts) / sum(part["tokens"] for part in parts)
    np.testing.assert_allclose(lines[0]["loss"], expected, rtol=1e-4)
    assert lines[3]["loss"] < lines[0]["loss"]
    assert (place / "sft" / "process_1" / "summary.json").exists()


@pytest.fixture(name="alone", scope="module")
def _alone(tmp_path_factory):
    """One process that takes the four steps of the two by turns, and one step more."""
    directory = tmp_path_factory.mktemp("alone")
    job.sync_loop(directory, job.settings_of(steps=5, **sharer.TURNS), kept=sharer.KEPT).run()
    return directory


def metrics_of(directory, *names):
    """Of the lines that have them: after the last step there is one of scores alone."""
    return [tuple(line[name] for name in names) for line in job.metrics(directory) if names[-1] in line]


def weights_of(directory):
    store = checkpoints.Checkpoints(directory, is_owner=False)
    return jax.tree.leaves(store.restore({"params": checkpoints.abstract_params(job.MODEL)}).arrays)


def first_moments_of(directory):
    optimizer = trainer.build_optimizer(job.SETTINGS.grpo, ends_at=1.0)
    state = trainer.initial_state(decoder.initial_params(job.MODEL, jax.random.key(0)), optimizer)
    like = {"optimizer": checkpoints.restore_targets(state)["optimizer"]}
    found = checkpoints.Checkpoints(directory, is_owner=False).restore(like, step=1)
    return found.arrays["optimizer"]["moments"]


def test_the_gradients_of_two_processes_are_those_of_one(place, alone):
    """After the first step the moments are the clipped gradient and its square; later ones take its rounding up."""
    pairs = zip(*map(jax.tree.leaves, (first_moments_of(place / "turns"), first_moments_of(alone))), strict=True)
    for one, other in pairs:
        assert np.linalg.norm(one - other) <= 1e-5 * np.linalg.norm(other)


def test_processes_with_a_part_of_the_problems_each_take_the_steps_of_one_and_resume(place, alone):
    sampled = ("step", "reward", "correct_share", "staleness", "staleness_max", "completion_tokens", "trained_tokens")
    learned = ("loss", "grad_norm")
    for folder in (place / "turns", place / "turns" / "process_1"):
        np.testing.assert_allclose(metrics_of(folder, *sampled), metrics_of(alone, *sampled)[:4], rtol=1e-5)
        np.testing.assert_allclose(metrics_of(folder, *learned), metrics_of(alone, *learned)[:4], rtol=1e-3, atol=1e-5)


def test_processes_share_an_evaluation_during_training_and_all_know_its_scores(place):
    """Before the first step, after the third and, by the second start, after the fourth; training is that of one."""
    name, folders = "held_out/pass_at_1_p100", (place / "turns", place / "turns" / "process_1")
    found = [{line["step"]: line[name] for line in job.metrics(folder) if name in line} for folder in folders]
    assert found[0] == found[1]
    assert sorted(found[0]) == [0, 3, 4]
    for folder, problem in zip(folders, job.RECORDS, strict=False):
        stored = [records.read_evaluation(step).problems for step in sorted((folder / "held_out").iterdir())]
        assert [[one.id for one in problems] for problems in stored] == [[problem.id]] * 3


def test_one_process_goes_on_where_two_were(place, alone, tmp_path):
    directory = shutil.copytree(place / "turns", tmp_path / "turns")
    job.sync_loop(directory, job.settings_of(steps=5, **sharer.TURNS)).run()
    sampled = ("step", "staleness", "completion_tokens")
    assert metrics_of(directory, *sampled) == metrics_of(alone, *sampled)
    for one, other in zip(weights_of(directory), weights_of(alone), strict=True):
        # Adam's first steps are the sign of a gradient: a gradient of about 0 may take either.
        assert (np.abs(one - other) < 1e-4).mean() > 0.98


def test_processes_with_actors_of_their_own_share_every_step_and_repeat_nothing(place):
    folders = [place / "beside", place / "beside" / "process_1"]
    steps, others = (job.trained(folder) for folder in folders)
    ids = [one for step in steps for one in step]
    assert steps == others
    assert len(steps) == 4
    assert len(ids) == len(set(ids)) == 4 * job.SETTINGS.grpo.problems
    # The first process numbers its work 0, 2, ..., the second one 1, 3, ...
    assert all({batch % 2 for batch, _ in step} == {0, 1} for step in steps)
    same = ("step", "reward", "loss", "staleness", "trained_tokens")
    assert metrics_of(folders[0], *same) == metrics_of(folders[1], *same)


def test_places_are_dealt_out_in_turn_however_many_processes_there_are(monkeypatch):
    found = []
    for index in range(16):
        monkeypatch.setattr(multihost, "process_index_and_count", lambda index=index: (index, 16))
        found.append([(step, place) for step in range(16) for place in multihost.process_places(step, 3)])
    assert [len(own) for own in found] == [3] * 16
    assert sorted(itertools.chain(*found)) == [(step, place) for step in range(16) for place in range(3)]
    # Nobody has its turn again before all others had theirs.
    assert found[0] == [(0, 0), (5, 1), (10, 2)]


MISTAKES = [
    ({"count": 2}, "processes.coordinator = '': expected host:port"),
    ({"count": 2, "index": 2, "coordinator": "a:1"}, "processes.index = 2: expected less than processes.count"),
    ({"count": 3, "coordinator": "a:1"}, "mesh.devices = 1: expected a multiple of processes.count = 3"),
]
SHARES = [
    ({"data": 3}, 3, multihost.SHARED_IN_SFT, "data.micro_rows = 8: expected a multiple of processes.count = 3"),
    ({"data": 2, "tensor": 3}, 3, (), "mesh.tensor = 3: expected a divisor or a multiple of 2, a process's devices"),
    ({"data": 8}, 8, multihost.SHARED_IN_GRPO, "grpo.problems = 6: expected one for each of 8 processes"),
    # Two processes may hold a row of GRPO together.
    ({"tensor": 4}, 2, multihost.SHARED_IN_GRPO, None),
]


@pytest.mark.parametrize(("mesh", "count", "shared", "message"), SHARES)
def test_what_processes_share_has_to_be_enough_for_each(mesh, count, shared, message):
    own = freeze(settings.Settings, {"mesh": mesh, "processes": {"count": count}})
    if message is None:
        assert multihost.check_even_shares(own, shared=shared) is None
        return
    with pytest.raises(SettingsError) as raised:
        multihost.check_even_shares(own, shared=shared)
    assert str(raised.value) == message


@pytest.mark.parametrize(("fields", "message"), MISTAKES)
def test_settings_that_cannot_be_shared_are_named(fields, message):
    own = freeze(settings.Settings, {"processes": fields})
    with pytest.raises(SettingsError) as raised:
        multihost.initialize(own)
    assert str(raised.value).startswith(message)
