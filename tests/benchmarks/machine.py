"""How fast this machine multiplies and reads: from datasheets for known accelerators, measured elsewhere."""

import time
import typing
from collections.abc import Callable

import jax
import jax.numpy as jnp


class Peak(typing.NamedTuple):
    """Operations a second of dense matrix products, and bytes a second of the main memory."""

    flops_per_s: float
    bytes_per_s: float


# Dense bfloat16 without sparsity, by the name that the driver reports.
DATASHEETS = {
    "NVIDIA H200": Peak(989e12, 4.8e12),
    "NVIDIA H100 80GB HBM3": Peak(989e12, 3.35e12),
    "NVIDIA H100 PCIe": Peak(756e12, 2.0e12),
    "NVIDIA A100-SXM4-80GB": Peak(312e12, 2.039e12),
    "NVIDIA A100-SXM4-40GB": Peak(312e12, 1.555e12),
}


def peak(dtype: str) -> Peak:
    """The datasheet of the first device, or what it reaches here on large products and copies."""
    kind = jax.devices()[0].device_kind
    return DATASHEETS[kind] if kind in DATASHEETS else Peak(measured_flops_per_s(dtype), measured_bytes_per_s())


def measured_flops_per_s(dtype: str, *, size: int = 1536) -> float:
    x = jnp.ones((size, size), dtype)
    product = jax.jit(lambda a: jnp.matmul(a, a, preferred_element_type=jnp.float32))
    return 2 * size**3 / best_s(lambda: product(x).block_until_ready())


def measured_bytes_per_s(*, floats: int = 1 << 26) -> float:
    """Reads and writes of one pass over an array that no cache holds."""
    x = jnp.ones(floats, jnp.float32)
    scaled = jax.jit(lambda a: 1.5 * a)
    return 8 * floats / best_s(lambda: scaled(x).block_until_ready())


def best_s(call: Callable[[], object], *, repeats: int = 5) -> float:
    """Least wall seconds of a few calls after one to warm up."""
    call()
    found = []
    for _ in range(repeats):
        started_s = time.perf_counter()
        call()
        found.append(time.perf_counter() - started_s)
    return min(found)
