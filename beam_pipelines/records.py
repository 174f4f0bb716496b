"""The records that pass between stages: problem -> tests -> executions -> DMC-Optim example.

Frozen dataclasses of plain values and arrays, so that they pickle on every runner. Stages return changed copies;
nothing is mutated.
"""

import dataclasses
import enum
import json
from collections.abc import Mapping, Sequence

from beam_pipelines.matrices import Executions, Timings

# Tags of the two outputs that every source and every stage has.
KEPT = "kept"
REJECTED = "rejected"


class Label(enum.StrEnum):
    """The source's claim about a solution, until execution says otherwise."""

    CORRECT = "correct"
    INCORRECT = "incorrect"


@dataclasses.dataclass(frozen=True)
class Solution:
    """A program with what its source says of it.

    Attributes:
      id: unique in its problem.
      program: source text; untrusted, runs in the sandbox only.
      label: correct or incorrect.
      speed_class: `fast`, `medium` or `slow` in the embedded corpus; empty where the source says nothing.
      language: the sandbox's name of its language.
    """

    id: str
    program: str
    label: Label
    speed_class: str = ""
    language: str = "python3"


@dataclasses.dataclass(frozen=True)
class Test:
    """A test: an input and the output that is expected for it.

    Attributes:
      kind: a value of `optimrl_jax.kinds.TestKind`.
      input: standard input.
      output: expected standard output; None until a consensus of solutions gives it.
      origin: public, private or generated for original tests, else the generator's id.
    """

    __test__ = False

    kind: int
    input: str
    output: str | None
    origin: str = ""


@dataclasses.dataclass(frozen=True)
class Generator:
    """A program that makes inputs; untrusted, runs in the sandbox only.

    Attributes:
      id: unique in its problem.
      program: Python with a class `InputGenerator`, with a function `generate_input`, or, where there are `commands`, a
        program in Python, C or C++ that prints an input.
      commands: the arguments of such a program, one text for each way of starting it; `{seed}` stands for a number.
      campaign: the round of test generation that it is for; empty for both.
      language: the sandbox's name of its language.
      files: its further files by name, such as headers.
    """

    id: str
    program: str
    commands: tuple[str, ...] = ()
    campaign: str = ""
    language: str = "python3"
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class StageCount:
    """One line of a problem's trace: what a stage left of it.

    Attributes:
      stage: the stage's name.
      correct: correct solutions left.
      incorrect: incorrect solutions left.
      tests: tests left.
      notes: what else the stage counted or measured, as pairs of name and value.
    """

    stage: str
    correct: int
    incorrect: int
    tests: int
    notes: tuple[tuple[str, float], ...] = ()


