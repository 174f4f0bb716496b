"""Edge: writes a policy as other software reads it: weights, configuration, tokenizer, chat template, model card.

`python -m optimrl_jax.export --workdir=runs/quickstart/grpo --output=exported` takes the newest checkpoint of a job,
`--workdir=runs/quickstart/grpo@55` that of step 55; an output that ends with `.gguf` is a GGUF file, for policies that
began at one. `transformers`, vLLM and SGLang load the directory; so do
`--config.grpo.init_from` and `--config.sft.init_from`. A policy that was trained with adapters (`lora.rank`) is written
with the adapters merged into its weights, or with `--adapters` as the adapters alone, for `peft` and for engines that
add them.
"""

import json
import pathlib
import sys
import typing
from collections.abc import Mapping, Sequence

from optimrl_jax import __version__
from optimrl_jax.jobs.command_line import ArgumentParser, run_command
from optimrl_jax.jobs.errors import UserError, require
from optimrl_jax.jobs.files import write_text
from optimrl_jax.model.pretrained.gguf import save_gguf
from optimrl_jax.model.pretrained.peft_files import save_for_peft
from optimrl_jax.model.pretrained.published import SUFFIX
from optimrl_jax.model.pretrained.transformers_files import context_of, save_for_transformers
from optimrl_jax.training import adaptation, checkpoints
from optimrl_jax.training.workdir import read_model

CARD_FILE = "README.md"
DTYPES = ("float32", "bfloat16", "float16")


def main(arguments: Sequence[str]) -> None:
    """Write the policy that the flags name, and print where it is."""
    flags = _parser().parse_args(list(arguments))
    require(bool(flags.workdir), "--workdir", flags.workdir, "the workdir of a job")
    require(bool(flags.output), "--output", flags.output, "a directory or FILE.gguf")
    require(flags.context_tokens >= 0, "--context_tokens", flags.context_tokens, "a number that is not negative")
    directory, step = _workdir_and_step(flags.workdir)
    if flags.adapters:
        _export_adapters(directory, step, pathlib.Path(flags.output), dtype=flags.dtype)
        return
    policy = checkpoints.load_policy(directory, step=step)
    step = checkpoints.fingerprint(directory)[0] if step is None else step
    output = pathlib.Path(flags.output)
    context = flags.context_tokens or context_of(policy.settings)
    save = save_gguf if output.suffix == SUFFIX else save_for_transformers
    save(output, policy.settings, policy.params, policy.tokenizer, dtype=flags.dtype, context_tokens=context)
    if output.suffix == SUFFIX:
        print(f"{output}: the policy of step {step} as {flags.dtype}")
        return
    write_text(output / CARD_FILE, _card(directory, step=step, dtype=flags.dtype, context_tokens=context))
    print(f"{output}: the policy of step {step} as {flags.dtype}")


def _export_adapters(directory: pathlib.Path, step: int | None, output: pathlib.Path, *, dtype: str) -> None:
    """Write the adapters of a job alone; raise UserError where it trained none."""
    base = adaptation.read_base(directory)
    if base is None:
        raise UserError(f"--workdir = {str(directory)!r}: expected a job with adapters (lora.rank) for --adapters")
    store = checkpoints.Checkpoints(directory, is_owner=False)
    targets = adaptation.adapter_targets(read_model(directory), base.lora, None)
    restored = store.restore({"params": targets}, step=step)
    store.close()
    if restored is None:
        raise UserError(f"{directory}: expected at least one checkpoint")
    save_for_peft(output, restored.arrays["params"], base.lora, base=base.source, dtype=dtype)
    print(f"{output}: the adapters of step {restored.step} as {dtype}, beside {base.source}")


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="export", description="Writes a policy as transformers and vLLM read it.")
    parser.add_argument("--workdir", required=True, metavar="DIRECTORY[@STEP]", help="workdir of sft or train")
    parser.add_argument(
        "--output", required=True, metavar="DIRECTORY|FILE.gguf", help="where to write; holds no weights yet"
    )
    parser.add_argument("--dtype", default="float32", choices=DTYPES, help="of the stored weights (%(default)s)")
    parser.add_argument(
        "--adapters", action="store_true", help="write the adapters alone, as peft reads them, in place of all weights"
    )
    parser.add_argument(
        "--context_tokens", type=int, default=0, help="longest prompt and completion; 0: what the shape was made for"
    )
    return parser


def _workdir_and_step(text: str) -> tuple[pathlib.Path, int | None]:
    directory, at, step = text.rpartition("@")
    if not at or pathlib.Path(text).exists():
        return pathlib.Path(text), None
    if not step.isdigit():
        raise UserError(f"--workdir = {text!r}: expected DIRECTORY or DIRECTORY@STEP")
    return pathlib.Path(directory), int(step)


def _card(workdir: pathlib.Path, *, step: int, dtype: str, context_tokens: int) -> str:
    """Return the model card: what made the weights, how to use them, and the figures of the run."""
    path = workdir / "summary.json"
    summary = json.loads(path.read_text()) if path.exists() else {}
    figures = "".join(f"| {name} | {value} |\n" for name, value in _figures(summary))
    table = f"\n## The run\n\n| figure | value |\n|---|---|\n{figures}" if figures else ""
    return f"""---
library_name: transformers
pipeline_tag: text-generation
tags: [code, optimrl-jax]
---

# {workdir.name}, step {step}

A policy that optimrl-jax {__version__} trained to write fast and correct programs. Weights are {dtype}; prompt and
completion together have room for {context_tokens} tokens.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer, model = AutoTokenizer.from_pretrained("."), AutoModelForCausalLM.from_pretrained(".")
messages = [{{"role": "user", "content": "Read n. Print the sum of 1 to n."}}]
prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
print(tokenizer.decode(model.generate(**prompt, max_new_tokens=64)[0]))
```
{table}"""


def _figures(values: Mapping[str, typing.Any], prefix: str = "") -> list[tuple[str, object]]:
    """Flatten the numbers and texts of a summary into rows."""
    rows: list[tuple[str, object]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            rows += _figures(value, f"{prefix}{name}.")
        elif isinstance(value, str | int | float):
            rows.append((f"{prefix}{name}", round(value, 4) if isinstance(value, float) else value))
    return rows


if __name__ == "__main__":
    sys.exit(run_command(main, name="export"))
