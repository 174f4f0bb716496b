"""Sharding: the table is strict, and the same step agrees on 1 and on 8 devices, as does a checkpoint between them."""

import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from optimrl_jax.distributed import sharding
from optimrl_jax.settings import MeshSettings
from tests.optimrl_jax.model import tiny

ROOT = pathlib.Path(__file__).parents[3]
STEP = """
import dataclasses, pathlib, sys, types
import jax, numpy as np
from optimrl_jax import arrays
from optimrl_jax.distributed import sharding as mesh
from optimrl_jax.distributed.sampling_sharding import row_shares
from optimrl_jax.grpo.loop import Learner
from optimrl_jax.rollout.actor import Sampler
from optimrl_jax.training import checkpoints
from optimrl_jax.model.generation import sampling
from optimrl_jax.settings import DataSettings, LoraSettings, MeshSettings
from optimrl_jax.jobs.errors import SettingsError
from tests.optimrl_jax.grpo.groups import SETTINGS, copied_params, group
from tests.optimrl_jax.model import tiny

GROUPS = [group(0, reward=(1, -1, 0, 1)), group(1, reward=(1, -1, -1, -1))]
results, completions, alone = [], [], None
# Fewer than the devices that share them.
PROMPTS = [np.array([3, 4, 5]), np.array([6, 7]), np.array([8])]
KEYS = sampling.row_keys(arrays.stream_key(0, "sample"), np.arange(6))

def sampled(params, slots=0):
    policy = checkpoints.Policy(params, tiny.SETTINGS, types.SimpleNamespace(pad=0, end=1))
    data = DataSettings(prompt_tokens=4, completion_tokens=6, slots=slots)
    return Sampler(policy, data, 1.0).complete(PROMPTS, 2, keys=KEYS)

# As a restored policy is: committed to one device, whatever mesh is to learn from it.
RESTORED = jax.device_put(copied_params(), jax.devices()[0])
for shape in ((1, 1, 1), (2, 2, 2), (1, 8, 1), (8, 1, 1), (1, 4, 1, 2)):
    own = Learner(RESTORED, tiny.SETTINGS, dataclasses.replace(SETTINGS, mesh=MeshSettings(*shape)))
    assert row_shares(own.trainer.state.params) == shape[0] * shape[1]
    # Sampling is compiled anew on each mesh: those that spread prompts, heads and features show what all do.
    if shape in ((1, 1, 1), (1, 8, 1), (2, 2, 2)):
        completions.append(sampled(own.trainer.state.params))
    if shape == (2, 2, 2):
        completions.append(sampled(own.trainer.state.params, slots=3))
    figures = own.learn(GROUPS)
    gate = own.trainer.state.params["layers"]["mlp"]["gate"]
    assert len(gate.sharding.device_set) == int(np.prod(shape)), shape
    leaves = [jax.tree.leaves(jax.device_get(tree)) for tree in (own.trainer.state.params, own.trainer.state.optimizer)]
    results.append((figures, *leaves))
    alone = alone or own
    store = checkpoints.Checkpoints(pathlib.Path(sys.argv[1]))
    if shape == (1, 1, 1):
        store.save(1, checkpoints.to_trees(own.trainer.state), {})
    back = store.restore(checkpoints.restore_targets(own.trainer.state))
    assert back.arrays["params"]["layers"]["mlp"]["gate"].sharding == gate.sharding
    for one, other in zip(jax.tree.leaves(back.arrays["params"]), results[0][1], strict=True):
        np.testing.assert_array_equal(one, other)
    store.close()
    if shape == (2, 2, 2):
        # The other way round: what eight devices saved goes on on one.
        many = checkpoints.Checkpoints(pathlib.Path(sys.argv[1]) / "many")
        many.save(1, checkpoints.to_trees(own.trainer.state), {})
        back = checkpoints.from_trees(many.restore(checkpoints.restore_targets(alone.trainer.state)).arrays)
        many.close()
        for one, other in zip(jax.tree.leaves(back), jax.tree.leaves(own.trainer.state), strict=True):
            np.testing.assert_array_equal(one, other)
            assert len(one.sharding.device_set) == 1
try:
    mesh.build_mesh(MeshSettings(data=3), micro_rows=8)
except SettingsError as error:
    assert "data.micro_rows = 8: expected a multiple" in str(error)
else:
    raise AssertionError("expected a mesh that does not divide the rows to be refused")
for found in completions:
    np.testing.assert_array_equal(found.tokens, completions[0].tokens)
    np.testing.assert_allclose(found.log_prob, completions[0].log_prob, atol=1e-5)
assert completions[0].tokens.shape == (6, 6)
expected, params, moments = results[0]
for figures, leaves, own_moments in results[1:]:
    for name, value in expected.items():
        np.testing.assert_allclose(figures[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    # After one step the moments are the gradient and its square, whole.
    for one, other in zip(own_moments, moments, strict=True):
        assert np.linalg.norm(one - other) <= 1e-5 * np.linalg.norm(other)
    for one, other in zip(leaves, params, strict=True):
        # Adam's first step is the sign of a gradient: a gradient of about 0 may take either.
        assert (np.abs(one - other) < 1e-4).mean() > 0.99
# Adapters beside a base that lies on the mesh: the same step, and the same policy to sample with.
adapted = dataclasses.replace(SETTINGS, lora=LoraSettings(rank=4))
results = []
for shape in ((1, 1, 1), (2, 2, 2)):
    own = Learner(RESTORED, tiny.SETTINGS, dataclasses.replace(adapted, mesh=MeshSettings(*shape)))
    own.learn(GROUPS)
    policy = own.to_policy(own.trainer.state.params)
    assert policy["layers"]["mlp"]["gate"].sharding == own.trainer.frozen[0]["layers"]["mlp"]["gate"].sharding
    results.append([jax.tree.leaves(jax.device_get(tree)) for tree in (own.trainer.state.optimizer, policy)])
    assert len(jax.tree.leaves(policy)[0].sharding.device_set) == int(np.prod(shape))
for one, other in zip(*(moments for moments, _ in results), strict=True):
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
for one, other in zip(*(policy for _, policy in results), strict=True):
    assert (np.abs(one - other) < 1e-3).mean() > 0.99
# Where only data is split, devices wait for each other once an update and not in its loops.
own = mesh.build_mesh(MeshSettings(data=8), micro_rows=8)
def total(weight, rows, used):
    return jax.lax.fori_loop(0, used, lambda n, sum: sum + (weight * rows[n]).sum(), 0.0)
rows = np.arange(48.0, dtype=np.float32).reshape(3, 16)
compiled = jax.jit(
    mesh.sum_over_data(total, own),
    in_shardings=(mesh.replicated(own), mesh.row_sharding(own, axis=1), mesh.replicated(own)),
).lower(np.float32(2), rows, np.int32(2)).compile()
loops, entry = compiled.as_text().split("ENTRY")
assert "all-reduce" in entry and "all-reduce(" not in loops
inputs = jax.device_put((np.float32(2), rows, np.int32(2)), compiled.input_shardings[0])
assert float(compiled(*inputs)) == 2 * rows[:2].sum()
print("agrees")
"""


def test_a_parameter_without_a_rule_is_an_error():
    assert sharding.spec_of("layers/mlp/down") == PartitionSpec(None, "tensor", ("fsdp", "sequence"))
    with pytest.raises(ValueError, match="parameter 'layers/mlp/gates'"):
        sharding.spec_of("layers/mlp/gates")


def test_an_axis_that_does_not_divide_a_parameter_is_named():
    devices = np.array(jax.devices()[:1] * 3).reshape(1, 1, 1, 3)
    wide = jax.sharding.AbstractMesh(devices.shape, sharding.AXES)
    with pytest.raises(ValueError, match=r"mesh.tensor = 3: expected a divisor of 40 \(embedding\)"):
        sharding.param_shardings(wide, {"embedding": tiny.params()["embedding"]})


def test_more_devices_than_there_are_is_an_error():
    with pytest.raises(ValueError, match="expected at most"):
        sharding.build_mesh(MeshSettings(data=64), micro_rows=64)


def test_the_same_step_agrees_on_one_and_on_eight_devices(tmp_path):
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"
    environment = os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": str(ROOT)}
    environment["JAX_PLATFORMS"] = "cpu"
    command = [sys.executable, "-c", STEP, str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "agrees" in done.stdout
