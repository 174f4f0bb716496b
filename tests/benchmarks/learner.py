"""Figures of the learner: tokens/s of generation and update, what share of the machine that is, memory, and growth.

`python -m tests.benchmarks.learner [--trl=DIR] [--tunix=DIR]` prints one JSON line: on CPU for the model of the
quickstart, on a GPU for the shape of Qwen2.5-1.5B in packed rows of 32,768 tokens. Rates are of the best of a few runs
after compilation; `cpu_s` figures are of processor time, which a busy neighbour disturbs less than wall time. `mfu` is
over the datasheet of a known accelerator and elsewhere over the best matrix product of this call, `bandwidth_share`
likewise. `trl_rollout_ratio` and `tunix_rollout_ratio` compare with other trainers on a tiny model, prompts and
completions having 48 tokens each; a prompt is processed once here, so `..._short_prompts` has prompts of 16 tokens and
completions of 80. They are null where the environment that `tests.benchmarks.rivals.setup` makes is absent. Only a
machine with nothing else to do gives a fair ratio: torch's threads wait for each other by spinning, and suffer from
neighbours many times more than the compiled programs here; `load_at_start` tells.
"""

import argparse
import json
import os
import pathlib
import resource
import time
from collections.abc import Callable

import jax
import numpy as np

from optimrl_jax import arrays
from optimrl_jax.arrays import Rollouts
from optimrl_jax.data.packing import Packed
from optimrl_jax.distributed import sampling_sharding
from optimrl_jax.grpo import rows as rows_lib
from optimrl_jax.grpo.loop import Learner
from optimrl_jax.model import decoder
from optimrl_jax.model.generation import sampling
from optimrl_jax.planning import cost_model
from optimrl_jax.rollout.groups import Group
from optimrl_jax.settings import ComputeSettings, DataSettings, GrpoSettings, ModelSettings, Network, Settings
from tests.benchmarks import machine, model_costs
from tests.benchmarks.rivals import compare, setup

QWEN = ModelSettings(
    width=1536,
    layers=28,
    heads=12,
    kv_heads=2,
    head_width=128,
    mlp_width=8960,
    vocabulary=151_936,
    rope_theta=1e6,
)
IN_BLOCKS = ComputeSettings(dtype="bfloat16", remat="block", attention_block=1024, logits_chunk=512)
LARGE = Settings(
    model=QWEN,
    compute=IN_BLOCKS,
    data=DataSettings(prompt_tokens=512, completion_tokens=7680, row_tokens=32_768, micro_rows=1),
    grpo=GrpoSettings(problems=1, rollouts=16),
)
LEAN = Network(compute=ComputeSettings(attention_block=128, logits_chunk=128, remat="block"))
LOSS_AT_SIZE = {"tokens": 32_768, "vocabulary": 152_064, "width": 64, "chunk": 256}
REPEATS = {"cpu": 5, "gpu": 2}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures generation and update of the learner.")
    for rival, directory in setup.RIVALS.items():
        parser.add_argument(f"--{rival}", type=pathlib.Path, default=directory, help="environment of the comparison")
    flags = parser.parse_args()
    load_at_start = os.getloadavg()[0]
    platform = jax.default_backend()
    is_large = platform == "gpu"
    repeats = REPEATS.get(platform, 2)
    found = rates(LARGE if is_large else Settings(), repeats=repeats)
    lengths = (4096, 8192, 16_384, 32_768) if is_large else (256, 512, 1024, 2048)
    found |= growth(LARGE.network if is_large else LEAN, lengths, repeats=repeats)
    found |= compare.rollout_ratios({rival: getattr(flags, rival) for rival in setup.RIVALS})
    found["loss_memory_share"] = model_costs.loss_memory_share(**LOSS_AT_SIZE)
    about = {"platform": platform, "device": jax.devices()[0].device_kind, "load_at_start": load_at_start}
    print(json.dumps(about | found))


def rates(settings: Settings, *, repeats: int) -> dict[str, float]:
    """Tokens a second of generation and update, what share of the machine they use, and the peak of memory."""
    params = decoder.initial_params(settings.model, arrays.stream_key(0, "parameters"))
    # Actors hold weights in the dtype they compute in: a step reads every one of them.
    narrow = jax.tree.map(lambda x: x.astype(settings.compute.dtype), params)
    completions = generate(narrow, settings)
    rows, steps = completions.tokens.shape
    generate_s, generate_cpu_s = best(lambda: generate(narrow, settings), repeats=repeats)
    learner = Learner(params, settings.network, settings)
    groups = grouped(completions, settings)
    trained = learner.learn(groups)["trained_tokens"]
    update_s, update_cpu_s = best(lambda: learner.learn(groups), repeats=repeats)
    tokens = settings.data.prompt_tokens + steps
    shared, members = rows_lib.prefix_sharing(settings.grpo, settings.data)
    flops = cost_model.update_flops(settings.model, sequences=rows, tokens=tokens, shared=shared, members=members)
    peak = machine.peak(settings.compute.dtype)
    read_bytes = steps * model_costs.decode_bytes(
        settings.network,
        rows=rows,
        own=steps / 2,
        prompts=settings.grpo.problems,
        prompt_tokens=settings.data.prompt_tokens,
    )
    return {
        "generate_tokens_per_s": rows * steps / generate_s,
        "generate_tokens_per_cpu_s": rows * steps / generate_cpu_s,
        "update_tokens_per_s": trained / update_s,
        "update_tokens_per_cpu_s": trained / update_cpu_s,
        "mfu": flops / update_s / peak.flops_per_s,
        "bandwidth_share": read_bytes / generate_s / peak.bytes_per_s,
        "peak_flops_per_s": peak.flops_per_s,
        "peak_bytes_per_s": peak.bytes_per_s,
        "peak_memory_bytes": peak_memory_bytes(),
    }


