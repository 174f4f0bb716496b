"""The records that pass between stages: problem -> tests -> executions -> DMC-Optim example.

Frozen dataclasses of plain values and arrays, so that they pickle on every runner. Stages return changed copies;
nothing is mutated.
"""

import dataclasses
import enum
from collections.abc import Sequence

from beam_pipelines.matrices import Executions, Timings

# Tags of the two outputs that every source and every stage has.
KEPT = "kept"
REJECTED = "rejected"


class Label(enum.StrEnum):
    """What a source claims of a solution, until execution says otherwise."""

    CORRECT = "correct"
    INCORRECT = "incorrect"


@dataclasses.dataclass(frozen=True)
class Solution:
    """A program with what its source says of it; `language` is the sandbox's name of it."""

    id: str
    program: str
    label: Label
    speed_class: str = ""
    language: str = "python3"


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
    """Source of a program that makes inputs; untrusted, runs in the sandbox only.

    Attributes:
      id: unique in its problem.
      program: Python with a class `InputGenerator`, with a function `generate_input`, or, where there are `commands`, a
        program that prints an input.
      commands: the arguments of such a program, one text for each way of starting it; `{seed}` stands for a number.
      campaign: the round of test generation that it is for; empty for both.
    """

    id: str
    program: str
    commands: tuple[str, ...] = ()
    campaign: str = ""


@dataclasses.dataclass(frozen=True)
class StageCount:
    """What a stage left of a problem: solutions and tests, and what else the stage counted."""

    stage: str
    correct: int
    incorrect: int
    tests: int
    notes: tuple[tuple[str, float], ...] = ()


@dataclasses.dataclass(frozen=True)
class ReviewCase:
    """What a person looks at to judge a decision: a test that went or a label that changed, and who did what on it.

    Attributes:
      stage: the stage that decided.
      reason: `timeouts` or `failures` for a removed test; `fails_test` for a correct solution that leaves,
        `passes_all_tests` for an incorrect one.
      test: origin of the test and the beginning of its input; empty where no single test decides.
      solutions: `id: verdict` of the first solutions concerned.
    """

    stage: str
    reason: str
    test: str
    solutions: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem on its way through the pipeline.

    `category` groups problems for a stratified split ("" puts all in one stratum). `executions` [k, s] belong to
    `tests` and `solutions` while stages decide, `timings` [k, h] to `tests` and to `correct` after the timing stage.
    Problems with the same non-empty `group` are duplicates of each other and stay in one split. `trace` records what
    each stage left. `key` is the place of the record in its source; empty for problems made by hand.
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
    timings: Timings | None = None
    measured_under: tuple[tuple[str, str], ...] = ()
    robust_cv: float = float("nan")
    length_r: float = float("nan")
    split: str = ""
    group: str = ""
    executions: Executions | None = None
    trace: tuple[StageCount, ...] = ()
    key: str = ""
    reviews: tuple[ReviewCase, ...] = ()

    @property
    def executed(self) -> Executions:
        """The executions [k, s]; raises ValueError where no stage ran anything yet."""
        if self.executions is None:
            raise ValueError(f"{self.id}: expected executions")
        return self.executions

    @property
    def timed(self) -> Timings:
        """The timings [k, h]; raises ValueError before the timing stage."""
        if self.timings is None:
            raise ValueError(f"{self.id}: expected timings")
        return self.timings

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
    key: str = ""
    reviews: tuple[ReviewCase, ...] = ()


def with_tests(problem: Problem, kept: Sequence[int]) -> Problem:
    """The problem with the tests of the given indices only, executions and timings along with them."""
    return dataclasses.replace(
        problem,
        tests=tuple(problem.tests[k] for k in kept),
        executions=problem.executions and problem.executions.take(kept, axis=0),
        timings=problem.timings and problem.timings.take(kept, axis=0),
    )


def with_solutions(problem: Problem, kept: Sequence[int]) -> Problem:
    """The problem with the solutions of the given indices only; executions follow, timings must not exist yet."""
    if problem.timings:
        raise ValueError(f"{problem.id}: expected solutions to be chosen before the timing stage")
    return dataclasses.replace(
        problem,
        solutions=tuple(problem.solutions[s] for s in kept),
        executions=problem.executions and problem.executions.take(kept, axis=1),
    )


def rejection_of(problem: Problem, stage: str, *, reason: str, detail: str = "") -> Rejection:
    """The rejection of a problem by a stage, with the trace of what earlier stages had left of it."""
    return Rejection(problem.id, stage, reason, detail, trace=problem.trace, key=problem.key, reviews=problem.reviews)


def count_stage(problem: Problem, stage: str, **notes: float) -> Problem:
    """The problem with one more line in its trace: what this stage left of it."""
    count = StageCount(
        stage=stage,
        correct=len(problem.correct),
        incorrect=len(problem.incorrect),
        tests=len(problem.tests),
        notes=tuple(notes.items()),
    )
    return dataclasses.replace(problem, trace=(*problem.trace, count))
