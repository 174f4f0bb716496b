"""Stored evaluation records as padded arrays: what alpha/beta sweeps and the train-by-eval heatmap replay."""

import typing
from collections.abc import Sequence

import numpy as np

from optimrl_jax.arrays import Execution, References, Tests
from optimrl_jax.environment import padding


class IdentifiedRecord(padding.Record, typing.Protocol):
    """A problem record with its identity (`data.dataset.ProblemRecord` is one)."""

    id: str


class StoredSample(typing.Protocol):
    """One stored program (`evaluation.records.SampleRecord` is one)."""

    policy: str
    problem_id: str
    sample: int
    status: np.ndarray
    duration_s: np.ndarray


def stored_problems(
    problems: Sequence[IdentifiedRecord], samples: Sequence[StoredSample], *, policy: str
) -> list[tuple[Tests, References, Execution]]:
    """Collect (tests, references, execution of the policy's samples) of every problem, in order, of one shape.

    Raises ValueError where a problem has no sample of the policy.
    """
    k, h = padding.shape_of(problems)
    by_problem: dict[str, list[StoredSample]] = {}
    for sample in samples:
        if sample.policy == policy:
            by_problem.setdefault(sample.problem_id, []).append(sample)
    found = []
    for problem in problems:
        if problem.id not in by_problem:
            raise ValueError(f"problem {problem.id!r}: expected a stored sample of policy {policy!r}")
        own = sorted(by_problem[problem.id], key=lambda one: one.sample)
        execution = padding.pad_execution(Execution.stack(own), k)
        found.append((padding.pad_tests(problem, k), padding.pad_references(problem, k, h), execution))
    return found
