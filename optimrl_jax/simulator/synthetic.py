"""Synthetic problems at the paper's scale: 1,000 problems, 119 tests, 128 references, with its spread of durations.

Every problem has a scale; every test a size; every reference a speed and a growth, so that slow and fast solutions
part on large tests, as they do in DMC-Optim. Only shapes and quantiles are borrowed, no measured data.
"""

import numpy as np

from optimrl_jax.arrays import CAP_S, Status, TestKind, Tests
from optimrl_jax.simulator.problems import Problems

# Chosen for the quantiles of the paper (L1919, L2660): median 0.099 s, p90 0.736 s, 7 % of the runs over 1 s.
FLOOR_S = 0.03
SCALE_S = 0.07
PROBLEM_SPREAD = 0.9
SPEED_SPREAD = 0.45
GROWTH = (0.1, 0.9)
NOISE = 0.05


def synthetic(*, problems: int, tests: int, references: int, seed: int) -> Problems:
    """Problems [b, k, h] of optimization tests alone; runs that reach 10 s are recorded timeouts."""
    draw = np.random.default_rng(seed)
    shape = (problems, tests, references)
    size = draw.random((problems, tests, 1), np.float32)
    growth = draw.uniform(*GROWTH, (problems, 1, references)).astype(np.float32)
    speed = draw.normal(0, SPEED_SPREAD, (problems, 1, references)).astype(np.float32)
    scale = draw.normal(0, PROBLEM_SPREAD, (problems, 1, 1)).astype(np.float32)
    noise = NOISE * draw.standard_normal(shape, np.float32)
    # Half a decade above the middle size costs half a decade times the growth: sizes span four decades.
    logarithm = np.log(SCALE_S) + scale + speed + np.log(10) * growth * 2 * (2 * size - 1) + noise
    duration_s = np.minimum(FLOOR_S * np.exp(noise) + np.exp(logarithm), CAP_S).astype(np.float32)
    kind = np.full((problems, tests), TestKind.OPTIMIZATION, np.int32)
    characters = (10 ** (1.0 + 4.5 * size[..., 0])).astype(np.int32)
    status = np.where(duration_s >= CAP_S, Status.TIMEOUT, Status.SUCCESS).astype(np.int32)
    return Problems(Tests(kind, characters, np.ones((problems, tests), bool)), duration_s, status)
