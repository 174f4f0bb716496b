"""Attention over packed rows on the devices that a program is made for: which implementation, and where it runs.

Stands between the projections of a decoder block. On GPUs and TPUs the kernels of `fused` keep scores on the chip;
elsewhere `blockwise` computes the same from the operations that every compiler has.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from optimrl_jax.distributed import sharding
from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.model import attention, blockwise
from optimrl_jax.model.fused import packed
from optimrl_jax.model.kv_cache import KeyValue
from optimrl_jax.settings import ComputeSettings


def uses_layout(compute: ComputeSettings) -> bool:
    """Tell whether attention takes the layout of packed rows; otherwise it takes a mask of all pairs of their tokens.

    Raises:
      SettingsError: if kernels are asked for on a platform that has none.
    """
    return compute.attention_block > 0 or fused_kernel(compute) is not None


def fused_kernel(compute: ComputeSettings) -> packed.Kernel | None:
    """Return the kernels that attention over packed rows uses in a program traced now, or None where it uses none.

    Args:
      compute: `attention` says which ones are wanted.

    Raises:
      SettingsError: if kernels are asked for on a platform that has none.
    """
    if compute.attention == "blockwise":
        return None
    platform = sharding.traced_platform()
    if platform in packed.KERNELS:
        return packed.Kernel(platform)
    if compute.attention == "pallas":
        known = ", ".join(packed.KERNELS)
        raise SettingsError(f"compute.attention = 'pallas': expected one of {known}, found {platform}")
    return None


def attend_packed(
    query: Float[Array, "s t n d"],
    new: KeyValue,
    layout: attention.TokenLayout,
    *,
    compute: ComputeSettings,
    window: attention.Window | None,
) -> Float[Array, "s t n d"]:
    """Compute what `attention.attend` gives under `attention.packed_mask`, for every token outside padding.

    Each device works on its own rows and heads: nothing is sent between them.

    Args:
      query: `[s, t, n, d]`, not yet divided by sqrt(d).
      new: keys and values of the same tokens.
      layout: where the tokens of the rows stand.
      compute: `attention` and `attention_block`.
      window: positions that a query sees, its own included; None: all.

    Returns:
      `[s, t, n, d]` in the type of the values. Padding gets finite values that mean nothing.

    Raises:
      SettingsError: if kernels are asked for on a platform that has none.
    """
    kernel, reach = fused_kernel(compute), attention.NO_WINDOW if window is None else window

    def attend(
        query: Array, key: Array, value: Array, layout: attention.TokenLayout, window: Array
    ) -> Float[Array, "s t n d"]:
        if kernel is not None:
            return packed.attend_fused(query, key, value, layout, kernel=kernel, window=window)
        return blockwise.attend_blockwise(query, key, value, layout, block=compute.attention_block, window=window)

    places = ("heads", "keys", "values", jax.tree.map(lambda _: "tokens", layout), "everywhere")
    on_own_rows = sharding.map_devices(attend, inputs=places, outputs="heads")
    return on_own_rows(query, new.key, new.value, layout, jnp.asarray(reach, jnp.int32))
