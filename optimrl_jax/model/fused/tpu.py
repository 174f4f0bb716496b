"""Kernels of attention over packed rows for TPUs, in Pallas with Mosaic.

The grid of a kernel is a list of pairs of tiles, made from what the tokens of a row see: pairs in which no query sees a
key are not in it and cost neither time nor traffic. Sums stay in the chip's vector memory from the first pair of a tile
to its last. Scores are transposed, keys first: what belongs to a query lies along lanes, where its sums are made.
"""

import functools
import typing

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int

from optimrl_jax.model import attention
from optimrl_jax.model.fused.spans import Spans, Visits, find_key_visits, find_query_visits, sees

LANES = 128
# Of the chip's vector memory, what a kernel may take: tiles of scores are the most of it.
VECTOR_MEMORY_BYTES = 64 * 2**20
FIRST, LAST = 1, 2


class Tiles(typing.NamedTuple):
    """Sizes of the kernels' tiles: multiples of 128 that divide a row.

    Attributes:
      queries: of a tile.
      keys: of a tile.
    """

    queries: int
    keys: int


def tiles_of(tokens: int, feature_bytes: int) -> Tiles:
    """Return the tiles for rows and heads of a size: large ones, so that a pair is worth its start.

    Args:
      tokens: of a row.
      feature_bytes: of one token and head.
    """
    size = min(2**18 // feature_bytes, -(-tokens // LANES) * LANES)
    return Tiles(size, size)


def padded_width(width: int) -> int:
    """Return the head width that the kernels take: whole lanes."""
    return -(-width // LANES) * LANES


class Pairs(typing.NamedTuple):
    """The pairs of tiles that a kernel works on, one after another; those of one held tile are neighbours.

    Attributes:
      count: `[s]` pairs of each row; what follows them in the lists repeats the last held tile.
      held: `[s, pairs]` numbers of the held tiles, rising.
      visited: `[s, pairs]` numbers of the tiles that they visit.
      edges: `[s, pairs]` FIRST where a held tile's pairs begin, plus LAST where they end.
    """

    count: Int[Array, " s"]
    held: Int[Array, "s pairs"]
    visited: Int[Array, "s pairs"]
    edges: Int[Array, "s pairs"]


def list_pairs(visits: Visits, *, most: int) -> Pairs:
    """List the pairs of tiles of each row.

    Args:
      visits: the tiles that each held tile visits.
      most: pairs of a row, at most.
    """

    def of_row(visits: Visits) -> Pairs:
        numbers = visits.earlier + visits.count
        ends = jnp.cumsum(numbers)
        index = jnp.arange(most)
        held = jnp.repeat(jnp.arange(len(numbers)), numbers, total_repeat_length=most)
        number = index - (ends - numbers)[held]
        is_earlier = number < visits.earlier[held]
        start = jnp.where(is_earlier, visits.earlier_first[held], (visits.first - visits.earlier)[held])
        edges = FIRST * (number == 0) + LAST * (index == ends[held] - 1)
        # Beyond the last pair nothing new is loaded.
        visited = jnp.where(index < ends[-1], start + number, visits.first[-1] + visits.count[-1] - 1)
        return Pairs(*(x.astype(jnp.int32) for x in (ends[-1], held, visited, edges)))

    return jax.vmap(of_row)(visits)


def forward(
    query: Float[Array, "s n t d"],
    key: Float[Array, "s m t d"],
    value: Float[Array, "s m t d"],
    spans: Spans,
    *,
    scale: float,
    tiles: Tiles,
    interpret: bool,
) -> tuple[Float[Array, "s n t d"], Float[Array, "s n t"]]:
    """Attend with n query heads that share m key heads.

    Args:
      query: `[s, n, t, d]`; the head width fills whole lanes, as for the next two.
      key: `[s, m, t, d]`.
      value: `[s, m, t, d]`.
      spans: what each token sees.
      scale: factor of scores.
      tiles: sizes of the kernel's tiles.
      interpret: whether the kernel is only imitated, on any platform.

    Returns:
      `[s, n, t, d]` in the type of the values, and the logarithm of each query's sum of weights `[s, n, t]`.
    """
    s, n, t, d = query.shape
    pairs = list_pairs(find_key_visits(spans, held=tiles.queries, visited=tiles.keys), most=_most_pairs(t, tiles))
    places = _Places(n // key.shape[1], tiles, d)
    numbers = pltpu.VMEM((1, tiles.queries), jnp.float32)
    out, total = _call(
        functools.partial(_forward_kernel, scale=scale, tiles=tiles),
        name="packed_attention_forward",
        grid=(s, n, jnp.max(pairs.count)),
        pairs=pairs,
        inputs=(places.queries, places.keys, places.keys, places.spans),
        outputs=(places.queries, places.numbers),
        shapes=[jax.ShapeDtypeStruct(query.shape, value.dtype), jax.ShapeDtypeStruct((s, n, 1, t), jnp.float32)],
        scratch=[numbers, numbers, pltpu.VMEM((d, tiles.queries), jnp.float32)],
        interpret=interpret,
    )(query, key, value, _stack(spans))
    return out, total[:, :, 0]


def backward(
    query: Float[Array, "s n t d"],
    key: Float[Array, "s m t d"],
    value: Float[Array, "s m t d"],
    spans: Spans,
    log_total: Float[Array, "s n t"],
    grad: Float[Array, "s n t d"],
    along: Float[Array, "s n t"],
    *,
    scale: float,
    tiles: Tiles,
    interpret: bool,
) -> tuple[Float[Array, "s n t d"], Float[Array, "s m t d"], Float[Array, "s m t d"]]:
    """Return the gradients of queries, keys and values.

    Args:
      query: as for `forward`, and so the next three.
      key: `[s, m, t, d]`.
      value: `[s, m, t, d]`.
      spans: what each token sees.
      log_total: as `forward` returned it.
      grad: gradient of what `forward` returned.
      along: product of `grad` with what `forward` returned, summed over features.
      scale: factor of scores.
      tiles: sizes of the kernel's tiles.
      interpret: whether the kernel is only imitated.
    """
    s, n, t, d = query.shape
    m = key.shape[1]
    most, places = _most_pairs(t, tiles), _Places(n // m, tiles, d)
    inputs = query, key, value, _stack(spans), log_total[:, :, None], grad, along[:, :, None]
    pairs = list_pairs(find_key_visits(spans, held=tiles.queries, visited=tiles.keys), most=most)
    query_grad = _call(
        functools.partial(_query_grad_kernel, scale=scale, tiles=tiles),
        name="packed_attention_query_gradient",
        grid=(s, n, jnp.max(pairs.count)),
        pairs=pairs,
        inputs=_gradient_inputs(places),
        outputs=places.queries,
        shapes=jax.ShapeDtypeStruct(query.shape, query.dtype),
        scratch=[pltpu.VMEM((d, tiles.queries), jnp.float32)],
        interpret=interpret,
    )(*inputs)
    pairs = list_pairs(find_query_visits(spans, held=tiles.keys, visited=tiles.queries), most=most)
    of_keys = _KeyPlaces(n // m, tiles, d)
    sums = pltpu.VMEM((tiles.keys, d), jnp.float32)
    key_grad, value_grad = _call(
        functools.partial(_key_grad_kernel, scale=scale, tiles=tiles),
        name="packed_attention_key_gradient",
        grid=(s, m, jnp.max(pairs.count), n // m),
        pairs=pairs,
        inputs=_gradient_inputs(of_keys),
        outputs=(of_keys.keys, of_keys.keys),
        shapes=[jax.ShapeDtypeStruct(key.shape, key.dtype), jax.ShapeDtypeStruct(value.shape, value.dtype)],
        scratch=[sums, sums],
        interpret=interpret,
    )(*inputs)
    return query_grad, key_grad, value_grad


def _gradient_inputs(places: "_Places | _KeyPlaces") -> tuple[pl.BlockSpec, ...]:
    """Place queries, keys, values, spans, totals, the gradient and its product with what was found."""
    return (
        *(places.queries, places.keys, places.keys, places.spans),
        *(places.numbers, places.queries, places.numbers),
    )


def _most_pairs(tokens: int, tiles: Tiles) -> int:
    """Count the pairs of a row that is one long sequence, which sees the most."""
    queries, keys = tokens // tiles.queries, tokens // tiles.keys
    return sum(-(-(i + 1) * tiles.queries // tiles.keys) for i in range(queries)) if keys else 1


class _Places:
    """Which tile of each array a step of the grid (row, head, pair) of queries sees."""

    def __init__(self, group: int, tiles: Tiles, width: int) -> None:
        self.queries = pl.BlockSpec(
            (None, None, tiles.queries, width), lambda r, h, p, c, held, *_: (r, h, held[r, p], 0)
        )
        self.keys = pl.BlockSpec(
            (None, None, tiles.keys, width), lambda r, h, p, c, held, visited, _: (r, h // group, visited[r, p], 0)
        )
        self.numbers = pl.BlockSpec((None, None, 1, tiles.queries), lambda r, h, p, c, held, *_: (r, h, 0, held[r, p]))
        self.spans = pl.BlockSpec((None, 3, tiles.queries), lambda r, h, p, c, held, *_: (r, 0, held[r, p]))


class _KeyPlaces:
    """Which tile of each array a step of the grid (row, key head, pair, query head of the group) of keys sees."""

    def __init__(self, group: int, tiles: Tiles, width: int) -> None:
        self.queries = pl.BlockSpec(
            (None, None, tiles.queries, width),
            lambda r, h, p, g, c, held, visited, _: (r, h * group + g, visited[r, p], 0),
        )
        self.keys = pl.BlockSpec((None, None, tiles.keys, width), lambda r, h, p, g, c, held, *_: (r, h, held[r, p], 0))
        self.numbers = pl.BlockSpec(
            (None, None, 1, tiles.queries),
            lambda r, h, p, g, c, held, visited, _: (r, h * group + g, 0, visited[r, p]),
        )
        self.spans = pl.BlockSpec(
            (None, 3, tiles.queries), lambda r, h, p, g, c, held, visited, _: (r, 0, visited[r, p])
        )


def _call(
    kernel: typing.Callable[..., None],
    *,
    name: str,
    grid: tuple,
    pairs: Pairs,
    inputs: tuple,
    outputs: typing.Any,
    shapes: typing.Any,
    scratch: list,
    interpret: bool,
) -> typing.Callable[..., typing.Any]:
    """Return a kernel over pairs of tiles, as a function of its arrays alone."""
    of_pairs = pl.pallas_call(
        kernel,
        name=name,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=len(pairs), grid=grid, in_specs=inputs, out_specs=outputs, scratch_shapes=scratch
        ),
        out_shape=shapes,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", *("arbitrary",) * (len(grid) - 2)),
            vmem_limit_bytes=VECTOR_MEMORY_BYTES,
        ),
        interpret=interpret,
    )
    return functools.partial(of_pairs, *pairs)


def _stack(spans: Spans) -> Int[Array, "s 3 t"]:
    return jnp.stack(spans[:3], axis=1).astype(jnp.int32)


def _product(left: Array, right: Array, *, left_axis: int, right_axis: int) -> Array:
    contracted = ((left_axis,), (right_axis,)), ((), ())
    return jax.lax.dot_general(left, right, contracted, preferred_element_type=jnp.float32)


def _scores(
    query: Array, key: Array, span: Array, query_tile: Array, key_tile: Array, *, scale: float, tiles: Tiles
) -> Array:
    """Return the scores of a pair of tiles, [keys, queries], hidden ones at -1e30."""
    scores = _product(key, query, left_axis=1, right_axis=1) * scale
    shape = tiles.keys, tiles.queries
    keys = key_tile * tiles.keys + jax.lax.broadcasted_iota(jnp.int32, shape, 0)
    queries = query_tile * tiles.queries + jax.lax.broadcasted_iota(jnp.int32, shape, 1)
    seen = sees(Spans(span[0:1], span[1:2], span[2:3], last=queries), queries, keys)
    return jnp.where(seen, scores, attention.HIDDEN)


def _forward_kernel(
    count_ref, held_ref, visited_ref, edges_ref, query_ref, key_ref, value_ref, span_ref, out_ref, log_total_ref,
    greatest_ref, total_ref, summed_ref, *, scale: float, tiles: Tiles,
) -> None:  # fmt: skip
    row, pair = pl.program_id(0), pl.program_id(2)
    edges = edges_ref[row, pair]

    @pl.when(edges & FIRST > 0)
    def _start() -> None:
        greatest_ref[...] = jnp.full(greatest_ref.shape, attention.HIDDEN, jnp.float32)
        total_ref[...] = jnp.zeros(total_ref.shape, jnp.float32)
        summed_ref[...] = jnp.zeros(summed_ref.shape, jnp.float32)

    @pl.when(pair < count_ref[row])
    def _visit() -> None:
        scores = _scores(
            query_ref[...], key_ref[...], span_ref[...], held_ref[row, pair], visited_ref[row, pair],
            scale=scale, tiles=tiles,
        )  # fmt: skip
        old, value = greatest_ref[...], value_ref[...]
        greatest = jnp.maximum(old, scores.max(axis=0, keepdims=True))
        weights, shrink = jnp.exp(scores - greatest), jnp.exp(old - greatest)
        greatest_ref[...] = greatest
        total_ref[...] = total_ref[...] * shrink + weights.sum(axis=0, keepdims=True)
        summed = _product(value, weights.astype(value.dtype), left_axis=0, right_axis=0)
        summed_ref[...] = summed_ref[...] * shrink + summed

    @pl.when(edges & LAST > 0)
    def _finish() -> None:
        out_ref[...] = (summed_ref[...] / total_ref[...]).T.astype(out_ref.dtype)
        log_total_ref[...] = greatest_ref[...] + jnp.log(total_ref[...])


def _query_grad_kernel(
    count_ref, held_ref, visited_ref, edges_ref, query_ref, key_ref, value_ref, span_ref, log_total_ref, grad_ref,
    along_ref, query_grad_ref, sum_ref, *, scale: float, tiles: Tiles,
) -> None:  # fmt: skip
    row, pair = pl.program_id(0), pl.program_id(2)
    edges = edges_ref[row, pair]

    @pl.when(edges & FIRST > 0)
    def _start() -> None:
        sum_ref[...] = jnp.zeros(sum_ref.shape, jnp.float32)

    @pl.when(pair < count_ref[row])
    def _visit() -> None:
        key = key_ref[...]
        scores = _scores(
            query_ref[...], key, span_ref[...], held_ref[row, pair], visited_ref[row, pair], scale=scale, tiles=tiles
        )
        pulled = _product(value_ref[...], grad_ref[...], left_axis=1, right_axis=1)
        scores_grad = jnp.exp(scores - log_total_ref[...]) * (pulled - along_ref[...])
        sum_ref[...] += _product(key, scores_grad.astype(key.dtype), left_axis=0, right_axis=0)

    @pl.when(edges & LAST > 0)
    def _finish() -> None:
        query_grad_ref[...] = (sum_ref[...] * scale).T.astype(query_grad_ref.dtype)


def _key_grad_kernel(
    count_ref, held_ref, visited_ref, edges_ref, query_ref, key_ref, value_ref, span_ref, log_total_ref, grad_ref,
    along_ref, key_grad_ref, value_grad_ref, key_sum_ref, value_sum_ref, *, scale: float, tiles: Tiles,
) -> None:  # fmt: skip
    row, pair, head = pl.program_id(0), pl.program_id(2), pl.program_id(3)
    edges = edges_ref[row, pair]

    @pl.when((edges & FIRST > 0) & (head == 0))
    def _start() -> None:
        key_sum_ref[...] = jnp.zeros(key_sum_ref.shape, jnp.float32)
        value_sum_ref[...] = jnp.zeros(value_sum_ref.shape, jnp.float32)

    @pl.when(pair < count_ref[row])
    def _visit() -> None:
        query, grad = query_ref[...], grad_ref[...]
        scores = _scores(
            query, key_ref[...], span_ref[...], visited_ref[row, pair], held_ref[row, pair], scale=scale, tiles=tiles
        )
        weights = jnp.exp(scores - log_total_ref[...])
        value_sum_ref[...] += _product(weights.astype(grad.dtype), grad, left_axis=1, right_axis=0)
        pulled = _product(value_ref[...], grad, left_axis=1, right_axis=1)
        scores_grad = weights * (pulled - along_ref[...])
        key_sum_ref[...] += _product(scores_grad.astype(query.dtype), query, left_axis=1, right_axis=0)

    @pl.when((edges & LAST > 0) & (head == pl.num_programs(3) - 1))
    def _finish() -> None:
        key_grad_ref[...] = (key_sum_ref[...] * scale).astype(key_grad_ref.dtype)
        value_grad_ref[...] = value_sum_ref[...].astype(value_grad_ref.dtype)
