"""Small ragged problems with everything that goes wrong in recorded runs: ties, timeouts, failures, faults, padding."""

import numpy as np

from optimrl_jax.arrays import Execution, References, Status, Tests
from optimrl_jax.simulator.problems import Problems, usable_cells


def problems(seed: int, *, b: int = 3, k: int = 11, h: int = 6) -> Problems:
    """Durations on a coarse grid, so that ties occur; each problem has other numbers of tests and references."""
    draw = np.random.default_rng(seed)
    duration_s = (draw.integers(1, 40, (b, k, h)) * 0.05 * draw.choice([0.1, 1, 6], (b, k, 1))).astype(np.float32)
    bad = [Status.SUCCESS] * 30 + [Status.TIMEOUT, Status.FAILURE, Status.FAULT, Status.NOT_RUN]
    status = np.where(draw.random((b, 1, h)) < 0.5, Status.SUCCESS, draw.choice(bad, (b, k, h))).astype(np.int32)
    status = np.where((status == Status.SUCCESS) & (duration_s >= 10), Status.TIMEOUT, status)
    duration_s = np.where(status == Status.TIMEOUT, 10.0, duration_s).astype(np.float32)
    kind = draw.choice([0, 1, 2, 2, 2], (b, k)).astype(np.int32)
    mask = np.arange(k) < draw.integers(k // 2, k + 1, (b, 1))
    real = mask[..., None] & (np.arange(h) < draw.integers(h // 2, h + 1, (b, 1))[:, None])
    status = np.where(real, status, Status.NOT_RUN).astype(np.int32)
    characters = (10 ** draw.uniform(1, 7, (b, k))).astype(np.int32)
    return Problems(Tests(kind, characters, mask), duration_s, status)


def judged_form(problems: Problems, index: int) -> tuple[Tests, References, Execution]:
    """Problem `index` as `environment.judge` takes it, every reference being a candidate as well."""
    tests = Tests(*(leaf[index] for leaf in problems.tests))
    duration_s, status = problems.duration_s[index], problems.status[index]
    references = References(duration_s, np.zeros_like(duration_s), usable_cells(problems)[index])
    return tests, references, Execution(status.T, np.minimum(duration_s, 10).T)
