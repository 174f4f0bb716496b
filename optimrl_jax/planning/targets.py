"""Edge: devices that are not there: their data sheets, and topologies for which installed compilers make real programs.

The compilers of GPUs and TPUs run on any host. Each needs packages that the learner does not (`make compiler
TARGET=cuda` or `tpu`); without them a dry run can only trace.
"""

import dataclasses
import importlib.util
import math
import os

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh

from optimrl_jax.distributed import sharding
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.settings import MeshSettings

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Target:
    """The data sheet of one accelerator, as its maker gives it.

    Attributes:
      platform: whose compiler makes programs for it, "cuda" or "tpu".
      memory_bytes: memory of one device.
      peak_flops: dense bfloat16 floating-point operations a second.
      memory_bandwidth: bytes a second between a device and its memory.
      link_bandwidth: bytes a second that a device sends to others of its host or slice.
      cores: streaming multiprocessors of a GPU.
      capability: compute capability of a GPU, major and minor.
    """

    platform: str
    memory_bytes: int
    peak_flops: float
    memory_bandwidth: float
    link_bandwidth: float
    cores: int = 0
    capability: tuple[int, int] = (0, 0)


TARGETS = {
    "h100": Target("cuda", 80 * GIB, 989e12, 3.35e12, 450e9, cores=132, capability=(9, 0)),
    "h200": Target("cuda", 141 * GIB, 989e12, 4.8e12, 450e9, cores=132, capability=(9, 0)),
    "b200": Target("cuda", 180 * GIB, 2250e12, 8.0e12, 900e9, cores=148, capability=(10, 0)),
    "tpu-v5e": Target("tpu", 16 * GIB, 197e12, 0.82e12, 100e9),
    "tpu-v5p": Target("tpu", 95 * GIB, 459e12, 2.77e12, 600e9),
    "tpu-v6e": Target("tpu", 32 * GIB, 918e12, 1.64e12, 448e9),
}
_PACKAGES = {"cuda": "jax_cuda13_plugin", "tpu": "libtpu"}
GPUS_OF_A_HOST = 8


def has_compiler(name: str) -> bool:
    """Tell whether the compiler of a target is installed here."""
    return importlib.util.find_spec(_PACKAGES[TARGETS[name].platform]) is not None


def absent_mesh(name: str, settings: MeshSettings) -> Mesh:
    """Return a mesh of devices that are not there, for which programs can be compiled but not run.

    Args:
      name: the target, a key of TARGETS.
      settings: devices along each axis; GPUs come in hosts of eight, TPU chips in hosts of one, two or four.

    Raises:
      UserError: if the target has no slice of that many devices, or its compiler refuses.
    """
    shape, count = settings.shape, settings.devices
    target = TARGETS[name]
    try:
        if target.platform == "cuda":
            hosts, each = (1, count) if count <= GPUS_OF_A_HOST else (-(-count // GPUS_OF_A_HOST), GPUS_OF_A_HOST)
            topology = topologies.get_topology_desc(
                platform="cuda",
                topology_name=name,
                topology=f"1x{hosts}x{each}",
                target_config=_gpu_facts(name, target),
            )
        else:
            os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
            sizes, host = slice_of(name, count)
            topology = topologies.get_topology_desc(
                platform="tpu",
                topology_name=f"{name.removeprefix('tpu-')}:{'x'.join(map(str, sizes))}",
                chips_per_host_bounds=host,
            )
        devices = np.array(topology.devices[:count]).reshape(shape)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"device.target = {name!r}: expected {count} devices in one slice ({error})") from None
    return jax.sharding.Mesh(devices, sharding.AXES, axis_types=sharding.AXIS_TYPES)


def program_bytes(compiled: jax.stages.Compiled, name: str) -> dict[str, int]:
    """Return the bytes of a compiled program on one device: "argument_bytes", "temporary_bytes", "result_bytes".

    Results that replace an argument count as the argument. On GPUs temporaries are what the compiler states. On TPUs
    that sum is no amount of memory: it counts vector memory, and buffers of loops twice; programs are compiled with
    which it is above the memory of a chip, and refused where their peak is. There temporaries are the peak less
    arguments and results.

    Args:
      compiled: for devices of the target.
      name: the target, a key of TARGETS.

    Raises:
      UserError: if the compiler tells no memory.
    """
    memory = compiled.memory_analysis()
    if memory is None:
        raise UserError(f"device.target = {name!r}: its compiler tells no memory")
    arguments, results = memory.argument_size_in_bytes, memory.output_size_in_bytes - memory.alias_size_in_bytes
    temporaries = memory.temp_size_in_bytes
    if TARGETS[name].platform == "tpu":
        temporaries = max(0, memory.peak_memory_in_bytes - arguments - results)
    return {"argument_bytes": arguments, "temporary_bytes": temporaries, "result_bytes": results}


def slice_of(name: str, count: int) -> tuple[list[int], list[int]]:
    """Find the chips along the axes of the most cubic slice of that many, and along those of one of its hosts.

    Slices have three axes for v5p and two for the others.

    Raises:
      ValueError: for a number that whole hosts do not have.
    """
    host = {1: [1, 1, 1], 2: [2, 1, 1]}.get(count, [2, 2, 1])
    hosts, rest = divmod(count, math.prod(host))
    if rest:
        raise ValueError("hosts have 1, 2 or 4 chips")
    sizes = host[: 3 if name == "tpu-v5p" else 2]
    factor = 2
    while hosts > 1:
        while hosts % factor:
            factor += 1
        sizes[sizes.index(min(sizes))] *= factor
        hosts //= factor
    return sizes, host


def _gpu_facts(name: str, target: Target) -> str:
    """Describe a GPU in XLA's text form, for what XLA wants to know and cannot ask an absent device."""
    major, minor = target.capability
    facts = {
        "threads_per_block_limit": 1024, "threads_per_warp": 32, "threads_per_core_limit": 2048,
        "shared_memory_per_block": 49152, "shared_memory_per_core": 233472, "shared_memory_per_block_optin": 232448,
        "core_count": target.cores, "fpus_per_core": 128, "l2_cache_size": 50 * 2**20,
        "block_dim_limit_x": 2**31 - 1, "block_dim_limit_y": 65535, "block_dim_limit_z": 65535,
        "registers_per_core_limit": 65536, "registers_per_block_limit": 65536,
        "memory_bandwidth": int(target.memory_bandwidth), "device_memory_size": target.memory_bytes,
    }  # fmt: skip
    lines = "\n".join(f"  {key}: {value}" for key, value in facts.items())
    return (
        f"gpu_device_info {{\n{lines}\n  clock_rate_ghz: 1.98\n"
        f"  cuda_compute_capability {{ major: {major} minor: {minor} }}\n"
        f'  device_vendor: "NVIDIA Corporation"\n  name: "{name.upper()}"\n'
        '  runtime_version: "13.0.0"\n  driver_version: "13.0.0"\n}\n'
        'platform_name: "CUDA"\ndnn_version_info { major: 9 minor: 12 patch: 0 }\n'
        f'device_description_str: "{name.upper()}"\n'
    )
