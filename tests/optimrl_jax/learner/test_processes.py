"""Two processes with half of the rows each make the step that one process makes with all of them."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from optimrl_jax import settings
from optimrl_jax.learner import checkpoints, processes
from optimrl_jax.learner.learner import Learner
from tests.optimrl_jax.data import conversations
from tests.optimrl_jax.learner.groups import SETTINGS, copied_params, group
from tests.optimrl_jax.model import tiny

ROOT = pathlib.Path(__file__).parents[3]
LEARN = """
import dataclasses, sys
import jax, numpy as np
from jax.experimental import multihost_utils
from optimrl_jax.learner import processes
from optimrl_jax.settings import MeshSettings, ProcessSettings
from tests.optimrl_jax.learner.groups import SETTINGS

count, index, coordinator, output = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
own = dataclasses.replace(SETTINGS, mesh=MeshSettings(2, 2, 1), processes=ProcessSettings(count, index, coordinator))
processes.join(own)
from optimrl_jax.learner.learner import Learner
from tests.optimrl_jax.learner.groups import copied_params, group
from tests.optimrl_jax.model import tiny

assert processes.part() == (index, 2) and jax.device_count() == 4
learner = Learner(copied_params(), tiny.SETTINGS, own)
first = learner.learn([group(index, reward=(1, -1, 0, 1))])
# The second process has nothing to teach in this step, and none of them in the last.
second = learner.learn([group(2 + index, reward=(1, -1, -1, -1) if index == 0 else (1, 1, 1, 1))])
third = learner.learn([group(4, reward=(1, 1, 1, 1))])
assert (second["updated"], third["updated"]) == (1.0, 0.0)
leaves = jax.tree.leaves(multihost_utils.process_allgather(learner.trainer.state.params, tiled=True))
np.savez(output, norm=first["grad_norm"], *leaves)
"""


def address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def together(*commands_of_each, cwd=ROOT):
    """Runs one command in each of two processes with two devices each, and asserts that both succeed."""
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "PYTHONPATH": str(ROOT)}
    environment["JAX_PLATFORMS"] = "cpu"
    running = [
        subprocess.Popen(
            [sys.executable, *command], env=environment, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for command in commands_of_each
    ]
    try:
        outputs = [process.communicate(timeout=240)[0].decode() for process in running]
    finally:
        for process in running:
            process.kill()
    for process, output in zip(running, outputs, strict=True):
        assert process.returncode == 0, output[-3000:]


def test_two_processes_with_their_own_groups_learn_what_one_does(tmp_path):
    coordinator = address()
    together(*(["-c", LEARN, "2", str(index), coordinator, str(tmp_path / f"{index}.npz")] for index in range(2)))
    alone = Learner(copied_params(), tiny.SETTINGS, SETTINGS)
    first = alone.learn([group(0, reward=(1, -1, 0, 1)), group(1, reward=(1, -1, 0, 1))])
    alone.learn([group(2, reward=(1, -1, -1, -1))])
    expected = jax.tree.leaves(jax.device_get(alone.trainer.state.params))
    found = [np.load(tmp_path / f"{index}.npz") for index in range(2)]
    for one in found:
        np.testing.assert_allclose(one["norm"], first["grad_norm"], rtol=1e-4)
        for index, leaf in enumerate(expected):
            # Adam's first steps are the sign of a gradient: a gradient of about 0 may take either.
            assert (np.abs(one[f"arr_{index}"] - leaf) < 1e-3).mean() > 0.98
    for name in found[0].files:
        np.testing.assert_array_equal(found[0][name], found[1][name])


CONFIG = """
from configs import base

def get_config():
    config = base.get_config()
    config.model.width, config.model.layers, config.model.heads, config.model.kv_heads = 32, 2, 4, 2
    config.model.head_width, config.model.mlp_width, config.model.vocabulary = 8, 48, 320
    config.data.row_tokens, config.data.micro_rows = 128, 4
    config.sft.mix, config.sft.steps, config.sft.batch, config.sft.warmup_steps = (("mix.jsonl", 1.0),), 4, 8, 1
    config.sft.checkpoint_every = 2
    return config
"""


def arguments(workdir, **fields):
    changed = [f"--config.{name.replace('__', '.')}={value}" for name, value in fields.items()]
    return ["-m", "optimrl_jax.sft", "--config=config.py", f"--workdir={workdir}", *changed]


def params_of(workdir):
    return jax.tree.leaves(checkpoints.load_policy(workdir).params)


@pytest.fixture(name="place")
def _place(tmp_path):
    (tmp_path / "config.py").write_text(CONFIG)
    mix = [conversations.conversation(f"Print {number}.", f"print({number})") for number in range(20)]
    conversations.jsonl(tmp_path / "mix.jsonl", mix)
    return tmp_path


def test_an_sft_job_of_two_processes_ends_where_one_does_and_resumes(place):
    def both(**fields):
        coordinator = address()
        sharing = {"mesh__data": 4, "processes__count": 2, "processes__coordinator": coordinator} | fields
        together(*(arguments("two", processes__index=index, **sharing) for index in range(2)), cwd=place)

    both(sft__steps=2)
    both()
    whole = subprocess.run([sys.executable, *arguments("one")], cwd=place, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert whole.returncode == 0
    for one, two in zip(params_of(place / "one"), params_of(place / "two"), strict=True):
        assert (np.abs(one - two) < 1e-3).mean() > 0.98
    lines = [json.loads(line) for line in (place / "two" / "metrics.jsonl").read_text().splitlines()]
    alone = [json.loads(line) for line in (place / "one" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2, 3]
    np.testing.assert_allclose(lines[0]["loss"], alone[0]["loss"], rtol=1e-4)
    assert (place / "two" / "process_1" / "summary.json").exists()


MISTAKES = [
    ({"count": 2}, "processes.coordinator = '': expected host:port"),
    ({"count": 2, "index": 2, "coordinator": "a:1"}, "processes.index = 2: expected less than processes.count"),
    ({"count": 3, "coordinator": "a:1"}, "data.micro_rows = 8: expected a multiple of processes.count = 3"),
]


@pytest.mark.parametrize(("fields", "message"), MISTAKES)
def test_settings_that_cannot_be_shared_are_named(fields, message):
    own = settings.freeze(settings.Settings, {"processes": fields})
    with pytest.raises(settings.SettingsError) as raised:
        processes.join(own)
    assert str(raised.value).startswith(message)
