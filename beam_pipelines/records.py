"""The records that pass between stages: problem -> tests -> executions -> DMC-Optim example.

Plain frozen dataclasses, so that they pickle on every runner. Stages return changed copies; nothing is mutated.
"""

import dataclasses
import enum


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
    """`kind` is a value of `optimrl_jax.arrays.TestKind`; `output` is None until a consensus of solutions gives it."""

    __test__ = False

    kind: int
    input: str
    output: str | None


@dataclasses.dataclass(frozen=True)
class Generator:
    """Source of a Python class `InputGenerator` (paper L1400); untrusted, runs in the sandbox only."""

    id: str
    program: str


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

    `category` groups problems for a stratified split ("" puts all in one stratum). `timings[k][h]` belongs to
    `tests[k]` and to the h-th correct solution in `correct`; empty until the timing stage.
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

    @property
    def correct(self) -> tuple[Solution, ...]:
        return tuple(solution for solution in self.solutions if solution.label is Label.CORRECT)

    @property
    def incorrect(self) -> tuple[Solution, ...]:
        return tuple(solution for solution in self.solutions if solution.label is Label.INCORRECT)


@dataclasses.dataclass(frozen=True)
class Rejection:
    """Why a stage let a problem go; goes to the side output and into the stage table."""

    problem_id: str
    stage: str
    reason: str
    detail: str = ""
