"""Kernels of attention over packed rows against the dense one: values and gradients, imitated and compiled."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from optimrl_jax.distributed import sharding
from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.model import attention, decoder, packed_attention
from optimrl_jax.model.fused import decoding, gpu, packed, spans, tpu
from optimrl_jax.model.generation import sampling
from optimrl_jax.model.kv_cache import KeyValue
from optimrl_jax.planning import targets
from optimrl_jax.planning.compiled_program import read_program
from optimrl_jax.settings import ComputeSettings, MeshSettings
from tests.optimrl_jax.model import tiny
from tests.optimrl_jax.model.packed.rows import arrays_of, dense, packed_layout, value_and_grads

# Two rows with shared prefixes, one empty, single sequences, and padding after them; no tile divides them.
ROWS = [[(6, 4, 3), (0, 5, 4), (7,)], [(9, 1, 12)]]
ROW_TOKENS = 37
KERNELS = {
    "gpu": packed.Kernel("gpu", gpu.Tiles(32, 16), interpret=True),
    "tpu": packed.Kernel("tpu", tpu.Tiles(16, 32), interpret=True),
}


def attend_with(kernel: packed.Kernel):
    def attend(query, key, value, layout, window):
        return packed.attend_fused(query, key, value, layout, kernel=kernel, window=window)

    return attend


@pytest.mark.parametrize(("platform", "window"), [("gpu", 5), ("tpu", 5), ("tpu", attention.NO_WINDOW)])
def test_kernels_equal_dense_attention_with_its_gradients(platform, window):
    layout = packed_layout(ROWS, ROW_TOKENS)
    *inputs, weight = arrays_of(layout, seed=1)
    attend = attend_with(KERNELS[platform])
    (_, found), grads = value_and_grads(*inputs, weight, layout, jnp.int32(window), attend=attend)
    (_, expected), expected_grads = value_and_grads(*inputs, weight, layout, jnp.int32(window), attend=dense)
    is_real = layout.segments > 0
    np.testing.assert_allclose(found[is_real], expected[is_real], rtol=1e-5, atol=2e-6)
    for grad, expected_grad in zip(grads, expected_grads, strict=True):
        np.testing.assert_allclose(grad, expected_grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("remat", ["block", "dots"])
@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_rematerialization_keeps_what_the_forward_kernel_found(platform, remat, capsys):
    layout = packed_layout(ROWS, ROW_TOKENS)
    query, key, value, _ = arrays_of(layout, seed=1)

    def total(query):
        return attend_with(KERNELS[platform])(jnp.sin(query), key, value, layout, 5).sum()

    jax.ad_checkpoint.print_saved_residuals(jax.checkpoint(total, policy=decoder.POLICIES[remat]), query)
    assert capsys.readouterr().out.count("named 'attended'") == 2
    jax.ad_checkpoint.print_saved_residuals(jax.checkpoint(total), query)
    assert "attended" not in capsys.readouterr().out


@pytest.mark.parametrize("window", [attention.NO_WINDOW, 9, 4, 1])
def test_spans_see_what_masks_see_and_tiles_hold_all_of_it(window):
    tokens, held, visited = 64, 8, 16
    layout = packed_layout([[(6, 4, 3), (0, 5, 4), (7,)], [(30, 10, 12)], []], tokens)
    found = spans.find_spans(layout, jnp.int32(window))
    index = jnp.arange(tokens)
    columns = jax.tree.map(lambda part: part[:, :, None], found)
    seen = np.array(spans.sees(columns, index[:, None], index[None]))
    is_real = layout.segments > 0
    mask = np.array(attention.packed_mask(layout, layout, window=window))
    np.testing.assert_array_equal(seen, np.where(is_real[..., None], mask, np.eye(tokens, dtype=bool)))
    last = np.where(seen, np.arange(tokens)[:, None], 0).max(axis=1)
    assert np.all(found.last >= last)
    if window == attention.NO_WINDOW:
        np.testing.assert_array_equal(found.last, last)
    by_queries = spans.find_key_visits(found, held=held, visited=visited)
    by_keys = spans.find_query_visits(found, held=held, visited=visited)
    for row in range(len(seen)):
        needed = seen[row].reshape(tokens // held, held, tokens // visited, visited).any(axis=(1, 3))
        assert np.all(needed <= visited_tiles(by_queries, row, tokens // visited))
        needed = seen[row].T.reshape(tokens // held, held, tokens // visited, visited).any(axis=(1, 3))
        assert np.all(needed <= visited_tiles(by_keys, row, tokens // visited))


def visited_tiles(visits: spans.Visits, row: int, tiles: int) -> np.ndarray:
    found = np.zeros((visits.first.shape[1], tiles), bool)
    for held, (earlier_first, earlier, first, count) in enumerate(zip(*(part[row] for part in visits), strict=True)):
        assert earlier_first + earlier <= first or earlier == 0
        found[held, earlier_first : earlier_first + earlier] = found[held, first : first + count] = True
    return found


def test_pairs_of_tiles_are_those_visited_and_no_others():
    layout = packed_layout([[(8, 8, 8), (8,)], [(32,)]], 32)
    visits = spans.find_key_visits(spans.find_spans(layout, attention.NO_WINDOW), held=8, visited=8)
    pairs = tpu.list_pairs(visits, most=10)
    np.testing.assert_array_equal(pairs.count, [6, 10])
    listed = list(zip(*(np.array(part[0, :6]).tolist() for part in pairs[1:3]), strict=True))
    assert listed == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 2), (3, 3)]
    np.testing.assert_array_equal(pairs.edges[0, :6], [3, 1, 2, 1, 2, 3])
    assert set(np.array(pairs.visited[0, 6:])) == {3}
    assert set(np.array(pairs.edges[0, 6:])) == {0}


def test_kernels_are_refused_where_there_are_none():
    assert packed_attention.fused_kernel(ComputeSettings()) is None
    with pytest.raises(SettingsError, match=r"compute\.attention = 'pallas': expected"):
        packed_attention.fused_kernel(ComputeSettings(attention="pallas"))
    # A dry run that only traces knows no device.
    with sharding.on_mesh(sharding.build_abstract_mesh(MeshSettings(fsdp=2), micro_rows=2)):
        assert packed_attention.fused_kernel(ComputeSettings(attention="pallas")) is None


def skip_without_compiler(target: str) -> None:
    if not targets.has_compiler(target):
        pytest.skip(f"no compiler of {target} here: make compiler TARGET={targets.TARGETS[target].platform}")


@pytest.mark.parametrize(
    ("target", "devices", "width"), [("h100", 1, 128), ("h100", 1, 64), ("tpu-v5p", 8, 128), ("tpu-v6e", 4, 64)]
)
def test_kernels_compile_for_their_target_forwards_and_backwards(target, devices, width):
    skip_without_compiler(target)
    mesh = targets.absent_mesh(target, MeshSettings(fsdp=devices))
    rows = NamedSharding(mesh, PartitionSpec("fsdp"))

    def shape(*dims: int, dtype=jnp.bfloat16) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((devices, *dims), dtype, sharding=rows)

    layout = attention.TokenLayout(*[shape(4096, dtype=jnp.int32)] * 3)
    arrays = shape(4096, 8, width), shape(2, width, 4096), shape(2, 4096, width)
    kernel = packed.Kernel(mesh.abstract_mesh.abstract_device.platform)

    def total(query, key, value, layout):
        summed = packed.attend_fused(jnp.sin(query), key, value, layout, kernel=kernel, window=jnp.int32(999))
        return jnp.sum(summed.astype(jnp.float32))

    kept = jax.checkpoint(total, policy=decoder.POLICIES["block"])
    grads = functools.partial(
        jax.shard_map, mesh=mesh, in_specs=PartitionSpec("fsdp"), out_specs=(PartitionSpec(), PartitionSpec("fsdp"))
    )(jax.value_and_grad(kept, argnums=(0, 1, 2)), check_vma=False)
    found = read_program(jax.jit(grads).lower(*arrays, layout).compile().as_text()).kernels
    names = {name: times for name, times in found.items() if name.startswith("packed_attention")}
    assert names == {f"packed_attention_{part}": 1 for part in ("forward", "query_gradient", "key_gradient")}


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_decoding_kernels_equal_dense_attention_over_the_filled_columns(platform):
    draw = np.random.default_rng(0)
    query = draw.normal(size=(4, 1, 6, 128)).astype(np.float32)
    key, value = draw.normal(size=(2, 4, 2, 1024, 128)).astype(np.float32)
    past = KeyValue(key.swapaxes(2, 3), value)
    # The last row has a window that begins within a tile, and ends in another one.
    filled = attention.FilledColumns(np.array([0, 0, 0, 500]), np.array([1, 700, 1024, 600]))
    assert decoding.fits_kernel(past, platform)
    found = decoding.softmax_over_filled(query, past, filled, platform=platform, interpret=True)
    expected = attention.softmax_over(query, attention.KVBlock(past, filled.mask(1024)))
    for part, expected_part in zip(found, expected, strict=True):
        np.testing.assert_allclose(part, expected_part, rtol=1e-5, atol=1e-5)
    outside = ~np.array(filled.mask(1024))
    changed = KeyValue(np.where(outside[:, :, None], 9, past.key), np.where(outside[..., None], 9, value))
    again = decoding.softmax_over_filled(query, changed, filled, platform=platform, interpret=True)
    jax.tree.map(np.testing.assert_array_equal, found, again)


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_batches_sampled_with_kernels_are_those_sampled_without(platform, monkeypatch):
    monkeypatch.setitem(decoding.COLUMNS, platform, 16)
    settings = dataclasses.replace(
        tiny.SETTINGS, head_width=128, window=5, global_every=2, compute=ComputeSettings(attention_block=8)
    )
    prompts = np.arange(12, dtype=np.int32).reshape(2, 6)
    found = []
    for has_kernels in (False, True):
        if has_kernels:
            as_imitated = functools.partial(decoding.softmax_over_filled, interpret=True)
            monkeypatch.setattr(packed_attention, "kernel_platform", lambda _: platform)
            monkeypatch.setattr(packed_attention, "fused_kernel", lambda _: KERNELS[platform])
            monkeypatch.setattr(decoding, "softmax_over_filled", as_imitated)
        sample = functools.partial(sampling.generate.__wrapped__, settings=settings, samples=2, steps=32, end_token=0)
        found.append(
            jax.jit(sample)(
                tiny.params(settings),
                prompts=prompts,
                prompt_mask=np.arange(6) < np.array([[6], [4]]),
                keys=sampling.row_keys(jax.random.key(0), np.arange(4)),
                temperature=1.0,
            )
        )
    np.testing.assert_array_equal(found[0].tokens, found[1].tokens)
    np.testing.assert_allclose(found[0].log_prob, found[1].log_prob, atol=1e-4)


@pytest.mark.parametrize(("target", "devices"), [("h100", 1), ("tpu-v5p", 8)])
def test_decoding_kernels_compile_for_their_target(target, devices):
    skip_without_compiler(target)
    mesh = targets.absent_mesh(target, MeshSettings(fsdp=devices))
    rows = NamedSharding(mesh, PartitionSpec("fsdp"))

    def shape(*dims: int, dtype=jnp.bfloat16) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((2 * devices, *dims), dtype, sharding=rows)

    def attend(query, past, filled):
        with sharding.on_mesh(mesh):
            return packed_attention.attend_filled(
                query, past, attention.FilledColumns(0 * filled, filled), compute=ComputeSettings(attention="pallas")
            )

    past = KeyValue(shape(2, 128, 4096), shape(2, 4096, 128))
    lowered = jax.jit(attend).lower(shape(1, 12, 128), past, shape(dtype=jnp.int32))
    compiled = lowered.compile()
    assert read_program(compiled.as_text()).kernels["decoding_attention"] == 1
    # No copy of the cache.
    assert compiled.memory_analysis().temp_size_in_bytes < 2**20
