"""Attention over packed rows by the kernels of the platform that runs it, with a gradient of its own.

Takes the place of `blockwise.attend_blockwise` on GPUs and TPUs and computes the same. What the forward pass found is
named for policies of rematerialization, as there.
"""

import dataclasses
import functools
import math
import types

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from optimrl_jax.model import attention, blockwise
from optimrl_jax.model.attention import TokenLayout
from optimrl_jax.model.fused import gpu, tpu
from optimrl_jax.model.fused.spans import Spans, find_spans

KERNELS: dict[str, types.ModuleType] = {"gpu": gpu, "tpu": tpu}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """The kernels of a platform and how they are run.

    Attributes:
      platform: a key of KERNELS.
      tiles: sizes of their tiles, or None for those that suit the rows.
      interpret: whether they are only imitated, on any platform.
    """

    platform: str
    tiles: gpu.Tiles | tpu.Tiles | None = None
    interpret: bool = False


def attend_fused(
    query: Float[Array, "s t n d"],
    key: Float[Array, "s m d t"],
    value: Float[Array, "s m t d"],
    layout: TokenLayout,
    *,
    kernel: Kernel,
    window: attention.Window = attention.NO_WINDOW,
) -> Float[Array, "s t n d"]:
    """Compute what `attention.attend` gives under `attention.packed_mask`, for every token outside padding.

    Scores and sums are float32, products take the type of their arrays.

    Args:
      query: `[s, t, n, d]`, not yet divided by sqrt(d).
      key: `[s, m, d, t]`, m key heads for n query heads.
      value: `[s, m, t, d]`.
      layout: where the tokens of the rows stand.
      kernel: the kernels of the platform.
      window: positions that a query sees, its own included.

    Returns:
      `[s, t, n, d]` in the type of the values. Padding gets finite values that mean nothing.
    """
    t, width = query.shape[1], query.shape[3]
    module = KERNELS[kernel.platform]
    tiles = kernel.tiles or module.tiles_of(t, module.padded_width(width) * query.dtype.itemsize)
    missing = -t % max(tiles)

    def padded(heads: Float[Array, "s h t d"]) -> Float[Array, "s h t d"]:
        return jnp.pad(heads, ((0, 0), (0, 0), (0, missing), (0, module.padded_width(width) - width)))

    layout = TokenLayout(*(jnp.pad(x, ((0, 0), (0, missing))) for x in layout))
    arrays = padded(query.swapaxes(1, 2)), padded(key.swapaxes(2, 3)), padded(value)
    spans = find_spans(layout, jnp.asarray(window, jnp.int32))
    own = dataclasses.replace(kernel, tiles=tiles)
    return _attend(*arrays, spans, own, 1 / math.sqrt(width))[:, :, :t, :width].swapaxes(1, 2)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def _attend(
    query: Float[Array, "s n t d"],
    key: Float[Array, "s m t d"],
    value: Float[Array, "s m t d"],
    spans: Spans,
    kernel: Kernel,
    scale: float,
) -> Float[Array, "s n t d"]:
    return _forward(query, key, value, spans, kernel, scale)[0]


def _forward(query: Array, key: Array, value: Array, spans: Spans, kernel: Kernel, scale: float) -> tuple[Array, tuple]:
    found = KERNELS[kernel.platform].forward(
        query, key, value, spans, scale=scale, tiles=kernel.tiles, interpret=kernel.interpret
    )
    summed, log_total = (checkpoint_name(x, blockwise.ATTENDED) for x in found)
    return summed, (query, key, value, spans, summed, log_total)


def _backward(kernel: Kernel, scale: float, kept: tuple, grad: Float[Array, "s n t d"]) -> tuple:
    query, key, value, spans, summed, log_total = kept
    along = jnp.sum(grad.astype(jnp.float32) * summed.astype(jnp.float32), axis=-1)
    grads = KERNELS[kernel.platform].backward(
        *(query, key, value, spans, log_total, grad.astype(value.dtype), along),
        scale=scale,
        tiles=kernel.tiles,
        interpret=kernel.interpret,
    )
    return *grads, jax.tree.map(lambda x: np.zeros(x.shape, jax.dtypes.float0), spans)


_attend.defvjp(_forward, _backward)
