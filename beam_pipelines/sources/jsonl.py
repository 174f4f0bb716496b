"""Problems from JSON Lines, one object a line, of this schema (fields in brackets may be left out):

    id          text, unique
    statement   text
    tests       list of {input, output, [origin]}: the original tests
    [solutions] list of {program, label, [id], [speed_class], [language]}; label is "correct" or "incorrect"
    [source, category, group]       text; duplicates share a group and stay in one split
    [difficulty]                    a whole number, or easy, medium or hard
    [rating]                        whole number
    [time_limit_s, memory_limit_bytes]
    [checker]   name of a comparison, or a program that judges: {program, [language, convention, arguments, files]},
                or {interactor, [judge]} with two such programs
    [generators]                    list of program texts, or of {id, program}
    [tags]                          list of texts

A tests-only build needs no solutions. Parquet files with these columns do as well. A record that does not fit is
rejected with a reason; it never stops the build.
"""

from collections.abc import Mapping

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Generator, Label, Problem, Solution, Test, count_stage
from beam_pipelines.sources.languages import language_named, select_languages
from beam_pipelines.sources.own_checkers import parse_programs
from beam_pipelines.sources.reading import (
    BrokenRecordError,
    ReadSource,
    difficulty_field,
    optional_field,
    own_checker,
    read_row_source,
    required_field,
    tags_field,
)
from optimrl_jax.kinds import TestKind
from sandbox.protocol import InvalidRequestError


def read_jsonl(options: BuildOptions) -> ReadSource:
    """Return the source that reads files of the schema above; raises UserError for an input that is not there."""
    return read_row_source(options, "", parse_object)


def parse_object(name: str, value: Mapping[str, object], options: BuildOptions) -> Problem:
    """Make a problem of one object of the schema above.

    Args:
      name: not used; objects carry an id of their own.
      value: the object.
      options: `languages` and `special_judges` count.

    Raises:
      BrokenRecordError: a field is missing or holds something else; the message names it.
      UnsupportedProblemError: a program judges the problem that is not to run.
    """
    own_id = required_field(value, "id", str)
    solutions = [_solution(own_id, n, one) for n, one in enumerate(optional_field(value, "solutions", list, []))]
    accepted = select_languages(solutions, options)
    problem = Problem(
        id=own_id,
        source=optional_field(value, "source", str, "jsonl"),
        category=optional_field(value, "category", str, ""),
        statement=required_field(value, "statement", str),
        difficulty=difficulty_field(value, "difficulty"),
        rating=optional_field(value, "rating", int, 0),
        time_limit_s=float(optional_field(value, "time_limit_s", (int, float), 2.0)),
        memory_limit_bytes=optional_field(value, "memory_limit_bytes", int, 256 << 20),
        checker=_checker(value, options),
        group=optional_field(value, "group", str, ""),
        tags=tags_field(value, "tags"),
        tests=tuple(_test(one) for one in required_field(value, "tests", list)),
        solutions=accepted,
        generators=tuple(_generator(n, one) for n, one in enumerate(optional_field(value, "generators", list, []))),
    )
    other = len(solutions) - len(accepted)
    return count_stage(problem, "read", other_language=other) if other else problem


def _checker(value: object, options: BuildOptions) -> str:
    checker = optional_field(value, "checker", (str, dict), "lines")
    if isinstance(checker, str):
        return checker
    try:
        programs = parse_programs(checker, path="checker.")
    except InvalidRequestError as error:
        raise BrokenRecordError(str(error)) from None
    return own_checker(programs, options, comparison="lines")


def _test(value: object) -> Test:
    return Test(
        kind=int(TestKind.ORIGINAL),
        input=required_field(value, "input", str),
        output=required_field(value, "output", str),
        origin=optional_field(value, "origin", str, ""),
    )


def _solution(problem: str, index: int, value: object) -> Solution:
    label = required_field(value, "label", str)
    if label not in list(Label):
        raise BrokenRecordError(f"solutions[{index}].label = {label!r}: expected correct or incorrect")
    return Solution(
        id=optional_field(value, "id", str, f"{problem}/{index}"),
        program=required_field(value, "program", str),
        label=Label(label),
        speed_class=optional_field(value, "speed_class", str, ""),
        language=language_named(optional_field(value, "language", str, "python3")),
    )


def _generator(index: int, value: object) -> Generator:
    if isinstance(value, str):
        return Generator(id=f"generator_{index}", program=value)
    return Generator(
        id=optional_field(value, "id", str, f"generator_{index}"), program=required_field(value, "program", str)
    )
