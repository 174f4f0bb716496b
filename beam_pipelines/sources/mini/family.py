"""A family of problems and its expansion into records: families x operations x forms, all text, nothing executed.

Templates are `string.Template` text. A program template may use `$read` and `$fast_read` (the shared ways of reading),
the fragments of its operation, and `$show` (the line that prints the form).
"""

import dataclasses
import string
from collections.abc import Callable, Iterator, Mapping

from beam_pipelines.records import Generator, Label, Problem, Solution, Test
from beam_pipelines.sources.mini.forms import FORMS, Form
from optimrl_jax.arrays import TestKind

SOURCE = "mini"
TIME_LIMIT_S = 2.0
MEMORY_LIMIT_BYTES = 256 << 20
FORMS_OF_AN_OPERATION = 3
FORM_STRIDE = 3


@dataclasses.dataclass(frozen=True)
class Operation:
    """What varies inside a family. `answer` maps an input to the integer that is asked for, without any program."""

    name: str
    phrase: str
    fragments: Mapping[str, str]
    answer: Callable[[str], int]


@dataclasses.dataclass(frozen=True)
class Reading:
    """Two ways of reading the same input: line by line, and all at once."""

    plain: str
    fast: str


LIST = Reading(
    "n = int(input())\na = list(map(int, input().split()))\n",
    "import sys\nn, *a = map(int, sys.stdin.read().split())\n",
)
TWO_LISTS = Reading(
    "n = int(input())\na = list(map(int, input().split()))\nb = list(map(int, input().split()))\n",
    "import sys\nn, *a = map(int, sys.stdin.read().split())\nb = a[n:]\na = a[:n]\n",
)
WORD = Reading("s = input()\n", "import sys\ns = sys.stdin.readline().strip()\n")


@dataclasses.dataclass(frozen=True)
class Family:
    """A problem statement with a place for an operation and a form, and the programs of each speed class.

    Programs of class slow are quadratic, medium ones do n log n (or a large constant times n) steps in Python, fast
    ones are linear or leave the work to built-in functions. `wrong` are natural programs with one mistake.
    """

    name: str
    statement: str
    operations: tuple[Operation, ...]
    reading: Reading
    slow: tuple[str, ...]
    medium: tuple[str, ...]
    fast: tuple[str, ...]
    wrong: tuple[str, ...]
    base_inputs: tuple[str, ...]
    generator: str


def instances(family: Family, position: int) -> Iterator[tuple[Operation, Form]]:
    """The pairs of operation and form that a family ships: three forms for each operation.

    Consecutive forms, shifted by the family's position, so that a family shows every form and an operation meets other
    forms in other families.
    """
    for slot in range(FORMS_OF_AN_OPERATION * len(family.operations)):
        form = FORMS[(slot + FORM_STRIDE * position) % len(FORMS)]
        yield family.operations[slot // FORMS_OF_AN_OPERATION], form


def expand(family: Family, position: int) -> tuple[Problem, ...]:
    """All problems of a family, as records with base tests, labelled solutions and the generator."""
    return tuple(problem(family, operation, form=form) for operation, form in instances(family, position))


def problem(family: Family, operation: Operation, *, form: Form) -> Problem:
    statement = string.Template(family.statement).substitute(operation=operation.phrase, form=form.phrase)
    return Problem(
        id=f"{SOURCE}/{family.name}/{operation.name}_{form.name}",
        source=SOURCE,
        category=family.name,
        statement=statement,
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


def _solutions(family: Family, operation: Operation, *, form: Form) -> Iterator[Solution]:
    for speed_class in ("slow", "medium", "fast"):
        for index, template in enumerate(getattr(family, speed_class)):
            program = render(template, family, operation=operation, shown=form.expression)
            yield Solution(f"{speed_class}_{index}", program, Label.CORRECT, speed_class)
    for index, template in enumerate(family.wrong):
        program = render(template, family, operation=operation, shown=form.expression)
        yield Solution(f"wrong_{index}", program, Label.INCORRECT)
    slip = render(family.fast[0], family, operation=operation, shown=form.mistake)
    yield Solution("wrong_form", slip, Label.INCORRECT)


def render(template: str, family: Family, *, operation: Operation, shown: str) -> str:
    """A program of one instance: the template with reading, fragments and print line in place."""
    return string.Template(template).substitute(
        operation.fragments, read=family.reading.plain, fast_read=family.reading.fast, show=f"print({shown})\n"
    )
