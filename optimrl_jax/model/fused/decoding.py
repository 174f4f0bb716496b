"""Attention of one new token a row over its cache, as kernels that read the columns that it sees and no others.

A step of decoding then costs what its rows have sampled so far, or what a window leaves of it, not what they have room
for. Keys and values are read once for all query heads that share them; scores never leave the chip.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from optimrl_jax.model import attention
from optimrl_jax.model.kv_cache import KeyValue

# Query heads that share keys are padded to a whole tile of the units that multiply matrices.
LEAST_HEADS = 16
# Programs that keep every processor of a large GPU busy, and columns of a tile, by platform.
PROGRAMS = 512
COLUMNS = {"gpu": 64, "tpu": 512}


def fits_kernel(past: KeyValue, platform: str) -> bool:
    """Tell whether the kernel of a platform takes a cache: whole tiles of columns, head widths that its units take."""
    columns, width = past.value.shape[2:]
    is_whole = width % 128 == 0 if platform == "tpu" else width >= 16 and width & (width - 1) == 0
    return is_whole and columns % COLUMNS[platform] == 0


def softmax_over_filled(
    query: Float[Array, "s 1 n d"],
    past: KeyValue,
    filled: attention.FilledColumns,
    *,
    platform: str,
    interpret: bool = False,
) -> attention.PartialSoftmax:
    """Compute what `attention.softmax_over` gives where each row sees neighbouring columns of its cache.

    Args:
      query: `[s, 1, n, d]`, not yet divided by sqrt(d).
      past: the cache of one layer, for which `fits_kernel` holds.
      filled: which columns each row sees, at least one.
      platform: "gpu" or "tpu".
      interpret: whether the kernel is only imitated, on any platform.
    """
    s, _, n, d = query.shape
    m = past.value.shape[1]
    heads = n // m
    padding = -heads % LEAST_HEADS
    grouped = jnp.pad(query.reshape(s, m, heads, d), ((0, 0), (0, 0), (0, padding), (0, 0)))
    attend = {"gpu": _attend_gpu, "tpu": _attend_tpu}[platform]
    parts = attend(grouped, past, jax.tree.map(lambda x: x.astype(jnp.int32), filled), interpret=interpret)
    return attention.PartialSoftmax(*(part[:, :, :heads].reshape(s, 1, n, -1) for part in parts))


def _attend_gpu(
    query: Float[Array, "s m g d"], past: KeyValue, filled: attention.FilledColumns, *, interpret: bool
) -> tuple[Float[Array, "s m g 1"], Float[Array, "s m g 1"], Float[Array, "s m g d"]]:
    """Give each program a share of a row's columns, and put the shares of a row together at the end."""
    s, m, g, d = query.shape
    columns = past.value.shape[2]
    shares = min(pl.next_power_of_2(pl.cdiv(PROGRAMS, s * m)), 16, columns // COLUMNS["gpu"])
    whole = pl.BlockSpec((None, None, g, d), lambda p, h, r: (r, h, 0, 0))
    numbers = pl.BlockSpec((None, None, None, g), lambda p, h, r: (r, h, p, 0))
    greatest, total, summed = pl.pallas_call(
        functools.partial(_gpu_kernel, scale=math.log2(math.e) / math.sqrt(d)),
        name="decoding_attention",
        grid=(shares, m, s),
        in_specs=[
            whole,
            pl.BlockSpec((None, None, d, columns), lambda p, h, r: (r, h, 0, 0)),
            pl.BlockSpec((None, None, columns, d), lambda p, h, r: (r, h, 0, 0)),
            *[pl.BlockSpec((None,), lambda p, h, r: (r,))] * 2,
        ],
        out_specs=[numbers, numbers, pl.BlockSpec((None, None, None, g, d), lambda p, h, r: (r, h, p, 0, 0))],
        out_shape=[
            jax.ShapeDtypeStruct((s, m, shares, g), jnp.float32),
            jax.ShapeDtypeStruct((s, m, shares, g), jnp.float32),
            jax.ShapeDtypeStruct((s, m, shares, g, d), jnp.float32),
        ],
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=3),
        interpret=interpret,
    )(query, *past, *filled)
    most = greatest.max(axis=2)[..., None]
    weights = jnp.exp2(greatest - most[:, :, None, :, 0])
    total, summed = (total * weights).sum(axis=2)[..., None], (summed * weights[..., None]).sum(axis=2)
    # The kernel's scores are exponents of two.
    return most * math.log(2), total, summed


