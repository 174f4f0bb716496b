"""Trains a policy over programs with TRL's GRPOTrainer and our reward; prints the mean reward of each step as JSON."""

import json
import tempfile

import datasets
import transformers
import trl
from tokenizers import Tokenizer, models

from tests.ecosystem import programs


def main() -> None:
    vocabulary = programs.vocabulary()
    words = models.WordLevel({text: n for n, text in enumerate(vocabulary)}, unk_token="<unknown>")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(words), pad_token="<pad>", eos_token="<end>", unk_token="<unknown>"
    )
    shape = transformers.Qwen2Config(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    transformers.set_seed(0)
    rows = [{"prompt": record.statement, "problem_id": record.id} for record in programs.RECORDS]
    with programs.open_reward() as reward, tempfile.TemporaryDirectory() as directory:
        trainer = trl.GRPOTrainer(
            model=transformers.Qwen2ForCausalLM(shape),
            reward_funcs=reward,
            processing_class=tokenizer,
            train_dataset=datasets.Dataset.from_list(rows * programs.STEPS),
            args=trl.GRPOConfig(
                output_dir=directory, max_steps=programs.STEPS, learning_rate=3e-2, lr_scheduler_type="constant",
                per_device_train_batch_size=programs.ROLLOUTS, num_generations=programs.ROLLOUTS, use_cpu=True,
                max_completion_length=1, logging_steps=1, report_to="none", save_strategy="no", bf16=False, seed=0,
            ),
        )  # fmt: skip
        trainer.train()
    print(json.dumps([line["reward"] for line in trainer.state.log_history if "reward" in line]))


if __name__ == "__main__":
    main()
