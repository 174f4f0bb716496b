"""Figures of the learner at the size of the quickstart: tokens/s of generation and of the update, and peak memory.

`python -m tests.benchmarks.learner` prints one JSON line. Rates are of the best of five runs after compilation;
`cpu_s` figures are seconds of processor time, which a busy neighbour disturbs less than wall time.
"""

import json
import resource
import time
from collections.abc import Callable

import jax
import numpy as np

from optimrl_jax.arrays import Rollouts
from optimrl_jax.learner import streams
from optimrl_jax.learner.learner import Learner
from optimrl_jax.learner.queue import Group
from optimrl_jax.model import decoder, sampling
from optimrl_jax.settings import Settings

REPEATS = 5
SETTINGS = Settings()


def main() -> None:
    params = decoder.initial(SETTINGS.model, streams.key(0, "parameters"))
    completions = generate(params)
    rows, steps = completions.tokens.shape
    generate_s, generate_cpu_s = best(lambda: generate(params))
    learner = Learner(params, SETTINGS.model, SETTINGS)
    groups = grouped(completions)
    trained = learner.learn(groups)["trained_tokens"]
    update_s, update_cpu_s = best(lambda: learner.learn(groups))
    figures = {
        "platform": jax.default_backend(),
        "generate_tokens_per_s": rows * steps / generate_s,
        "generate_tokens_per_cpu_s": rows * steps / generate_cpu_s,
        "update_tokens_per_s": trained / update_s,
        "update_tokens_per_cpu_s": trained / update_cpu_s,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(figures))


def generate(params: decoder.Params) -> sampling.Completions:
    """One step's rollouts, every row to its last token: the end token here is one that no row samples."""
    grpo, data = SETTINGS.grpo, SETTINGS.data
    shape = (grpo.problems, data.prompt_tokens)
    found = sampling.generate(
        params,
        SETTINGS.model,
        prompts=np.full(shape, 5, np.int32),
        prompt_mask=np.ones(shape, bool),
        keys=sampling.row_keys(streams.key(0, "rollouts"), np.arange(grpo.problems * grpo.rollouts)),
        temperature=grpo.temperature,
        samples=grpo.rollouts,
        steps=data.completion_tokens,
        end_token=-1,
    )
    return jax.tree.map(np.asarray, found)


def grouped(completions: sampling.Completions) -> list[Group]:
    """The completions as groups with random rewards."""
    grpo, prompt = SETTINGS.grpo, SETTINGS.data.prompt_tokens
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
        groups.append(Group(rollouts, reward, judged, judged, judged, problem=np.int32(index)))
    return groups


def best(call: Callable[[], object]) -> tuple[float, float]:
    """Least wall seconds and least processor seconds of a few calls."""
    wall_s, cpu_s = [], []
    for _ in range(REPEATS):
        started = time.perf_counter(), time.process_time()
        call()
        wall_s.append(time.perf_counter() - started[0])
        cpu_s.append(time.process_time() - started[1])
    return min(wall_s), min(cpu_s)


if __name__ == "__main__":
    main()
