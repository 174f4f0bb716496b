"""Continuous batching against batches sampled at once, on completions of very uneven length, as one JSON line.

`python -m tests.benchmarks.generation` samples the same rollouts each way, round by round in turn, and prints
`rollout_ratio`, the median over rounds of rollouts a second with refilled slots over those of batches with as many
rows, and `rollout_ratio_one_batch`, the same against one batch of all rollouts. Lengths are close to geometric: the end
token has the same score everywhere, and the longest completion allowed is 16 times the mean.
"""

import json
import statistics
import time
from collections.abc import Callable

import jax
import numpy as np

from optimrl_jax import arrays
from optimrl_jax.model import decoder
from optimrl_jax.model.generation import continuous, sampling
from optimrl_jax.settings import Network

END = 1
MEAN_TOKENS = 32
MODEL = Network(
    width=256, layers=6, heads=8, kv_heads=2, head_width=32, mlp_width=704, vocabulary=MEAN_TOKENS, has_qkv_bias=False
)
PROMPTS, SAMPLES = 8, 32
PLAN = continuous.SlotPlan(slots=32, prompt_tokens=16, steps=16 * MEAN_TOKENS)
ROUNDS = 3


def main() -> None:
    print(json.dumps(figures()))


def figures() -> dict[str, object]:
    """Every figure of the benchmark; raises AssertionError where both ways sample different tokens."""
    params = decoder.initial_params(MODEL, arrays.stream_key(0, "parameters"))
    params["embedding"] = params["embedding"].at[END].set(0.0)
    keys = sampling.row_keys(arrays.stream_key(0, "rollouts"), np.arange(PROMPTS * SAMPLES))
    prompts = np.random.default_rng(0).integers(2, MODEL.vocabulary, (PROMPTS, PLAN.prompt_tokens)).astype(np.int32)
    ways = {
        "continuous": lambda: refilled(params, prompts, keys),
        "batches": lambda: at_once(params, prompts, keys, prompts_at_once=PLAN.slots // SAMPLES),
        "one_batch": lambda: at_once(params, prompts, keys, prompts_at_once=PROMPTS),
    }
    found = {name: call() for name, call in ways.items()}
    walls_s = [{name: seconds(call) for name, call in ways.items()} for _ in range(ROUNDS)]
    lengths = found["continuous"].length
    for name in ("batches", "one_batch"):
        np.testing.assert_array_equal(found["continuous"].tokens, found[name].tokens)
    ratios = {name: [wall_s[name] / wall_s["continuous"] for wall_s in walls_s] for name in ("batches", "one_batch")}
    return {
        "platform": jax.default_backend(),
        "mean_tokens": float(lengths.mean()),
        "longest_tokens": int(lengths.max()),
        "rollouts_per_s": {name: len(lengths) / min(wall_s[name] for wall_s in walls_s) for name in ways},
        "rollout_ratio": statistics.median(ratios["batches"]),
        "rollout_ratio_one_batch": statistics.median(ratios["one_batch"]),
        "rollout_ratios": ratios["batches"],
        "log_prob_difference": float(np.abs(found["continuous"].log_prob - found["batches"].log_prob).max()),
    }


def refilled(params: decoder.Params, prompts: np.ndarray, keys: jax.Array) -> sampling.Completions:
    """All rollouts through the slots."""
    asked = map(continuous.SampleRequest, prompts, keys.reshape(len(prompts), SAMPLES))
    finished = continuous.stream_rollouts(params, MODEL, asked, plan=PLAN, temperature=1.0, end_token=END)
    return continuous.gather_completions(finished, samples=SAMPLES, rows=len(keys), steps=PLAN.steps)


def at_once(
    params: decoder.Params, prompts: np.ndarray, keys: jax.Array, *, prompts_at_once: int
) -> sampling.Completions:
    """All rollouts in batches that end with their longest one."""
    batches = []
    for start in range(0, len(prompts), prompts_at_once):
        own = prompts[start : start + prompts_at_once]
        batch = sampling.generate(
            params,
            MODEL,
            prompts=own,
            prompt_mask=np.ones(own.shape, bool),
            keys=keys[start * SAMPLES : (start + prompts_at_once) * SAMPLES],
            temperature=1.0,
            samples=SAMPLES,
            steps=PLAN.steps,
            end_token=END,
        )
        batches.append(jax.tree.map(np.asarray, batch))
    return jax.tree.map(lambda *parts: np.concatenate(parts), *batches)


def seconds(call: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    call()
    return time.perf_counter() - started_s


if __name__ == "__main__":
    main()
