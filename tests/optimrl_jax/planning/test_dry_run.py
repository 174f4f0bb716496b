"""Dry runs: exact bytes, hand-worked operations, mistakes found before any device is there."""

import dataclasses
import json
import pathlib
import types

import jax
import pytest

from optimrl_jax.distributed import sharding
from optimrl_jax.grpo import loop
from optimrl_jax.jobs import command_line
from optimrl_jax.jobs.errors import EXIT_USER_ERROR, UserError
from optimrl_jax.model import decoder
from optimrl_jax.model.pretrained import published
from optimrl_jax.planning import cost_model, dry_run, targets
from optimrl_jax.settings import MeshSettings, ModelSettings, Settings
from tests.optimrl_jax.grpo.groups import SETTINGS
from tests.optimrl_jax.model import tiny

ROOT = pathlib.Path(__file__).parents[3]
PER_TOKEN = ("weight", "advantage", "log_prob")
OWN: Settings = dataclasses.replace(SETTINGS, model=tiny.SETTINGS, mesh=MeshSettings(2, 2, 2))


def temporaries(own):
    local = cost_model.local_model(own.network, own.mesh)
    weights = (decoder.abstract_params(local),)
    return cost_model.temporary_bytes(loop.objective(local, own.grpo), weights, PER_TOKEN, settings=own)


