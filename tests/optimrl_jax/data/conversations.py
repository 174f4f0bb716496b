"""A small chat model's tokenizer files and small mixes, as tests need them."""

import json
import pathlib

import pyarrow
import pyarrow.parquet
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

CHATML = (
    "{%- if messages[0].role != 'system' %}{{ '<|im_start|>system\nBe brief.<|im_end|>\n' }}{%- endif %}"
    "{%- for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def tokenizer_files(directory: pathlib.Path, **config: object) -> pathlib.Path:
    """Writes the files of a byte-level tokenizer with ChatML tokens; returns the directory."""
    model = tokenizers.Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    model.train_from_iterator(["Read n. Print it. system user assistant"], trainer)
    directory.mkdir(parents=True, exist_ok=True)
    model.save(str(directory / "tokenizer.json"))
    values = {
        "chat_template": CHATML,
        "eos_token": {"content": "<|endoftext|>"},
        "pad_token": "<|endoftext|>",
        **config,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(values))
    return directory


def conversation(asked: str, answered: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]


def jsonl(path: pathlib.Path, conversations: list[list[dict[str, str]]]) -> pathlib.Path:
    path.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in conversations))
    return path


def parquet(path: pathlib.Path, conversations: list[list[dict[str, str]]]) -> pathlib.Path:
    """Row groups of two, so that a handful of examples lies in several."""
    pyarrow.parquet.write_table(pyarrow.table({"messages": conversations}), path, row_group_size=2)
    return path
