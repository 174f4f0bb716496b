"""Training adapters: the base stays, checkpoints hold adapters alone, and the policy comes back merged."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from optimrl_jax.grpo.loop import Learner
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model import adapters
from optimrl_jax.settings import LoraSettings, Settings, SftSettings
from optimrl_jax.training import adaptation, checkpoints, workdir
from tests.optimrl_jax.grpo.groups import SETTINGS, copied_params, group
from tests.optimrl_jax.grpo.stored import POLICY
from tests.optimrl_jax.model import tiny

LORA = LoraSettings(rank=2, alpha=4.0)
ADAPTED = dataclasses.replace(SETTINGS, lora=LORA)


@pytest.fixture(scope="module")
def learner():
    own = Learner(copied_params(), tiny.SETTINGS, ADAPTED)
    for seed in range(3):
        own.learn([group(seed, reward=(1, -1, 0, 1))])
    return own


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def test_a_step_moves_adapters_and_nothing_else(learner):
    for one, other in zip(leaves(learner.trainer.frozen), leaves(copied_params()), strict=True):
        np.testing.assert_array_equal(one, other)
    fresh = adapters.initial_adapters(tiny.SETTINGS, LORA, jax.random.key(0))
    trained = learner.trainer.state.params
    assert jax.tree.structure(trained) == jax.tree.structure(fresh)
    assert all(np.abs(pair).max() > 0 for pair in leaves(trained))
    moments = {leaf.shape for leaf in leaves(learner.trainer.state.optimizer) if leaf.shape}
    assert moments == {leaf.shape for leaf in leaves(trained)}


def test_the_policy_that_samples_is_the_one_that_learns(learner):
    policy = learner.to_policy(learner.trainer.state.params)
    added = adapters.add_adapters(learner.trainer.frozen[0], learner.trainer.state.params, LORA)
    row = np.random.default_rng(0).integers(0, 40, 12)
    expected = tiny.log_probs(added, tiny.SETTINGS, row)
    np.testing.assert_allclose(tiny.log_probs(policy, tiny.SETTINGS, row), expected, atol=1e-4)
    assert np.abs(expected - tiny.log_probs(copied_params(), tiny.SETTINGS, row)).max() > 1e-3


@pytest.fixture
def base(tmp_path):
    return job(tmp_path / "base", {"params": POLICY.params}, step=5)


def job(path, trees, *, step):
    path.mkdir()
    workdir.write_model(path, POLICY.settings)
    POLICY.tokenizer.save(path)
    store = checkpoints.Checkpoints(path)
    store.save(step, trees, {})
    store.close()
    return path


def adapted_job(path, base, tree):
    job(path, {"params": tree}, step=9)
    policy = checkpoints.load_start(str(base))
    adaptation.write_base(path, LORA, str(base), checkpoints.step_of(str(base)), policy.params)
    return path


@pytest.fixture
def tree():
    fresh = adapters.initial_adapters(POLICY.settings, LORA, jax.random.key(0))
    return jax.tree.map(lambda x: x + 0.1, fresh)


def test_the_policy_of_a_workdir_with_adapters_is_its_base_with_them_merged(tmp_path, base, tree):
    path = adapted_job(tmp_path / "adapted", base, tree)
    expected = adapters.merge_adapters(POLICY.params, tree, LORA)
    for one, other in zip(leaves(checkpoints.load_policy(path).params), leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    stored = json.loads((path / adaptation.LORA_FILE).read_text())
    assert (stored["source"], stored["step"], stored["lora"]["rank"]) == (str(base), 5, 2)
    # What is adapted once more is the policy as it was left.
    again = adapted_job(tmp_path / "again", path, tree)
    expected = adapters.merge_adapters(expected, tree, LORA)
    for one, other in zip(leaves(checkpoints.load_policy(again).params), leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_adapters_beside_other_weights_are_refused(tmp_path, base, tree):
    path = adapted_job(tmp_path / "adapted", base, tree)
    other = {"params": jax.tree.map(lambda x: 1.1 * x, POLICY.params)}
    store = checkpoints.Checkpoints(base)
    store.save(6, other, {})
    store.close()
    checkpoints.load_policy(path)
    for old in (base / checkpoints.FOLDER).iterdir():
        if old.name == "5":
            old.rename(tmp_path / "moved")
    with pytest.raises(UserError, match="expected a checkpoint of step 5"):
        checkpoints.load_policy(path)
    record = json.loads((path / adaptation.LORA_FILE).read_text())
    (path / adaptation.LORA_FILE).write_text(json.dumps({**record, "step": 6}))
    with pytest.raises(UserError, match="base@6: expected the weights that adapters were trained beside"):
        checkpoints.load_policy(path)
    with pytest.raises(UserError, match="expected the weights that adapters were trained beside"):
        adaptation.write_base(path, LORA, str(base), 6, other["params"])


def test_adapters_need_weights_to_start_from():
    with pytest.raises(UserError, match=r"lora.rank = 2: expected sft.init_from"):
        adaptation.require_start(Settings(lora=LORA))
    adaptation.require_start(Settings(lora=LORA, sft=SftSettings(init_from="weights")))
    adaptation.require_start(Settings())