def test_bytes_of_the_state_are_those_that_eight_devices_would_hold():
    abstract = sharding.build_abstract_mesh(OWN.mesh, micro_rows=8)
    params = decoder.abstract_params(tiny.SETTINGS)
    placed = jax.tree.map(
        lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
        params,
        sharding.param_shardings(abstract, params),
    )
    found = {line.name: line for line in cost_model.parameter_lines(placed)}
    # 2 layers of 32 x 48 float32, the width over fsdp = 2 and the hidden features over tensor = 2.
    assert found["layers/mlp/gate"].device_bytes == 2 * (32 // 2) * (48 // 2) * 4
    # Norms are whole on every device.
    assert found["final_norm/scale"].device_bytes == 32 * 4
    assert sum(line.device_bytes for line in found.values()) == cost_model.device_bytes(placed)
    assert found["embedding"].spec == "P('tensor', ('fsdp', 'sequence'))"


def test_slices_of_tpus_are_whole_hosts_on_the_axes_that_there_are():
    found = {count: targets.slice_of("tpu-v5p", count) for count in (1, 2, 4, 8, 12, 64)}
    assert {count: sizes for count, (sizes, _) in found.items()} == {
        1: [1, 1, 1], 2: [2, 1, 1], 4: [2, 2, 1], 8: [2, 2, 2], 12: [2, 2, 3], 64: [4, 4, 4],
    }  # fmt: skip
    assert [host for _, host in found.values()] == [[1, 1, 1], [2, 1, 1], *[[2, 2, 1]] * 4]
    assert targets.slice_of("tpu-v6e", 32) == ([8, 4], [2, 2, 1])
    with pytest.raises(ValueError, match="hosts have 1, 2 or 4 chips"):
        targets.slice_of("tpu-v6e", 6)


def test_operations_of_one_update_worked_by_hand():
    shape = ModelSettings(width=4, layers=2, heads=2, kv_heads=1, head_width=3, mlp_width=5, vocabulary=7)
    # A block: query and output 2 x 4 x 6, key and value 2 x 4 x 3, MLP 3 x 4 x 5; output layer 4 x 7.
    assert cost_model.matrix_parameters(shape) == 2 * (48 + 24 + 60) + 28
    # Five sequences of 3 tokens: 6 visible pairs each, 2 layers of 6 features of heads.
    flops = cost_model.update_flops(shape, sequences=5, tokens=3)
    assert flops == 5 * (6 * 292 * 3 + 12 * 12 * 6)
    # Of 6 sequences of 3 tokens, 2 at a time process the first 2 tokens and their 3 pairs once.
    shared = cost_model.update_flops(shape, sequences=6, tokens=3, shared=2, members=2)
    assert shared == 3 * (6 * 292 * 4 + 12 * 12 * 9)
    untied = dataclasses.replace(shape, has_tied_embeddings=False)
    assert cost_model.update_flops(untied, sequences=5, tokens=3) == flops


def test_temporaries_follow_the_share_of_one_device():
    once = temporaries(OWN)
    half = dataclasses.replace(OWN, data=dataclasses.replace(OWN.data, micro_rows=16))
    rows = temporaries(half) - once
    # New gradients stay the same, what rows need is twice as much.
    gradients = 4 * sum(leaf.size for leaf in jax.tree.leaves(decoder.abstract_params(tiny.SETTINGS))) / 4
    assert rows > 0
    assert once - rows == pytest.approx(gradients, rel=0.1)
    assert temporaries(dataclasses.replace(half, mesh=MeshSettings(4, 2, 2))) == once
    alone = dataclasses.replace(OWN, mesh=MeshSettings(2, 2, 1))
    assert once < temporaries(alone) < 2 * once


def test_a_local_model_has_the_shares_of_the_tensor_axis():
    local = cost_model.local_model(tiny.SETTINGS, MeshSettings(tensor=2))
    assert (local.heads, local.kv_heads, local.mlp_width, local.vocabulary, local.width) == (2, 1, 24, 20, 32)


CONFIG = [f"--config={ROOT / 'configs' / 'base.py'}", "--dry_run"]
MISTAKES = [
    (["--config.mesh.fsdp=3"], "data.micro_rows = 8: expected a multiple of mesh.data * mesh.fsdp"),
    (["--config.mesh.tensor=8"], "mesh.tensor = 8: expected a divisor of 2 (layers/attention/key)"),
    (["--config.data.completion_tokens=300"], "data.row_tokens = 256: expected at least the longest sequence, 348"),
    (["--config.processes.count=2"], "mesh.devices = 1: expected a multiple of processes.count = 2"),
    (["--config.reward.composition=fastest"], "reward.composition = 'fastest': expected one of"),
    (["--config.environment.family=fastest"], "'fastest'"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_are_found_without_devices_or_data(arguments, message, tmp_path, capsys):
    arguments = ["train", *CONFIG, *arguments, f"--workdir={tmp_path}"]
    assert command_line.run_job(pytest.fail, arguments, dry_run=dry_run.grpo) == EXIT_USER_ERROR
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


GOLDENS = ROOT / "tests" / "optimrl_jax" / "model" / "goldens"


@pytest.mark.parametrize(("job", "section"), [(dry_run.sft, "sft"), (dry_run.grpo, "grpo")])
def test_the_shape_is_that_of_the_weights_that_a_job_starts_from(job, section, tmp_path):
    start = f"--config.{section}.init_from={GOLDENS / 'qwen2_tied'}"
    assert command_line.run_job(pytest.fail, ["job", *CONFIG, start, f"--workdir={tmp_path}"], dry_run=job) == 0
    shape = published.read_shape(str(GOLDENS / "qwen2_tied"))
    assert shape != Settings().model
    leaves = jax.tree.leaves(decoder.abstract_params(shape))
    assert json.loads((tmp_path / "summary.json").read_text())["parameters"] == sum(leaf.size for leaf in leaves)


def test_a_parameter_without_a_rule_is_found(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sharding, "RULES", tuple(rule for rule in sharding.RULES if "down" not in rule[0]))
    arguments = ["sft", *CONFIG, f"--workdir={tmp_path}"]
    assert command_line.run_job(pytest.fail, arguments, dry_run=dry_run.sft) == EXIT_USER_ERROR
    assert "parameter 'layers/mlp/down': expected a name that a sharding rule knows" in capsys.readouterr().err


def test_the_directory_of_a_job_is_left_alone(tmp_path, capsys):
    (tmp_path / "policy.json").write_text("{}")
    arguments = ["train", *CONFIG, f"--workdir={tmp_path}"]
    assert command_line.run_job(pytest.fail, arguments, dry_run=dry_run.grpo) == EXIT_USER_ERROR
    assert "expected a directory without a job" in capsys.readouterr().err


@pytest.mark.parametrize("job", [dry_run.sft, dry_run.grpo])
def test_tables_and_summary_say_what_a_step_takes(job, tmp_path, capsys):
    shared = ["--config.mesh.data=4", "--config.processes.count=4"]
    arguments = ["job", *CONFIG, *shared, "--config.device.length_share=0.5", f"--workdir={tmp_path}"]
    assert command_line.run_job(pytest.fail, arguments, dry_run=job) == 0
    output = capsys.readouterr().out
    assert "layers/mlp/gate" in output
    assert "memory of each of 4 h100" in output
    summary = json.loads((tmp_path / "summary.json").read_text())
    parts = [name for name in summary if name.endswith("_bytes") and not name.endswith("total_bytes")]
    sampling = [name for name in parts if name in dry_run.SAMPLING and name != "policy_bytes"]
    assert summary["update_total_bytes"] == sum(summary[name] for name in parts if name not in sampling)
    assert summary["total_bytes"] == max(summary[name] for name in summary if name.endswith("_total_bytes"))
    assert summary["moment_bytes"] > summary["parameter_bytes"] == summary["gradient_bytes"]
    assert summary["most_tokens_per_step"] == 2 * summary["tokens_per_step"]
    assert summary["compute_s"] == pytest.approx(summary["flops_per_step"] / (4 * 989e12))


def test_a_step_that_does_not_fit_ends_with_one_line(tmp_path, capsys):
    arguments = ["train", *CONFIG, "--config.data.slots=4000000", f"--workdir={tmp_path}"]
    assert command_line.run_job(pytest.fail, arguments, dry_run=dry_run.grpo) == EXIT_USER_ERROR
    error = capsys.readouterr().err
    assert "does not fit:" in error
    assert "of 80 GiB on each h100" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("target", "expected"), [("h100", 50), ("tpu-v5p", 27)])
def test_temporaries_are_what_a_device_allocates(target, expected):
    # As a compiler for TPUs states them: 10 are replaced, 3 are new, 40 lie there at the peak.
    stated = types.SimpleNamespace(
        argument_size_in_bytes=10,
        output_size_in_bytes=13,
        alias_size_in_bytes=10,
        temp_size_in_bytes=50,
        peak_memory_in_bytes=40,
    )
    compiled = types.SimpleNamespace(memory_analysis=lambda: stated)
    found = targets.program_bytes(compiled, target)
    assert found == {"argument_bytes": 10, "temporary_bytes": expected, "result_bytes": 3}
    with pytest.raises(UserError, match=f"{target}.*tells no memory"):
        targets.program_bytes(types.SimpleNamespace(memory_analysis=lambda: None), target)
