"""What a compiled program sends: counted from its text, and bounded for the update on eight emulated devices."""

import os
import pathlib
import subprocess
import sys

import pytest

from optimrl_jax.planning.compiled_program import read_program

ROOT = pathlib.Path(__file__).parents[3]
TEXT = """
HloModule example

%body (state: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %state = (s32[], f32[8,4]{1,0}) parameter(0)
  %part = f32[8,4]{1,0} get-tuple-element(%state), index=1
  %sum = f32[8,4]{1,0} all-reduce(%part), replica_groups={{0,1}}, to_apply=%add, metadata={op_name="layer/sum"}
  ROOT %next = (s32[], f32[8,4]{1,0}) tuple(%part, %sum)
}

ENTRY %main (x: bf16[2,4]) -> f32[8,4] {
  %x = bf16[2,4]{1,0} parameter(0)
  %started = (bf16[2,4]{1,0}, bf16[4,4]{1,0}) all-gather-start(%x), replica_groups={{0,1}}, dimensions={0}
  %whole = bf16[4,4]{1,0} all-gather-done(%started)
  %moving = (bf16[4,4]{1,0}, bf16[4,4]{1,0}, u32[], u32[]) collective-permute-start(%whole), source_target_pairs={{0,1}}
  %moved = bf16[4,4]{1,0} collective-permute-done(%moving)
  %part = f32[2,4]{1,0} reduce-scatter(%whole), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=%add
  %kernel = f32[8,4]{1,0} custom-call(%part), custom_call_target="__cudnn$fmhaSoftmax"
  %own = f32[8,4] custom-call(%kernel), custom_call_target="tpu_custom_call", metadata={op_name="jvp(own)/pallas_call"}
  %loop = (s32[], f32[8,4]{1,0}) while(%own), body=%body, backend_config={"known_trip_count":{"n":"7"}}
  ROOT %out = f32[8,4]{1,0} get-tuple-element(%loop), index=1
}
"""
UPDATE = """
import dataclasses, sys
import jax, jax.numpy as jnp
from optimrl_jax.distributed import sharding
from optimrl_jax.model import decoder
from optimrl_jax.planning import cost_model, dry_run
from optimrl_jax.planning.compiled_program import read_program
from optimrl_jax.settings import ComputeSettings, DataSettings, GrpoSettings, MeshSettings, ModelSettings, Settings

DATA = DataSettings(prompt_tokens=8, completion_tokens=56, row_tokens=64, micro_rows=8)
MODEL = ModelSettings(layers=3, width=32, heads=4, kv_heads=2, head_width=8, mlp_width=96, vocabulary=128)
COMPUTE = ComputeSettings(remat="block", attention_block=16, logits_chunk=16)
for shape in ((8, 1, 1), (1, 8, 1), (1, 4, 2), (2, 2, 2), (1, 4, 1, 2)):
    own = Settings(
        model=MODEL, compute=COMPUTE, mesh=MeshSettings(*shape), data=DATA, grpo=GrpoSettings(problems=2, rollouts=4)
    )
    planned = dry_run.plan_grpo(own)
    mesh = sharding.build_mesh(own.mesh, micro_rows=8)
    state = cost_model.placed_state(decoder.abstract_params(own.network), planned.optimizer, mesh=mesh)
    batch = cost_model.placed_batch(planned.per_token, DATA, microbatches=2, mesh=mesh)
    lowered = dry_run.lower_update(planned, state, batch, mesh=mesh, model=own.network)
    program = read_program(lowered.compile().as_text())
    # Rows of one device, hidden states or the scores' table: the largest things that have to travel.
    rows = 8 // (shape[0] * shape[1])
    activation, layer = 4 * rows * 64 * 32, 4 * 32 * 96
    for message in program.collectives:
        for _, dims in message.arrays:
            is_of_layers = message.kind == "all-gather" and len(dims) > 2 and dims[0] == MODEL.layers
            # Biases, which are no larger than a few tokens, may be.
            assert not is_of_layers or message.largest_bytes < layer, (shape, message)
        # Microbatches, layers: what is sent in a loop inside of these is sent for every few tokens.
        assert message.loops <= 2, (shape, message)
        if message.loops == 2:
            assert message.largest_bytes <= max(activation, layer), (shape, message)
    if shape[0] == 8:
        assert all(message.loops == 0 for message in program.collectives), shape
print("holds")
"""


def test_messages_are_counted_with_the_turns_of_their_loops():
    program = read_program(TEXT)
    gathered, permuted, scattered, summed = program.collectives
    assert (gathered.kind, gathered.arrays, gathered.loops) == ("all-gather", (("bf16", (4, 4)),), 0)
    assert (permuted.kind, permuted.arrays) == ("collective-permute", (("bf16", (4, 4)),))
    # Four devices keep 2 x 4 each of what all of them send.
    assert (scattered.largest_bytes, scattered.sent_bytes) == (4 * 8 * 4, 4 * 8 * 4)
    assert (summed.times, summed.loops, summed.name) == (7, 1, "layer/sum")
    assert summed.sent_bytes == 2 * 7 * 4 * 8 * 4
    assert program.kernels == {"__cudnn$fmhaSoftmax": 1, "own": 1}


def test_a_text_that_is_no_program_is_refused():
    with pytest.raises(ValueError, match="entry computation"):
        read_program("nothing")


def test_an_update_sends_neither_rows_of_others_nor_all_layers_nor_anything_in_loops_over_tokens():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", UPDATE]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "holds" in done.stdout
