"""How long rewards take: `python -m tests.benchmarks.rewards` prints one JSON line.

`reward_ms` is, for each of the twelve families, the median time from arrays to rewards of the rollouts of one problem
once compiled; `compilations` counts what a whole dataset of ragged problems compiles when padded to
`environment.bounded_shapes`, for the family that uses the most of the code.
"""

import argparse
import functools
import json
import time
from collections.abc import Iterable

import jax
import numpy as np

from optimrl_jax import environment, rewards
from optimrl_jax.arrays import Execution, References, TestKind, Tests

ROLLOUTS, TESTS, REFERENCES = 64, 119, 128
COMPOSITION = "two_gate_graded"
# Tests and references of a problem in the paper's dataset: medians 135 and 66, at most 150 and 3,185 (Table 21).
MEDIAN_REFERENCES, MOST_REFERENCES, MOST_TESTS = 66, 3185, 150


def problem(tests: int, references: int, rollouts: int, *, shape: tuple[int, int], seed: int) -> tuple:
    """(tests, references, execution) of a random problem with all tests kept, padded to `shape`."""
    draw = np.random.default_rng(seed)
    k, h = shape
    is_test, is_reference = np.arange(k) < tests, np.arange(h) < references
    return (
        Tests(np.full(k, TestKind.OPTIMIZATION, np.int32), draw.integers(10, 10**6, k).astype(np.int32), is_test),
        References(
            draw.lognormal(-2, 1, (k, h)).clip(0, 10).astype(np.float32),
            np.zeros((k, h), np.float32),
            is_test[:, None] & is_reference & (draw.random((k, h)) < 0.95),
        ),
        Execution(np.zeros((rollouts, k), np.int32), draw.lognormal(-2, 1, (rollouts, k)).astype(np.float32)),
    )


def median_ms(family: str, arrays: tuple, *, repeats: int) -> float:
    """Median milliseconds of a call once compiled."""
    env = environment.build(family, limit=0.5 if family.startswith(("absolute", "length")) else 30.0)
    shaped = jax.jit(functools.partial(rewards.judge_and_reward, composition=COMPOSITION))
    jax.block_until_ready(shaped(env, *arrays))
    runs_ms = []
    for _ in range(repeats):
        started_s = time.perf_counter()
        jax.block_until_ready(shaped(env, *arrays).reward)
        runs_ms.append(1e3 * (time.perf_counter() - started_s))
    return float(np.median(runs_ms))


def compilations(sizes: list[tuple[int, int]], *, rollouts: int) -> int:
    """Programs compiled to reward one group on each problem of these sizes: JAX traces a function once for each."""
    traced_shapes = []

    @jax.jit
    def shaped(env, tests, references, execution):
        traced_shapes.append(references.duration_s.shape)
        return rewards.judge_and_reward(env, tests, references, execution, composition=COMPOSITION)

    shapes = environment.bounded_shapes(sizes)
    env = environment.build("qp_ranked")
    for seed, size in enumerate(sizes):
        shaped(env, *problem(*size, rollouts, shape=environment.shape_for(size, shapes), seed=seed))
    return len(traced_shapes)


def ragged_sizes(problems: int, *, seed: int) -> list[tuple[int, int]]:
    """Tests and references of that many problems, spread as widely as in the paper's dataset."""
    draw = np.random.default_rng(seed)
    tests = draw.integers(5, MOST_TESTS + 1, problems)
    references = draw.lognormal(np.log(MEDIAN_REFERENCES), 1.0, problems).clip(1, MOST_REFERENCES)
    return [(int(k), int(h)) for k, h in zip(tests, references, strict=True)]


def figures(*, problems: int, repeats: int, families: Iterable[str] = tuple(environment.FAMILIES)) -> dict[str, object]:
    """The benchmark's figures."""
    arrays = problem(TESTS, REFERENCES, ROLLOUTS, shape=(TESTS, REFERENCES), seed=0)
    return {
        "reward_ms": {family: median_ms(family, arrays, repeats=repeats) for family in families},
        "compilations": compilations(ragged_sizes(problems, seed=1), rollouts=8),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=50)
    arguments = parser.parse_args()
    print(json.dumps(figures(problems=arguments.problems, repeats=arguments.repeats)))


if __name__ == "__main__":
    main()
