"""Takes from a study the seconds that its passes measured: programs of each problem on the tests that count."""

import typing
from collections.abc import Sequence

import numpy as np

from optimrl_jax.analysis.study import PolicyRun, Study, TimingRun, is_passing, timed_tests
from optimrl_jax.arrays import Execution, Status
from optimrl_jax.evaluation.records import REFERENCES


class Repeated(typing.NamedTuple):
    """Programs that every one of some passes measured.

    Attributes:
      name: of the policy that wrote them, or `REFERENCES`.
      seconds: `[n, k]` of each problem of each pass; nan where a program did not succeed.
      leaves_out: int`[n]` of each problem: which reference a program is itself; None for programs of a policy.
    """

    name: str
    seconds: list[list[np.ndarray]]
    leaves_out: list[np.ndarray] | None


def reference_cells(study: Study, timing: TimingRun) -> list[np.ndarray]:
    """Collect the references' seconds in a pass, `[k, h]` of each problem; nan where one did not succeed."""
    return [_cells(problem, runs).T for problem, runs in zip(study.problems, timing.references, strict=True)]


def reference_runs(study: Study, timing: TimingRun) -> list[np.ndarray]:
    """Mark the cells that were executed in a pass, bool`[k, h]` of each problem."""
    runs = zip(study.problems, timing.references, strict=True)
    return [(np.asarray(own.status) != Status.NOT_RUN)[:, timed_tests(problem)].T for problem, own in runs]


def stored_cells(study: Study) -> list[np.ndarray]:
    """Collect the stored seconds of the references, `[k, h]` of each problem; nan where there is no success."""
    return [
        np.where(problem.status == Status.SUCCESS, problem.duration_s, np.nan)[timed_tests(problem)].astype(float)
        for problem in study.problems
    ]


def repeated_programs(study: Study, passes: Sequence[TimingRun]) -> list[Repeated]:
    """Find the programs that all passes measured.

    Args:
      study: its policies.
      passes: some of its passes, at least one.

    Returns:
      Policies whose programs are the same texts in every pass, their correct samples alone; then the references.
    """
    found = []
    for policy in (policy for policy in study.policies if policy.timing is passes[0]):
        twins = [_twin(study, policy, timing) for timing in passes]
        if all(twins):
            found.append(Repeated(policy.name, _shared_cells(study, [twin for twin in twins if twin]), None))
    own = [[cells.T for cells in reference_cells(study, timing)] for timing in passes]
    places = [np.arange(len(problem.reference_id)) for problem in study.problems]
    return [*found, Repeated(REFERENCES, own, places)]


def _twin(study: Study, policy: PolicyRun, timing: TimingRun) -> PolicyRun | None:
    twins = (p for p in study.policies if p.timing is timing and p.name == policy.name)
    return next((p for p in twins if p.programs == policy.programs), None)


def _shared_cells(study: Study, twins: Sequence[PolicyRun]) -> list[list[np.ndarray]]:
    """Collect the seconds of the samples that are correct in every pass, `[n, k]` by pass and problem."""
    on = np.all([is_passing(twin) for twin in twins], axis=0)
    return [
        [
            _cells(problem, runs)[on[b]]
            for b, (problem, runs) in enumerate(zip(study.problems, t.executions, strict=True))
        ]
        for t in twins
    ]


def _cells(problem: typing.Any, runs: Execution) -> np.ndarray:
    seconds = np.where(np.asarray(runs.status) == Status.SUCCESS, np.asarray(runs.duration_s, float), np.nan)
    return seconds[:, timed_tests(problem)]
