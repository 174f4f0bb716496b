"""The records that pass between stages: problem -> tests -> executions -> DMC-Optim example.

Plain frozen dataclasses, so that they pickle on every runner. Stages return changed copies; nothing is mutated.
"""

import dataclasses
import enum
from collections.abc import Sequence


class Label(enum.StrEnum):
    """What a source claims of a solution, until execution says otherwise."""

    CORRECT = "correct"
    INCORRECT = "incorrect"


@dataclasses.dataclass(frozen=True)
class Solution:
    id: str
    program: str
    label: Label
    speed_class: str = ""


@dataclasses.dataclass(frozen=True)
class Test:
    """`kind` is a value of `optimrl_jax.arrays.TestKind`; `output` is None until a consensus of solutions gives it.

    `origin` says more than the kind: public, private or generated for original tests, else the generator's id.
    """

    __test__ = False

    kind: int
    input: str
    output: str | None
    origin: str = ""


@dataclasses.dataclass(frozen=True)
class Generator:
    """Source of a Python class `InputGenerator` (paper L1400); untrusted, runs in the sandbox only."""

    id: str
    program: str


@dataclasses.dataclass(frozen=True)
class Execution:
    """What one solution did on one test while the dataset was built: a sandbox verdict and its wall seconds."""

    verdict: str
    wall_s: float
    std_s: float = 0.0
    runs: int = 1


@dataclasses.dataclass(frozen=True)
class StageCount:
    """What a stage left of a problem: solutions and tests, and what else the stage counted."""

    stage: str
    correct: int
    incorrect: int
    tests: int
    notes: tuple[tuple[str, float], ...] = ()


@dataclasses.dataclass(frozen=True)
class Timing:
    """Reference durations of one solution on one test: seconds, standard deviation, runs and a Status value."""

    duration_s: float
    std_s: float
    runs: int
    status: int


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem on its way through the pipeline.

    `category` groups problems for a stratified split ("" puts all in one stratum). `executions[k][s]` belongs to
    `tests[k]` and `solutions[s]`, None where a stage had no reason to run that pair. `timings[k][h]` belongs to
    `tests[k]` and to the h-th correct solution in `correct`; empty until the timing stage. Problems with the same
    non-empty `group` are duplicates of each other and stay in one split. `trace` records what each stage left.
    """

    id: str
    source: str
    category: str
    statement: str
    difficulty: int
    rating: int
    time_limit_s: float
    memory_limit_bytes: int
    solutions: tuple[Solution, ...]
    tests: tuple[Test, ...]
    generators: tuple[Generator, ...] = ()
    checker: str = "lines"
    timings: tuple[tuple[Timing, ...], ...] = ()
    measured_under: tuple[tuple[str, str], ...] = ()
    robust_cv: float = float("nan")
    length_r: float = float("nan")
    split: str = ""
    group: str = ""
    executions: tuple[tuple[Execution | None, ...], ...] = ()
    trace: tuple[StageCount, ...] = ()

    @property
    def correct(self) -> tuple[Solution, ...]:
        return tuple(solution for solution in self.solutions if solution.label is Label.CORRECT)

    @property
    def incorrect(self) -> tuple[Solution, ...]:
        return tuple(solution for solution in self.solutions if solution.label is Label.INCORRECT)


@dataclasses.dataclass(frozen=True)
class Rejection:
    """Why a stage let a problem go, and what earlier stages had left of it; goes to the side output."""

    problem_id: str
    stage: str
    reason: str
    detail: str = ""
    trace: tuple[StageCount, ...] = ()


def with_tests(problem: Problem, kept: Sequence[int]) -> Problem:
    """The problem with the tests of the given indices only, executions and timings along with them."""
    return dataclasses.replace(
        problem,
        tests=tuple(problem.tests[k] for k in kept),
        executions=tuple(problem.executions[k] for k in kept) if problem.executions else (),
        timings=tuple(problem.timings[k] for k in kept) if problem.timings else (),
    )


def with_solutions(problem: Problem, kept: Sequence[int]) -> Problem:
    """The problem with the solutions of the given indices only; executions follow, timings must not exist yet."""
    if problem.timings:
        raise ValueError(f"{problem.id}: expected solutions to be chosen before the timing stage")
    return dataclasses.replace(
        problem,
        solutions=tuple(problem.solutions[s] for s in kept),
        executions=tuple(tuple(row[s] for s in kept) for row in problem.executions),
    )
