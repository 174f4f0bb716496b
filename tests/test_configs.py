"""Every configuration that ships loads and passes its checks, and begins with the line that says what it is for."""

import ast
import dataclasses
import importlib
import pathlib

import pytest

from configs import __main__ as listing
from configs import quickstart
from optimrl_jax import environment, rewards, settings
from optimrl_jax import quickstart as quickstart_job
from optimrl_jax.distributed import multihost, placement
from optimrl_jax.environment.paper_results import PRINTED_ROWS
from optimrl_jax.grpo import rows as rows_lib
from optimrl_jax.jobs.checked_fields import freeze, thaw
from optimrl_jax.planning import dry_run, targets
from optimrl_jax.simulator.settings import SimulatorSettings
from optimrl_jax.training import adaptation

FILES = sorted(path for path in (pathlib.Path(__file__).parents[1] / "configs").glob("*.py") if path.stem[0] != "_")
NAMES = [path.stem for path in FILES if path.stem != "paper"]
MODELS = ("qwen7b", "qwen32b", "cwm32b")


NODES = {"qwen7b": 8, "qwen32b": 32, "cwm32b": 32, "qwen7b_node": 1}


def frozen(name, *row):
    kind = SimulatorSettings if name.startswith("simulator") else settings.Settings
    return freeze(kind, importlib.import_module(f"configs.{name}").get_config(*row).to_dict())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_says_what_it_is_for_and_loads(path):
    assert len(ast.get_docstring(ast.parse(path.read_text())).splitlines()[0]) > 20
    if path.stem in NAMES:
        frozen(path.stem)


@pytest.mark.parametrize("variant", quickstart.VARIANTS)
def test_quickstart_variants_name_an_environment_and_a_reward_that_exist(variant):
    chosen = frozen("quickstart", variant)
    assert chosen.environment.family in environment.FAMILIES
    assert chosen.reward.composition in rewards.COMPOSITIONS


def test_quickstart_variants_share_budget_dataset_and_start():
    base = frozen("quickstart")
    for name in list(quickstart.VARIANTS)[1:]:
        variant = frozen("quickstart", name)
        assert (variant.grpo, variant.data, variant.model) == (base.grpo, base.data, base.model)
        assert variant.evaluation.policies[0] == base.evaluation.policies[0]
        assert variant.evaluation.policies[1] == ("grpo", f"runs/quickstart_{name}/grpo")


def test_the_one_command_knows_every_variant():
    assert tuple(quickstart.VARIANTS) == quickstart_job.VARIANTS


@pytest.mark.parametrize("module", ["quickstart", "simulator", "qwen7b", "cwm32b"])
def test_an_unknown_row_or_variant_is_refused(module):
    with pytest.raises(ValueError, match="= 'absent': expected one of "):
        frozen(module, "absent")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("row", environment.PRESETS)
def test_rows_share_the_recipe_of_the_paper_and_set_their_own_fields(model, row):
    chosen, preset = frozen(model, row), environment.PRESETS[row]
    for section in ("environment", "reward", "grpo"):
        fields, found = getattr(preset, section), thaw(chosen)[section]
        assert {name: found[name] for name in fields} == fields
    grpo, data, mesh = chosen.grpo, chosen.data, chosen.mesh
    assert (grpo.rollouts, grpo.horizon, grpo.max_staleness, grpo.temperature) == (16, 32_768, 30, 1.0)
    assert grpo.steps == (5_000 if "rel_timeout" in row else 10_000)
    assert grpo.learning_rate == (1e-7 if model == "qwen7b" else 1.4e-7)
    assert data.prompt_tokens + data.completion_tokens == data.row_tokens == 32_768
    assert (mesh.data * mesh.fsdp, mesh.tensor) == (16, 2 if model == "qwen7b" else 8)
    # A local batch of about 32,000 tokens on each rank, in one microbatch.
    assert grpo.batch_tokens == 16 * 32_768
    assert rows_lib.max_microbatches(grpo, data) == 1


