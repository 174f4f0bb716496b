"""Small original problem records for tests: the twin of a prepared dataset, built in memory."""

import numpy as np

from optimrl_jax import arrays
from optimrl_jax.data.dataset import ProblemRecord


def record(
    *,
    name: str = "double",
    duration_s: np.ndarray | None = None,
    status: np.ndarray | None = None,
    test_kind: tuple[int, ...] | None = None,
) -> ProblemRecord:
    """A problem "print twice the number" with two correctness and three optimization tests and four references."""
    kinds = test_kind or (0, 1, 2, 2, 2)
    k, h = len(kinds), 4
    seconds = np.tile(np.array([0.01, 0.02, 0.03, 0.04], np.float32), (k, 1)) if duration_s is None else duration_s
    state = np.zeros(seconds.shape, np.int8) if status is None else status
    return ProblemRecord(
        id=f"twin/{name}",
        source="twin",
        category=name,
        statement=f"Read a number and print it {name}.",
        difficulty=1,
        rating=800,
        time_limit_s=2.0,
        memory_limit_bytes=256 << 20,
        checker="lines",
        test_kind=np.asarray(kinds, np.int8),
        test_input=tuple(f"{n}\n" for n in range(k)),
        test_output=tuple(f"{2 * n}\n" for n in range(k)),
        reference_id=tuple(f"r{n}" for n in range(h)),
        reference_program=tuple(f"print(2 * int(input()))  # {n}" for n in range(h)),
        reference_speed_class=("fast",) * h,
        incorrect_program=("print(0)",),
        duration_s=seconds.astype(np.float32),
        std_s=np.zeros(seconds.shape, np.float32),
        runs=np.ones(seconds.shape, np.int32),
        status=state,
        measured_under={"host": "twin"},
        robust_cv=1.0,
        length_r=0.9,
    )


def ragged(seed: int, *, problems: int = 5) -> list[ProblemRecord]:
    """Problems with random durations, some of them unusable, and different numbers of tests."""
    draw = np.random.default_rng(seed)
    found = []
    for index in range(problems):
        kinds = (0, 1, *[int(arrays.TestKind.OPTIMIZATION)] * int(draw.integers(1, 6)))
        shape = (len(kinds), 4)
        status = draw.choice([0, 0, 0, 1, 2], size=shape).astype(np.int8)
        seconds = np.where(status == 1, 10.0, draw.uniform(0.001, 0.1, shape))
        found.append(record(name=f"p{index}", duration_s=seconds, status=status, test_kind=kinds))
    return found
