"""Attention over packed rows and filled caches on the devices that a program is made for: by what, and where it runs.

Stands between the projections of a decoder block. On GPUs and TPUs the kernels of `fused` keep scores on the chip;
elsewhere `blockwise` and `attention` compute the same from the operations that every compiler has.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from optimrl_jax.distributed import sharding
from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.model import attention, blockwise
from optimrl_jax.model.fused import decoding, packed
from optimrl_jax.model.kv_cache import KeyValue
from optimrl_jax.settings import ComputeSettings


def uses_layout(compute: ComputeSettings, *, tokens: int) -> bool:
    """Tell whether attention takes the layout of packed rows; otherwise it takes a mask of all pairs of their tokens.

    Args:
      compute: `attention` and `attention_block`.
      tokens: of a row; one that is no longer than a block is cheapest as a whole.

    Raises:
      SettingsError: if kernels are asked for on a platform that has none.
    """
    return 0 < compute.attention_block < tokens or fused_kernel(compute) is not None


def fused_kernel(compute: ComputeSettings) -> packed.Kernel | None:
    """Return the kernels that attention over packed rows uses in a program traced now, or None where it uses none.

    Args:
      compute: `attention` says which ones are wanted.

    Raises:
      SettingsError: if kernels are asked for on a platform that has none.
    """
    platform = kernel_platform(compute)
    return packed.Kernel(platform) if platform else None


def kernel_platform(compute: ComputeSettings) -> str:
    """Return the platform whose kernels a program traced now uses, or "" where it uses none.

    Args:
      compute: `attention` says which ones are wanted.

    Raises:
      SettingsError: if kernels are asked for on a platform that has none.
    """
    platform = sharding.traced_platform()
    if compute.attention != "blockwise" and platform in packed.KERNELS:
        return platform
    if compute.attention == "pallas" and platform:
        raise SettingsError(f"compute.attention = 'pallas': expected {' or '.join(packed.KERNELS)}, found {platform}")
    return ""


def attend_filled(
    query: Float[Array, "s 1 n d"],
    past: KeyValue,
    filled: attention.FilledColumns,
    *prefixes: attention.KVBlock,
    compute: ComputeSettings,
) -> Float[Array, "s 1 n d"]:
    """Attend with one new token a row over the filled columns of its cache, and over prefixes that rows share.

    A kernel reads the columns. Prefixes are left to the compiler: all rows that share one are a matrix product, which
    reads it once.

    Args:
      query: `[s, 1, n, d]`, not yet divided by sqrt(d).
      past: the cache of one layer, the new token included.
      filled: which of its columns each row sees.
      *prefixes: what neighbouring rows also see.
      compute: `attention`.

    Returns:
      `[s, 1, n, d]` in the type of the values.

    Raises:
      SettingsError: if kernels are asked for on a platform that has none.
    """
    platform = kernel_platform(compute)
    if not platform or not decoding.fits_kernel(past, platform):
        return attention.attend(query, attention.KVBlock(past, filled.mask(past.columns)), *prefixes)
    attend = functools.partial(decoding.softmax_over_filled, platform=platform)
    places = "heads", KeyValue._make(("keys", "values")), attention.FilledColumns._make(("rows", "rows"))
    own = sharding.map_devices(attend, inputs=places, outputs="heads")(query, past, filled)
    found = attention.finish_softmax(own, *(attention.softmax_over(query, prefix) for prefix in prefixes))
    return found.astype(past.value.dtype)


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