@pytest.mark.parametrize("model", NODES)
def test_half_of_the_devices_of_every_node_sample_and_every_process_has_its_share(model):
    chosen, nodes = frozen(model), NODES[model]
    assert (chosen.processes.count, chosen.mesh.devices) == (nodes, 4 * nodes)
    multihost.check_even_shares(chosen, shared=multihost.SHARED_IN_GRPO)
    own = dataclasses.replace(chosen.actors, count=chosen.actors.count // nodes)
    devices = [f"gpu{number}" for number in range(8)]
    sets = placement.device_sets(devices, chosen.mesh, own, sharers=nodes)
    # The learner's mesh takes the first four; no device of an actor is idle or shared.
    assert sorted(device for devices in sets for device in devices) == devices[4:]


@pytest.mark.parametrize("model", ["qwen7b", "qwen32b"])
def test_sft_starts_from_published_weights_takes_one_epoch_and_shares_evenly(model):
    chosen = frozen(model, "sft")
    assert (chosen.sft.init_from.split("/")[0], chosen.sft.epochs) == ("weights", 1)
    assert chosen.processes.count * 8 == chosen.mesh.devices
    multihost.check_even_shares(chosen, shared=multihost.SHARED_IN_SFT)
    empty = dataclasses.replace(chosen, sft=dataclasses.replace(chosen.sft, init_from=""))
    with pytest.raises(ValueError, match=r"sft.init_from = '': expected the published weights"):
        adaptation.require_start(empty)


def test_the_one_gpu_configuration_learns_and_samples_in_turns_in_the_same_rows():
    chosen = frozen("qwen1_5b_one_gpu")
    assert (chosen.mesh.devices, chosen.actors.count, chosen.data.row_tokens) == (1, 0, 32_768)
    assert rows_lib.max_microbatches(chosen.grpo, chosen.data) == 16


def test_a_model_without_an_sft_run_says_where_it_starts():
    with pytest.raises(ValueError, match="released SFT checkpoint"):
        frozen("cwm32b", "sft")


@pytest.mark.parametrize("model", MODELS)
def test_the_list_of_rows_shows_what_the_paper_prints(model, capsys):
    listing.main([model])
    lines = {line.split()[1].rstrip(","): line for line in capsys.readouterr().out.splitlines() if line[:1] == "\u2502"}
    assert set(lines) >= set(environment.PRESETS)
    for row, printed in PRINTED_ROWS[model].items():
        assert all(f"{share:.1f}" in lines[row] for share in printed.pass_at_1), row


def test_the_list_of_configurations_names_each(capsys):
    listing.main([])
    shown = capsys.readouterr().out
    assert all(f"configs/{name}.py" in shown for name in NAMES)


DRY = [("qwen7b", "per_test_top_30", 32), ("qwen32b", "sft", 256), ("cwm32b", "mc", 128)]


@pytest.mark.parametrize(("name", "row", "devices"), DRY)
def test_the_large_ones_lower_on_devices_that_are_not_there(name, row, devices):
    chosen = frozen(name, row)
    planned = (dry_run.plan_sft if row == "sft" else dry_run.plan_grpo)(chosen)
    parameters, found = dry_run.update_costs(planned, chosen)
    assert found["devices"] == devices
    state = found["parameter_bytes"] + found["moment_bytes"] + found["gradient_bytes"]
    # Parameters, two moments and a gradient in float32, all but small norms and biases split over every device.
    assert state == pytest.approx(16 * found["parameters"] / devices, rel=0.02)
    assert state < found["total_bytes"] < targets.TARGETS[chosen.device.target].memory_bytes
    assert {line.dtype for line in parameters} == {"float32"}


def test_the_sft_step_has_the_rows_of_the_paper():
    chosen = frozen("qwen32b", "sft")
    assert chosen.data.micro_rows * chosen.data.row_tokens == 2_097_152
    assert dataclasses.replace(chosen.mesh, tensor=4) == frozen("qwen7b", "sft").mesh


@pytest.mark.parametrize("name", [*MODELS, "qwen7b_lora", "smollm2_135m"])
def test_programs_of_published_models_run_in_containers(name):
    sandbox = frozen(name).sandbox
    assert (sandbox.address, sandbox.fallback_backend) == ("docker", "docker")


def test_adapters_of_a_7b_model_have_gradients_and_moments_alone_and_fit_one_device():
    chosen = frozen("qwen7b_lora")
    parameters, found = dry_run.update_costs(dry_run.plan_grpo(chosen), chosen)
    trained = found["trained_parameters"]
    # Rank 32 on the seven matrices of 28 layers.
    sides = 2 * (3584 + 3584) + 2 * (3584 + 512) + 3 * (3584 + 18_944)
    assert (found["devices"], trained) == (1, 28 * 32 * sides)
    assert (found["parameter_bytes"], found["gradient_bytes"]) == (4 * trained, 4 * trained)
    assert found["moment_bytes"] == pytest.approx(8 * trained, rel=1e-6)
    assert found["frozen_parameter_bytes"] == pytest.approx(2 * (found["parameters"] - trained), rel=1e-3)
    assert found["total_bytes"] < targets.TARGETS["h100"].memory_bytes
    assert {line.dtype for line in parameters if "_lora" in line.name} == {"float32"}
