"""A family of problems and its expansion into records: families x operations x forms. Text in, text out. Pure.

Templates are `string.Template` text. A program template may use `$read` and `$fast_read` (the two shared ways of
reading the input), the fragments of its operation, and `$show` (the line that prints the form).
"""

import dataclasses
import string
from collections.abc import Iterator, Mapping

from beam_pipelines.records import Generator, Label, Problem, Solution, Test
from beam_pipelines.sources.mini.answers import Answer
from beam_pipelines.sources.mini.forms import FORMS, OutputForm
from optimrl_jax.kinds import TestKind

SOURCE = "mini"
SPEED_CLASSES = ("fast", "medium", "slow")
TIME_LIMIT_S = 2.0
MEMORY_LIMIT_BYTES = 256 << 20
# With three, most forms met one operation of a family alone, and a policy learned which operation goes with which form
# instead of reading the statement.
FORMS_OF_AN_OPERATION = 6
FORM_STRIDE = 3
# The program whose print line is spoiled to make the incorrect program that only gets the form wrong.
SPOILED = "fast_0"


@dataclasses.dataclass(frozen=True)
class Operation:
    """The part of a problem that varies inside its family.

    Attributes:
      name: unique in its family.
      phrase: how the statement asks for it.
      fragments: texts that program templates of the family use, by name.
      answer: maps the text of an input to the integer that is asked for, without any program.
    """

    name: str
    phrase: str
    fragments: Mapping[str, str]
    answer: Answer


@dataclasses.dataclass(frozen=True)
class ProblemFamily:
    """A statement with a place for an operation and a form, and the programs of each speed class.

    Attributes:
      name: unique in the corpus; the category of its problems.
      statement: template with `$operation` and `$form`.
      operations: what is asked for, one after the other.
      read: program text that reads the input line by line.
      fast_read: program text that reads the same input at once.
      programs: solution id -> template, in the order of the records. Programs named `slow_*` are quadratic, `medium_*`
        do n log n (or a large constant times n) steps in Python, `fast_*` are linear or leave the work to built-in
        functions, `wrong_*` are natural programs with one mistake.
      base_inputs: inputs of the original tests.
      generator: source of the family's `InputGenerator`.
    """

    name: str
    statement: str
    operations: tuple[Operation, ...]
    read: str
    fast_read: str
    programs: Mapping[str, str]
    base_inputs: tuple[str, ...]
    generator: str


def iterate_instances(family: ProblemFamily, position: int) -> Iterator[tuple[Operation, OutputForm]]:
    """Yield the pairs of operation and form that a family ships: six of the eight forms for each operation.

    Consecutive forms, shifted by the family's position in the corpus, so that a family shows every form with several
    operations, and an operation that is held out in one form is trained on in others.

    Args:
      family: the family.
      position: its place in `mini_families()`.
    """
    for slot in range(FORMS_OF_AN_OPERATION * len(family.operations)):
        form = FORMS[(slot + FORM_STRIDE * position) % len(FORMS)]
        yield family.operations[slot // FORMS_OF_AN_OPERATION], form


def expand_family(family: ProblemFamily, position: int) -> tuple[Problem, ...]:
    """Make all problems of a family, as records with base tests, labelled solutions and the generator.

    Args:
      family: the family.
      position: its place in `mini_families()`; decides which forms its operations take.
    """
    return tuple(make_instance(family, operation, form=form) for operation, form in iterate_instances(family, position))


def make_instance(family: ProblemFamily, operation: Operation, *, form: OutputForm) -> Problem:
    """Make the problem that asks for one operation in one form.

    Args:
      family: statement and programs.
      operation: what is asked for; its fragments fill the programs' templates.
      form: how the answer is printed.

    Raises:
      KeyError: a template uses a name that nothing fills.
    """
    return Problem(
        id=f"{SOURCE}/{family.name}/{operation.name}_{form.name}",
        source=SOURCE,
        category=family.name,
        statement=string.Template(family.statement).substitute(operation=operation.phrase, form=form.phrase),
        difficulty=0,
        rating=0,
        time_limit_s=TIME_LIMIT_S,
        memory_limit_bytes=MEMORY_LIMIT_BYTES,
        solutions=tuple(_solutions(family, operation, form=form)),
        tests=tuple(
            Test(int(TestKind.ORIGINAL), text, form.text(operation.answer(text)) + "\n", origin="base")
            for text in family.base_inputs
        ),
        generators=(Generator("inputs", family.generator),),
    )


def _solutions(family: ProblemFamily, operation: Operation, *, form: OutputForm) -> Iterator[Solution]:
    for name in family.programs:
        program = _render(name, family, operation=operation, shown=form.expression)
        speed_class = name.partition("_")[0]
        if speed_class in SPEED_CLASSES:
            yield Solution(name, program, Label.CORRECT, speed_class)
        else:
            yield Solution(name, program, Label.INCORRECT)
    yield Solution("wrong_form", _render(SPOILED, family, operation=operation, shown=form.mistake), Label.INCORRECT)


def _render(name: str, family: ProblemFamily, *, operation: Operation, shown: str) -> str:
    return string.Template(family.programs[name]).substitute(
        operation.fragments, read=family.read, fast_read=family.fast_read, show=f"print({shown})"
    )