def generate(
    params: decoder.Params, settings: Settings, *, update: int = 0, end_token: int = -1
) -> sampling.Completions:
    """The rollouts of one update; without an end token, which no row then samples, every row to its last token."""
    grpo, data = settings.grpo, settings.data
    shape = (grpo.problems, data.prompt_tokens)
    keys = sampling.row_keys(arrays.stream_key(0, "rollouts", update), np.arange(grpo.problems * grpo.rollouts))
    prompts, mask, keys = sampling_sharding.shard_rows(
        params, (np.full(shape, 5, np.int32), np.ones(shape, bool), keys)
    )
    found = sampling.generate(
        params,
        settings.network,
        prompts=prompts,
        prompt_mask=mask,
        keys=keys,
        temperature=grpo.temperature,
        samples=grpo.rollouts,
        steps=data.completion_tokens,
        end_token=end_token,
    )
    return jax.tree.map(np.asarray, found)


def grouped(completions: sampling.Completions, settings: Settings) -> list[Group]:
    """The completions as groups with random rewards."""
    grpo, prompt = settings.grpo, settings.data.prompt_tokens
    draw = np.random.default_rng(0)
    before = ((0, 0), (prompt, 0))
    groups = []
    for index in range(grpo.problems):
        span = slice(index * grpo.rollouts, (index + 1) * grpo.rollouts)
        tokens = np.pad(completions.tokens[span], before, constant_values=5)
        is_completion = np.broadcast_to(np.arange(tokens.shape[1]) >= prompt, tokens.shape)
        log_prob = np.pad(completions.log_prob[span], before)
        rollouts = Rollouts(tokens, is_completion, log_prob, np.zeros(grpo.rollouts, np.int32))
        reward = draw.uniform(-1, 1, grpo.rollouts).astype(np.float32)
        judged = np.ones(grpo.rollouts, bool)
        groups.append(Group(rollouts, reward, judged, judged, judged, ~judged, problem=np.int32(index)))
    return groups


def growth(model: Network, lengths: tuple[int, ...], *, repeats: int) -> dict[str, float]:
    """Exponents of time and memory of loss and gradients of one row that holds one sequence, over its length."""
    params = decoder.initial_params(model, arrays.stream_key(0, "parameters"))
    seconds, needed = [], []
    for length in lengths:
        compiled = model_costs.compiled_update(model, rows=1, row_tokens=length)
        rows = jax.device_put(one_sequence(length))
        seconds.append(best(lambda c=compiled, r=rows: jax.block_until_ready(c(params, r)), repeats=repeats)[0])
        needed.append(model_costs.temporary_bytes(compiled))
    return {
        "update_growth_exponent": model_costs.growth_exponent(lengths, seconds),
        "memory_growth_exponent": model_costs.growth_exponent(lengths, needed),
        "memory_bytes_by_row_tokens": dict(zip(map(str, lengths), needed, strict=True)),
    }


def one_sequence(length: int) -> Packed:
    ones = np.ones((1, length), np.int32)
    weight = np.ones((1, length), np.float32)
    per_token = {"weight": weight, "advantage": weight, "log_prob": -weight}
    return Packed(5 * ones, np.arange(length, dtype=np.int32)[None], ones, 0 * ones, per_token)


def peak_memory_bytes() -> int:
    """Of the device where it says so, else of the process."""
    statistics = jax.devices()[0].memory_stats() or {}
    process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return statistics.get("peak_bytes_in_use", process)


def best(call: Callable[[], object], *, repeats: int) -> tuple[float, float]:
    """Least wall seconds and least processor seconds of a few calls."""
    wall_s, cpu_s = [], []
    for _ in range(repeats):
        started = time.perf_counter(), time.process_time()
        call()
        wall_s.append(time.perf_counter() - started[0])
        cpu_s.append(time.process_time() - started[1])
    return min(wall_s), min(cpu_s)


if __name__ == "__main__":
    main()
