"""Bytes that kernels move, worked by hand: slices of what a fusion reads, turns of loops, what is free."""

from optimrl_jax.planning.kernel_traffic import moved_bytes

TEXT = """
HloModule example

%fused (p0: f32[28,4], p1: s32[]) -> f32[4] {
  %p0 = f32[28,4]{1,0} parameter(0)
  %p1 = s32[] parameter(1)
  %cut = f32[1,4]{1,0} dynamic-slice(%p0, %p1, %p1), dynamic_slice_sizes={1,4}
  ROOT %flat = f32[4]{0} bitcast(%cut)
}

%condition (state: (s32[], f32[28,4])) -> pred[] {
  %state = (s32[], f32[28,4]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %n = s32[] constant(32)
  ROOT %goes_on = pred[] compare(%i, %n), direction=LT
}

%body (state: (s32[], f32[28,4])) -> (s32[], f32[28,4]) {
  %state = (s32[], f32[28,4]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %w = f32[28,4]{1,0} get-tuple-element(%state), index=1
  %layer = f32[4]{0} fusion(%w, %i), kind=kLoop, calls=%fused
  ROOT %next = (s32[], f32[28,4]{1,0}) tuple(%i, %w)
}

ENTRY %main (x: bf16[2,4], w: f32[28,4]) -> f32[8] {
  %x = bf16[2,4]{1,0} parameter(0)
  %w = f32[28,4]{1,0} parameter(1)
  %state = (s32[], f32[28,4]{1,0}) tuple(%w)
  %loop = (s32[], f32[28,4]{1,0}) while(%state), condition=%condition, body=%bodyKNOWN
  ROOT %out = f32[8]{0} custom-call(%x), custom_call_target="kernel"
}
"""
# Of 28 layers one is cut out: 16 bytes and the index, 4, are read and 16 written.
LAYER = 16 + 4 + 16
# 2 x 4 bfloat16 are read and 8 float32 written.
KERNEL = 16 + 32


def test_a_fusion_reads_the_slice_that_it_takes_in_every_turn_that_is_stated():
    known = TEXT.replace("KNOWN", ', backend_config={"known_trip_count":{"n":"7"}}')
    assert moved_bytes(known) == 7 * LAYER + KERNEL
    assert moved_bytes(known, takes_constants=False) == 7 * LAYER + KERNEL


def test_a_loop_that_ends_by_the_data_counts_as_its_constant_says_or_once():
    assert moved_bytes(TEXT.replace("KNOWN", "")) == 32 * LAYER + KERNEL
    assert moved_bytes(TEXT.replace("KNOWN", ""), takes_constants=False) == LAYER + KERNEL
