"""Every configuration that ships loads and passes its checks, and begins with the line that says what it is for."""

import ast
import dataclasses
import importlib
import pathlib

import pytest

from optimrl_jax import environment, rewards, settings
from optimrl_jax.jobs.checked_fields import freeze, thaw
from optimrl_jax.planning import dry_run
from optimrl_jax.simulator.settings import SimulatorSettings

FILES = sorted((pathlib.Path(__file__).parents[1] / "configs").glob("*.py"))
NAMES = [path.stem for path in FILES if path.stem != "__init__"]


def frozen(name):
    kind = SimulatorSettings if name.startswith("simulator") else settings.Settings
    return freeze(kind, importlib.import_module(f"configs.{name}").get_config().to_dict())


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


def test_every_trained_row_has_a_file_with_its_environment_and_reward():
    for row, preset in environment.PRESETS.items():
        chosen = frozen(f"qwen7b_{row}".replace(".", "_"))
        for section, fields in (("environment", preset.environment), ("reward", preset.reward)):
            found = thaw(chosen)[section]
            assert {name: found[name] for name in fields} == fields, row


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("qwen", "cwm")) and "sft" not in name])
def test_online_runs_share_the_recipe_of_the_paper(name):
    grpo, data, mesh = (getattr(frozen(name), section) for section in ("grpo", "data", "mesh"))
    assert (grpo.rollouts, grpo.horizon, grpo.max_staleness, grpo.temperature) == (16, 32_768, 30, 1.0)
    assert grpo.steps == (5_000 if "rel_timeout" in name else 10_000)
    assert grpo.learning_rate == (1e-7 if name.startswith("qwen7b") else 1.4e-7)
    assert data.prompt_tokens + data.completion_tokens == data.row_tokens == 32_768
    assert (mesh.data * mesh.fsdp, mesh.tensor) == (16, 2 if name.startswith("qwen7b") else 8)


DRY = [("qwen7b_per_test_top_30", "grpo", 32), ("qwen32b_sft", "sft", 256), ("cwm32b_mc", "grpo", 128)]


@pytest.mark.parametrize(("name", "job", "devices"), DRY)
def test_the_large_ones_lower_on_devices_that_are_not_there(name, job, devices):
    chosen = frozen(name)
    planned = {"sft": dry_run.supervised, "grpo": dry_run.surrogate}[job](chosen)
    parameters, found = dry_run.figures(planned, chosen)
    assert found["devices"] == devices
    state = found["parameter_bytes"] + found["moment_bytes"] + found["gradient_bytes"]
    # Parameters, two moments and a gradient in float32, all but the small norms and biases split over every device.
    assert state == pytest.approx(16 * found["parameters"] / devices, rel=0.02)
    assert state < found["total_bytes"] < chosen.device.memory_bytes
    assert {line.dtype for line in parameters} == {"float32"}


def test_the_sft_step_has_the_rows_of_the_paper():
    chosen = frozen("qwen32b_sft")
    assert chosen.data.micro_rows * chosen.data.row_tokens == 2_097_152
    assert dataclasses.replace(chosen.mesh, tensor=4) == frozen("qwen7b_sft").mesh
