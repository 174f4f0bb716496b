"""What the compilers of accelerators make of the learner: memory, messages and the shortest time, with no device.

`python -m tests.benchmarks.compiled [--target=h100] [--only=NAME] [--kept=DIR]`, in the environment that `make
compiler` makes for the target; prints one JSON line of figures by configuration. A target's compiler runs on any host:
what it emits is the program that would run there. Loops whose length depends on the data count as one turn. All
configurations take tens of minutes: a call that was stopped goes on where its figures are kept.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import pathlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Nothing can be tuned without a device.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_autotune_level=0"

import jax

from configs import cwm32b, qwen1_5b_one_gpu, qwen7b, qwen7b_node, qwen32b
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.files import write_json
from optimrl_jax.planning import dry_run, targets
from optimrl_jax.settings import MeshSettings, Settings

ROOT = pathlib.Path(__file__).parents[2]
# The packages of the product that the figures come from.
COMPILED = "model", "distributed", "training", "grpo", "planning"
ROW = "per_test_two_gate_binary"
SHIPPED = {
    "qwen1_5b_one_gpu": qwen1_5b_one_gpu,
    "qwen7b_node": qwen7b_node,
    "qwen7b": qwen7b,
    "qwen32b": qwen32b,
    "cwm32b": cwm32b,
}


def configurations() -> dict[str, Settings]:
    """The shipped configurations, and 7B on eight chips that all learn, a row on each, as others measure it."""
    found = {name: freeze(Settings, module.get_config(ROW).to_dict()) for name, module in SHIPPED.items()}
    node = found["qwen7b_node"]
    data, mesh = dataclasses.replace(node.data, micro_rows=8), MeshSettings(fsdp=8)
    return found | {"qwen7b_fsdp8": dataclasses.replace(node, data=data, mesh=mesh)}


def figures(settings: Settings, target: str) -> dict[str, object]:
    settings = dataclasses.replace(settings, device=dataclasses.replace(settings.device, target=target))
    planned = dry_run.plan_grpo(settings)
    found = dry_run.update_costs(planned, settings)[1]
    memory_bytes = targets.TARGETS[target].memory_bytes
    # A device that takes turns also keeps the policy that it samples with.
    kept = planned.sampler is not None and not planned.sampler.is_apart
    compiled_bytes = sum(found[f"{name}_bytes"] for name in ("argument", "temporary", "result"))
    update = {
        "device_bytes": found["update_total_bytes"],
        "dry_run_ratio": (found["update_total_bytes"] - kept * found.get("policy_bytes", 0)) / compiled_bytes,
        "traced_ratio": traced_bytes(planned, settings) / compiled_bytes,
        "memory_share": found["update_total_bytes"] / memory_bytes,
        "temporary_bytes": found["temporary_bytes"],
        "largest_activation_collective_bytes": found["sent_activation_bytes"],
        "sent_bytes_per_step": found["microbatches_per_step"] * found["sent_per_microbatch"],
        "sent_bytes_per_microbatch": found["sent_per_microbatch"],
        "flops_per_step": found["flops_per_step"],
        "kernels": found["kernels"],
        "roofline_mfu": found["roofline_mfu"],
        **{name: found[name] for name in ("compute_s", "memory_s", "link_s")},
    }
    return {"update": update, **({"decoding": decoding(found, memory_bytes)} if planned.sampler else {})}


def kept_figures(name: str, settings: Settings, target: str, *, directory: pathlib.Path) -> dict[str, object]:
    """Compute the figures of a configuration, or read those that the same code, settings and JAX left in a folder."""
    identity = hashlib.sha256(f"{jax.__version__} {settings}".encode())
    for package in COMPILED:
        for path in sorted((ROOT / "optimrl_jax" / package).rglob("*.py")):
            identity.update(path.read_bytes())
    path = directory / f"{target}_{name}_{identity.hexdigest()[:12]}.json"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        write_json(path, figures(settings, target))
    return json.loads(path.read_text())


def decoding(found: dict, memory_bytes: int) -> dict[str, object]:
    """Of one token in every slot; what has to be read is the weights once, and the caches once, full ones."""
    needed = found["decoding_bytes"] + found["cache_bytes"]
    return {
        "device_bytes": found["sampling_total_bytes"],
        "memory_share": found["sampling_total_bytes"] / memory_bytes,
        "moved_bytes_per_token": found["moved_per_token"],
        "needed_share": needed / found["moved_per_token"],
        "kernels": found["decode_kernels"],
    }


def traced_bytes(planned: dry_run.Update, settings: Settings) -> float:
    """What a dry run without the target's compiler counts for the update."""
    found = dry_run.trace_update(planned, settings)
    return sum(value for name, value in found.items() if name.endswith("_bytes"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="h100", choices=sorted(targets.TARGETS))
    parser.add_argument("--only", default="", help="one configuration by name; all without it")
    parser.add_argument("--kept", type=pathlib.Path, default=None, help="directory of figures that are there already")
    arguments = parser.parse_args()
    if not targets.has_compiler(arguments.target):
        platform = targets.TARGETS[arguments.target].platform
        parser.error(f"--target={arguments.target}: expected its compiler: make compiler TARGET={platform}")
    chosen = {name: own for name, own in configurations().items() if arguments.only in ("", name)}
    found = {
        name: kept_figures(name, own, arguments.target, directory=arguments.kept)
        if arguments.kept
        else figures(own, arguments.target)
        for name, own in chosen.items()
    }
    print(json.dumps({"benchmark": "compiled", "target": arguments.target, "jax": jax.__version__, **found}))


if __name__ == "__main__":
    main()
