"""Every configuration that ships loads and passes its checks, and begins with the line that says what it is for."""

import ast
import importlib
import pathlib

import pytest

from optimrl_jax import environment, rewards, settings
from optimrl_jax.simulator.settings import SimulatorSettings

FILES = sorted((pathlib.Path(__file__).parents[1] / "configs").glob("*.py"))
NAMES = [path.stem for path in FILES if path.stem != "__init__"]


def frozen(name):
    kind = SimulatorSettings if name.startswith("simulator") else settings.Settings
    return settings.freeze(kind, importlib.import_module(f"configs.{name}").get_config().to_dict())


@pytest.mark.parametrize("name", NAMES)
def test_it_loads_and_says_what_it_is_for(name):
    frozen(name)
    module = ast.parse((FILES[0].parent / f"{name}.py").read_text())
    assert len(ast.get_docstring(module).splitlines()[0]) > 20


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("quickstart")])
def test_quickstart_variants_name_an_environment_and_a_reward_that_exist(name):
    chosen = frozen(name)
    assert chosen.environment.family in environment.FAMILIES
    assert chosen.reward.composition in rewards.COMPOSITIONS


def test_quickstart_variants_share_budget_dataset_and_start():
    base = frozen("quickstart")
    for name in NAMES:
        if name.startswith("quickstart_"):
            variant = frozen(name)
            assert (variant.grpo, variant.data, variant.model) == (base.grpo, base.data, base.model)
            assert variant.evaluation.policies[0] == base.evaluation.policies[0]
            assert variant.evaluation.policies[1] != base.evaluation.policies[1]
