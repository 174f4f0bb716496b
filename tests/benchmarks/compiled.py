"""What the compilers of accelerators make of the learner: memory, messages and the shortest time, with no device.

`python -m tests.benchmarks.compiled [--target=h100] [--only=NAME]`, in the environment that `make compiler` makes for
the target; prints one JSON line of figures by configuration. A target's compiler runs on any host: what it emits is the
program that would run there. Loops whose length depends on the data count as one turn.
"""

import argparse
import dataclasses
import json
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Nothing can be tuned without a device.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_autotune_level=0"

import jax

from configs import cwm32b, qwen7b, qwen32b
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.planning import cost_model, dry_run, targets
from optimrl_jax.settings import DeviceSettings, MeshSettings, Settings

ROW = "per_test_two_gate_binary"
ONE_POINT_FIVE = {"width": 1536, "heads": 12, "kv_heads": 2, "mlp_width": 8960, "vocabulary": 151_936}


def paper(config, mesh: MeshSettings | None = None) -> Settings:
    """A configuration of the paper, on its own mesh or on another one with a row a device."""
    settings = freeze(Settings, config.get_config(ROW).to_dict())
    if mesh is None:
        return settings
    data = dataclasses.replace(settings.data, micro_rows=mesh.data * mesh.fsdp)
    return dataclasses.replace(settings, mesh=mesh, data=data)


def configurations() -> dict[str, Settings]:
    small = paper(qwen7b, MeshSettings())
    model = dataclasses.replace(small.model, **ONE_POINT_FIVE, has_tied_embeddings=True)
    return {
        "qwen1_5b_one_gpu": dataclasses.replace(small, model=model),
        "qwen7b_node": paper(qwen7b, MeshSettings(fsdp=8)),
        "qwen7b": paper(qwen7b),
        "qwen32b": paper(qwen32b),
        "cwm32b": paper(cwm32b),
    }


def figures(settings: Settings, target: str) -> dict[str, object]:
    settings = dataclasses.replace(settings, device=dataclasses.replace(settings.device, target=target))
    device: DeviceSettings = settings.device
    found = dry_run.compile_update(dry_run.plan_grpo(settings), settings)
    facts, data = targets.TARGETS[device.target], settings.data
    total = found["argument_bytes"] + found["temporary_bytes"] + found["result_bytes"]
    # Full rows, one microbatch: the operations that are asked for, and those that recomputation adds.
    flops = cost_model.update_flops(settings.network, sequences=data.micro_rows, tokens=data.row_tokens)
    compute_s = flops / (settings.mesh.data * settings.mesh.fsdp * settings.mesh.tensor * facts.peak_flops)
    link_s = found["sent_bytes_per_microbatch"] / facts.link_bandwidth
    recomputed = 4 / 3 if settings.compute.remat == "block" else 1
    return {
        "device_bytes": total,
        "memory_share": total / facts.memory_bytes,
        "largest_message_bytes": found["sent_largest_bytes"],
        "sent_bytes_per_microbatch": found["sent_bytes_per_microbatch"],
        "flops_per_microbatch": flops,
        "compute_bound_mfu": compute_s / max(recomputed * compute_s, link_s),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="h100", choices=sorted(targets.TARGETS))
    parser.add_argument("--only", default="", help="one configuration by name; all without it")
    arguments = parser.parse_args()
    if not targets.has_compiler(arguments.target):
        platform = targets.TARGETS[arguments.target].platform
        parser.error(f"--target={arguments.target}: expected its compiler: make compiler TARGET={platform}")
    chosen = {name: own for name, own in configurations().items() if arguments.only in ("", name)}
    found = {name: figures(own, arguments.target) for name, own in chosen.items()}
    print(json.dumps({"benchmark": "compiled", "target": arguments.target, "jax": jax.__version__, **found}))


if __name__ == "__main__":
    main()