def _gpu_kernel(query_ref, key_ref, value_ref, start_ref, end_ref, *out_refs, scale: float) -> None:
    greatest_ref, total_ref, summed_ref = out_refs
    tile, query, filled = COLUMNS["gpu"], query_ref[...], (start_ref[...], end_ref[...])
    begin, end = filled[0] // tile, (filled[1] + tile - 1) // tile
    each = (end - begin + pl.num_programs(0) - 1) // pl.num_programs(0)
    first = begin + pl.program_id(0) * each

    def visit(number: Array, running: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        at = pl.ds(number * tile, tile)
        scores = pl.dot(query, key_ref[:, at]) * scale
        return _add_tile(scores, value_ref[at, :], number * tile, filled, running, exponential=jnp.exp2)

    start = jnp.full(query.shape[:1], attention.HIDDEN, jnp.float32)
    zeros = start, jnp.zeros_like(start), jnp.zeros(query.shape, jnp.float32)
    last = jnp.minimum(first + each, end)
    greatest_ref[...], total_ref[...], summed_ref[...] = jax.lax.fori_loop(first, last, visit, zeros)


def _add_tile(
    scores: Array,
    value: Array,
    first: Array,
    filled: tuple[Array, Array],
    running: tuple[Array, Array, Array],
    *,
    exponential: Callable[[Array], Array],
) -> tuple[Array, Array, Array]:
    """Add a tile of columns to the greatest score, the sum of weights and the weighted sum of values."""
    greatest, total, summed = running
    columns = first + jax.lax.broadcasted_iota(jnp.int32, scores.shape, 1)
    scores = jnp.where((columns >= filled[0]) & (columns < filled[1]), scores, attention.HIDDEN)
    new = jnp.maximum(greatest, scores.max(axis=1).reshape(greatest.shape))
    by_row = new.reshape(-1, 1)
    weights, shrink = exponential(scores - by_row), exponential(greatest - new)
    summed = summed * shrink.reshape(-1, 1) + pl.dot(weights.astype(value.dtype), value)
    return new, total * shrink + weights.sum(axis=1).reshape(greatest.shape), summed


def _attend_tpu(
    query: Float[Array, "s m g d"], past: KeyValue, filled: attention.FilledColumns, *, interpret: bool
) -> tuple[Float[Array, "s m g 1"], Float[Array, "s m g 1"], Float[Array, "s m g d"]]:
    """Take the columns of a row tile by tile; what lies outside them is neither loaded nor looked at."""
    s, m, g, d = query.shape
    tile = COLUMNS["tpu"]

    def tile_of(row: Array, number: Array, start_ref: Array, end_ref: Array) -> Array:
        return jnp.minimum(start_ref[row] // tile + number, (end_ref[row] - 1) // tile)

    whole, numbers = (pl.BlockSpec((None, None, g, width), lambda r, h, p, *_: (r, h, 0, 0)) for width in (d, 1))
    shape, shape_of_numbers = (jax.ShapeDtypeStruct((s, m, g, width), jnp.float32) for width in (d, 1))
    return pl.pallas_call(
        functools.partial(_tpu_kernel, scale=1 / math.sqrt(d)),
        name="decoding_attention",
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(s, m, ((filled.end - 1) // tile - filled.start // tile).max() + 1),
            in_specs=[
                whole,
                pl.BlockSpec((None, None, d, tile), lambda r, h, p, *filled: (r, h, 0, tile_of(r, p, *filled))),
                pl.BlockSpec((None, None, tile, d), lambda r, h, p, *filled: (r, h, tile_of(r, p, *filled), 0)),
            ],
            out_specs=[numbers, numbers, whole],
        ),
        out_shape=[shape_of_numbers, shape_of_numbers, shape],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
        interpret=interpret,
    )(*filled, query, *past)


def _tpu_kernel(start_ref, end_ref, query_ref, key_ref, value_ref, *running_refs, scale: float) -> None:
    row, number = pl.program_id(0), pl.program_id(2)
    filled = start_ref[row], end_ref[row]
    first = (filled[0] // COLUMNS["tpu"] + number) * COLUMNS["tpu"]

    @pl.when(number == 0)
    def _start() -> None:
        for ref, value in zip(running_refs, (attention.HIDDEN, 0.0, 0.0), strict=True):
            ref[...] = jnp.full(ref.shape, value, jnp.float32)

    @pl.when(first < filled[1])
    def _visit() -> None:
        scores = pl.dot(query_ref[...], key_ref[...]) * scale
        running = tuple(ref[...] for ref in running_refs)
        for ref, value in zip(
            running_refs, _add_tile(scores, value_ref[...], first, filled, running, exponential=jnp.exp), strict=True
        ):
            ref[...] = value
