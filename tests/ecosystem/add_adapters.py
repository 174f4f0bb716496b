"""Runs under `peft`: adds exported adapters to an exported base as its users do, and prints the scores of token rows.

`python add_adapters.py DIRECTORY ROWS`: the base in `DIRECTORY/base`, adapters in `DIRECTORY/adapters`, ROWS as JSON.
"""

import json
import pathlib
import sys

import peft
import torch
import transformers


def main(directory: str, rows: str) -> None:
    base = transformers.AutoModelForCausalLM.from_pretrained(pathlib.Path(directory) / "base", dtype=torch.float32)
    adapted = peft.PeftModel.from_pretrained(base, pathlib.Path(directory) / "adapters").eval()
    tokens = torch.tensor(json.loads(rows))
    with torch.no_grad():
        added = adapted(tokens).logits.tolist()
        merged = adapted.merge_and_unload()(tokens).logits.tolist()
    print(json.dumps({"added": added, "merged": merged}))


if __name__ == "__main__":
    main(*sys.argv[1:])
