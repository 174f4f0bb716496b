"""Edge: a rival: TRL's GRPOTrainer, one update for each line on standard input.

Runs in the environment that `tests.benchmarks.rivals.setup` makes, and imports nothing of this project but the
tokenizer that all sides have. Takes the shape as one JSON argument; after each update it prints the seconds that
generation, rewards and update took together.
"""

import json
import sys
import time

import torch
import transformers
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from tests.benchmarks.rivals.words import END, PAD, word_tokenizer


class Turns(transformers.TrainerCallback):
    """Waits for a line before each update and prints the update's seconds after it; ends with the input."""

    def on_step_begin(self, args, state, control, **kwargs):
        if not sys.stdin.readline():
            sys.exit(0)
        self.started_s = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        print(json.dumps({"seconds": time.perf_counter() - self.started_s}), flush=True)


def reward(completions: list[str], **kwargs: object) -> list[float]:
    return [float(len(text) % 7) for text in completions]


def main() -> None:
    shape = json.loads(sys.argv[1])
    torch.set_num_threads(shape["threads"])
    trainer = GRPOTrainer(
        model=model_of(shape["model"]),
        reward_funcs=reward,
        args=arguments_of(shape),
        train_dataset=Dataset.from_dict({"prompt": [" ".join(["t5"] * shape["prompt_tokens"])] * 64}),
        processing_class=tokenizer_of(shape["model"]["vocabulary"]),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.add_callback(Turns())
    trainer.train()


def model_of(shape: dict) -> transformers.Qwen2ForCausalLM:
    config = transformers.Qwen2Config(
        vocab_size=shape["vocabulary"],
        hidden_size=shape["width"],
        intermediate_size=shape["mlp_width"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"],
        tie_word_embeddings=shape["has_tied_embeddings"],
        max_position_embeddings=4096,
    )
    return transformers.Qwen2ForCausalLM(config)


def tokenizer_of(vocabulary: int) -> transformers.PreTrainedTokenizerFast:
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer(vocabulary), pad_token=PAD, eos_token=END
    )


def arguments_of(shape: dict) -> GRPOConfig:
    """The recipe of this project's side as far as TRL has it; nothing is computed twice on either side."""
    return GRPOConfig(
        output_dir=shape["directory"],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=shape["problems"] * shape["rollouts"],
        num_generations=shape["rollouts"],
        max_completion_length=shape["completion_tokens"],
        temperature=1.0,
        max_steps=1_000_000,
        learning_rate=3e-4,
        beta=0.0,
        loss_type="grpo",
        epsilon_high=0.25,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
    )


if __name__ == "__main__":
    main()