@dataclasses.dataclass(frozen=True)
class ReviewCase:
    """What a person needs to judge a decision: a removed test or a changed label, and the verdicts behind it.

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

    Attributes:
      id: source and name; unique in a dataset.
      source: where the problem comes from.
      category: groups problems for a stratified split; "" puts all of them in one stratum.
      statement: text of the problem.
      difficulty: as its source numbers it; 0 for unknown.
      rating: contest rating; 0 for unknown.
      time_limit_s: limit of the contest, seconds; builds run programs under a limit of their own.
      memory_limit_bytes: limit of the contest, bytes.
      solutions: s programs, the h correct ones among them in the order of `correct`.
      tests: k tests.
      generators: input generators for the test campaigns.
      checker: the sandbox's name of the output comparison, or a program that judges outputs as JSON.
      timings: [k, h] of `tests` and `correct`; None before the timing stage.
      measured_under: state of the sandbox under which it was timed, as pairs of name and value.
      robust_cv: interquartile range over median of the optimization tests' durations; NaN before it is known.
      length_r: correlation of characters and durations of these tests; NaN before it is known.
      split: what the stages decided about the split; empty before.
      group: problems with the same non-empty group are duplicates and stay in one split.
      executions: [k, s] of `tests` and `solutions` while stages decide; None before the first run and after timing.
      trace: what each stage left, in order.
      key: place of the record in its source; empty for problems made by hand.
      reviews: decisions that a person may want to look at.
      tags: the source's words for what the problem is about.
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
    tags: tuple[str, ...] = ()

    @property
    def is_judged_by_program(self) -> bool:
        """Whether a program judges outputs, and no comparison."""
        return self.checker.startswith("{")

    @property
    def has_no_answers(self) -> bool:
        """Whether no output answers a test: a program talks to solutions, or makes the input of their next pass."""
        programs = json.loads(self.checker) if self.is_judged_by_program else {}
        return "interactor" in programs or programs.get("passes", 1) > 1

    @property
    def executed(self) -> Executions:
        """The executions [k, s]; raises ValueError where nothing ran yet or timing has dropped them."""
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
        """The solutions labelled correct, in stored order."""
        return tuple(solution for solution in self.solutions if solution.label is Label.CORRECT)

    @property
    def incorrect(self) -> tuple[Solution, ...]:
        """The solutions labelled incorrect, in stored order."""
        return tuple(solution for solution in self.solutions if solution.label is Label.INCORRECT)


@dataclasses.dataclass(frozen=True)
class Rejection:
    """A problem that a stage turned down, as it goes to the side output.

    Attributes:
      problem_id: the problem's id, or the name of a record that never became one.
      stage: the stage that rejected it; `read` for the source.
      reason: one word for the tables.
      detail: what exactly was wrong; may be empty.
      trace: what earlier stages had left of it.
      key: place of the record in its source.
      reviews: decisions that earlier stages made.
    """

    problem_id: str
    stage: str
    reason: str
    detail: str = ""
    trace: tuple[StageCount, ...] = ()
    key: str = ""
    reviews: tuple[ReviewCase, ...] = ()


def with_tests(problem: Problem, kept: Sequence[int]) -> Problem:
    """Keep some tests of a problem, with their executions and timings.

    Args:
      problem: any problem; not changed.
      kept: indices of the tests, in the order of the result.
    """
    return dataclasses.replace(
        problem,
        tests=tuple(problem.tests[k] for k in kept),
        executions=problem.executions and problem.executions.take(kept, axis=0),
        timings=problem.timings and problem.timings.take(kept, axis=0),
    )


def with_solutions(problem: Problem, kept: Sequence[int]) -> Problem:
    """Keep some solutions of a problem, with their executions.

    Args:
      problem: a problem without timings; not changed.
      kept: indices of the solutions, in the order of the result.

    Raises:
      ValueError: the problem is already timed.
    """
    if problem.timings:
        raise ValueError(f"{problem.id}: expected solutions to be chosen before the timing stage")
    return dataclasses.replace(
        problem,
        solutions=tuple(problem.solutions[s] for s in kept),
        executions=problem.executions and problem.executions.take(kept, axis=1),
    )


def rejection_of(problem: Problem, stage: str, *, reason: str, detail: str = "") -> Rejection:
    """Reject a problem in a stage, keeping the trace and reviews of earlier stages.

    Args:
      problem: as the stage received it.
      stage: the stage's name.
      reason: one word for the tables.
      detail: what exactly was wrong.
    """
    return Rejection(problem.id, stage, reason, detail, trace=problem.trace, key=problem.key, reviews=problem.reviews)


def count_stage(problem: Problem, stage: str, **notes: float) -> Problem:
    """Append to a problem's trace what this stage left of it.

    Args:
      problem: as the stage leaves it; not changed.
      stage: the stage's name.
      **notes: further counts and measurements by name.
    """
    count = StageCount(
        stage=stage,
        correct=len(problem.correct),
        incorrect=len(problem.incorrect),
        tests=len(problem.tests),
        notes=tuple(notes.items()),
    )
    return dataclasses.replace(problem, trace=(*problem.trace, count))
