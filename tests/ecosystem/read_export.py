"""Runs under `transformers`: reads an exported policy as its users do, and prints what it makes of our questions.

`python read_export.py DIRECTORY QUESTIONS.json [FILE.gguf]`: texts to tokenize, statements to put by the chat template,
token rows to score, prompts to complete greedily. One JSON object on standard output.
"""

import json
import pathlib
import sys

import torch
import transformers


def main(directory: str, questions_file: str, gguf_file: str | None = None) -> None:
    questions = json.loads(pathlib.Path(questions_file).read_text())
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory, gguf_file=gguf_file)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, gguf_file=gguf_file
    ).eval()
    conversations = [[{"role": "user", "content": text}] for text in questions["statements"]]
    prompts = [
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        for messages in conversations
    ]
    prompt_ids = [tokenizer(prompt, add_special_tokens=False)["input_ids"] for prompt in prompts]
    with torch.no_grad():
        logits = [model(torch.tensor([row])).logits[0].tolist() for row in questions["rows"]]
        completions = [
            model.generate(torch.tensor([ids]), max_new_tokens=questions["steps"], do_sample=False)[
                0, len(ids) :
            ].tolist()
            for ids in prompt_ids
        ]
    answer = {
        "ids": [tokenizer(text, add_special_tokens=False)["input_ids"] for text in questions["texts"]],
        "texts": [tokenizer.decode(ids, skip_special_tokens=True) for ids in completions],
        "prompt_ids": prompt_ids,
        "completions": completions,
        "logits": logits,
        "eos": [tokenizer.eos_token_id, model.generation_config.eos_token_id],
        "pad": [tokenizer.pad_token_id, model.generation_config.pad_token_id],
        "context": [tokenizer.model_max_length, model.config.max_position_embeddings],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
