"""An exported policy: its files say what others need, and it comes back as the policy that it was."""

import json

import jax
import numpy as np
import pytest

from optimrl_jax import export
from optimrl_jax.data import prompts
from optimrl_jax.data import tokenizer as tokenizer_lib
from optimrl_jax.jobs.command_line import run_command
from optimrl_jax.model.pretrained import published
from optimrl_jax.training import checkpoints, workdir
from tests.optimrl_jax.grpo.stored import POLICY


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
    same(published.load_published(str(exported(job, "@3"))).params, POLICY.params)


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
