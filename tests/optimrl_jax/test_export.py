"""An exported policy: its files say what others need, and it comes back as the policy that it was."""

import json

import jax
import numpy as np
import pytest
import safetensors.numpy

from optimrl_jax import export
from optimrl_jax.data import prompts
from optimrl_jax.data import tokenizer as tokenizer_lib
from optimrl_jax.jobs.command_line import run_command
from optimrl_jax.model import adapters
from optimrl_jax.model.pretrained import published
from optimrl_jax.settings import LoraSettings
from optimrl_jax.training import adaptation, checkpoints, workdir
from tests.optimrl_jax.grpo.stored import POLICY
from tests.optimrl_jax.model import tiny


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job"
    path.mkdir()
    workdir.write_model(path, POLICY.settings)
    POLICY.tokenizer.save(path)
    saved = checkpoints.Checkpoints(path)
    for step, scale in ((3, 1.0), (7, 2.0)):
        saved.save(step, {"params": jax.tree.map(lambda x, scale=scale: scale * x, POLICY.params)}, {})
    saved.close()
    (path / "summary.json").write_text(json.dumps({"pass@1": {"grpo": {"p30": 12.3456}}}))
    return path


def exported(job, *flags: str):
    output = job.parent / "out"
    assert (
        run_command(export.main, [f"--workdir={job}{flags[0]}", f"--output={output}", *flags[1:]], name="export") == 0
    )
    return output


def same(one, other, scale=1.0):
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x, scale * np.asarray(y)), one, other)


def test_the_newest_policy_comes_back_with_its_tokenizer(job):
    output = exported(job, "")
    policy = published.load_published(str(output))
    same(policy.params, POLICY.params, scale=2.0)
    ours, theirs = POLICY.tokenizer, tokenizer_lib.load_tokenizer(output)
    assert (theirs.pad, theirs.end, theirs.program, theirs.template) == (ours.pad, ours.end, ours.program, None)
    assert (
        prompts.encode_prompt(theirs, "case <|end|>").tolist() == prompts.encode_prompt(ours, "case <|end|>").tolist()
    )


def test_the_policy_of_one_step_is_asked_for_behind_the_workdir(job):
    policy = published.load_published(str(exported(job, "@3")))
    assert jax.tree.all(jax.tree.map(np.array_equal, policy.params, POLICY.params))


def test_the_files_name_the_end_the_limits_the_class_and_the_figures(job):
    output = exported(job, "", "--dtype=bfloat16", "--context_tokens=96")
    config, ends, tokenizer = (
        json.loads((output / name).read_text())
        for name in ("config.json", "generation_config.json", "tokenizer_config.json")
    )
    assert config["max_position_embeddings"] == tokenizer["model_max_length"] == 96
    assert config["dtype"] == "bfloat16"
    assert {**config, **ends} == config
    assert ends == {"bos_token_id": None, "eos_token_id": POLICY.tokenizer.end, "pad_token_id": POLICY.tokenizer.pad}
    assert (tokenizer["tokenizer_class"], tokenizer["eos_token"]) == ("PreTrainedTokenizerFast", "<|end|>")
    card = (output / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    assert "| pass@1.grpo.p30 | 12.3456 |" in card


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--workdir={job}@5", "--output={job}/out"], "expected a checkpoint of step 5, found [3, 7]"),
        (["--workdir={job}@x", "--output={job}/out"], "expected DIRECTORY or DIRECTORY@STEP"),
        (["--workdir={job}/none", "--output={job}/out"], "expected the workdir of a job that made a policy"),
        (["--workdir={job}", "--output={job}/out", "--dtype=int8"], "invalid choice: 'int8'"),
    ],
)
def test_mistakes_are_one_line(job, capsys, flags, message):
    assert run_command(export.main, [flag.format(job=job) for flag in flags], name="export") == 2
    assert message in capsys.readouterr().err


def test_weights_are_never_overwritten(job, capsys):
    output = exported(job, "")
    assert run_command(export.main, [f"--workdir={job}", f"--output={output}"], name="export") == 2
    assert "expected a directory without weights" in capsys.readouterr().err


LORA = LoraSettings(rank=2, alpha=6.0, targets=("query", "output", "down"))


@pytest.fixture
def adapted_job(tmp_path, job):
    path = tmp_path / "adapted"
    path.mkdir()
    workdir.write_model(path, POLICY.settings)
    POLICY.tokenizer.save(path)
    fresh = adapters.initial_adapters(POLICY.settings, LORA, jax.random.key(0))
    tree = jax.tree.map(lambda x: x + 0.1, fresh)
    saved = checkpoints.Checkpoints(path)
    saved.save(4, {"params": tree}, {})
    saved.close()
    adaptation.write_base(path, LORA, str(job), 3, POLICY.params)
    return path, tree


def test_adapters_are_exported_merged(adapted_job):
    path, tree = adapted_job
    found = published.load_published(str(exported(path, ""))).params
    expected = adapters.merge_adapters(POLICY.params, tree, LORA)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), found, expected)
    row = np.random.default_rng(0).integers(0, POLICY.settings.vocabulary, 12)
    added = adapters.add_adapters(POLICY.params, tree, LORA)
    scores = [tiny.log_probs(params, POLICY.settings, row) for params in (found, added)]
    np.testing.assert_allclose(*scores, atol=1e-4)


def test_adapters_alone_are_what_peft_multiplies(adapted_job):
    path, tree = adapted_job
    output = exported(path, "", "--adapters")
    config = json.loads((output / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["peft_type"]) == (2, 6.0, "LORA")
    assert config["target_modules"] == ["q_proj", "o_proj", "down_proj"]
    tensors = safetensors.numpy.load_file(output / "adapter_model.safetensors")
    assert len(tensors) == 2 * 3 * POLICY.settings.layers
    merged = adapters.merge_adapters(POLICY.params, tree, LORA)
    for name, module in (
        ("query", "self_attn.q_proj"),
        ("output", "self_attn.o_proj"),
    ):
        key = f"base_model.model.model.layers.1.{module}.lora_"
        change = config["lora_alpha"] / config["r"] * tensors[f"{key}B.weight"] @ tensors[f"{key}A.weight"]
        both = [np.asarray(params["layers"]["attention"][name][1]) for params in (merged, POLICY.params)]
        inputs = tensors[f"{key}A.weight"].shape[1]
        np.testing.assert_allclose(change.T, (both[0] - both[1]).reshape(inputs, -1), atol=1e-5)


def test_a_job_without_adapters_has_none_to_export(job, capsys):
    flags = [f"--workdir={job}", f"--output={job.parent / 'out'}", "--adapters"]
    assert run_command(export.main, flags, name="export") == 2
    assert "expected a job with adapters (lora.rank) for --adapters" in capsys.readouterr().err
