"""CodeContests+, from the Parquet files of one of its configurations (`ccplus_1x` to `ccplus_5x`, which hold tests).

Checkers are C++ programs by the convention of testlib.h, which `--testlib` names. `--special_judges=compare` compares
outputs instead, and `--special_judges=reject` leaves problems that have a checker out.
"""

from collections.abc import Mapping

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Generator, Label, Problem, Solution, Test, count_stage
from beam_pipelines.sources.languages import language_named, select_languages
from beam_pipelines.sources.own_generators import commands_in, runnable_generator
from beam_pipelines.sources.reading import (
    ReadSource,
    optional_field,
    own_checker,
    read_row_source,
    required_field,
    texts_field,
)
from optimrl_jax.kinds import TestKind
from sandbox.protocol import JudgeProgram

SOURCE = "code_contests_plus"
CHECKER = "code_contests"
COLUMNS = ("id", "description", "correct_submissions", "incorrect_submissions", "test_cases")
# Larger numbers than these are milliseconds instead of seconds, and bytes instead of MiB.
LONGEST_SECONDS = 100
LARGEST_MIB = 1 << 16
DEFAULT_TIME_LIMIT_S = 2.0
DEFAULT_MEMORY_MIB = 256


def read_code_contests_plus(options: BuildOptions) -> ReadSource:
    """Return the source that reads CodeContests+; raises UserError for an input that is not there or lacks columns."""
    return read_row_source(options, SOURCE, parse_code_contests_plus, columns=COLUMNS)


def parse_code_contests_plus(name: str, row: Mapping[str, object], options: BuildOptions) -> Problem:
    """Make a problem of a row of CodeContests+.

    Args:
      name: not used; rows carry an id of their own.
      row: the row.
      options: `languages` and `special_judges` count.

    Raises:
      BrokenRecordError: a column is missing or holds something else; the message names it.
      UnsupportedProblemError: the problem has a checker that cannot run or is not to.
    """
    solutions = [
        *_solutions(row, "correct_submissions", Label.CORRECT),
        *_solutions(row, "incorrect_submissions", Label.INCORRECT),
    ]
    accepted = select_languages(solutions, options)
    generators = _generators(row, options)
    title = optional_field(row, "title", str, "")
    description = required_field(row, "description", str)
    problem = Problem(
        id=f"{SOURCE}/{required_field(row, 'id', (str, int))}",
        source=SOURCE,
        category=optional_field(row, "source", str, ""),
        statement=f"{title}\n\n{description}" if title else description,
        difficulty=0,
        rating=0,
        time_limit_s=_time_limit_s(row),
        memory_limit_bytes=_memory_bytes(row),
        checker=_checker(row, options),
        solutions=accepted,
        tests=tuple(
            Test(int(TestKind.ORIGINAL), required_field(case, "input", str), required_field(case, "output", str))
            for case in required_field(row, "test_cases", list)
        ),
        generators=tuple(one for one in generators if one),
    )
    others = generators.count(None)
    return count_stage(problem, "read", other_language=len(solutions) - len(accepted), other_generators=others)


def _checker(row: Mapping[str, object], options: BuildOptions) -> str:
    program = optional_field(row, "checker", str, "")
    return own_checker(JudgeProgram(program), options, comparison=CHECKER) if program.strip() else CHECKER


def _generators(row: Mapping[str, object], options: BuildOptions) -> list[Generator | None]:
    """Return the generator that the row has, None in its place where it cannot run."""
    program = optional_field(row, "generator", str, "")
    if not program.strip():
        return []
    script = optional_field(row, "generator_cmd", (str, list), "")
    commands = commands_in(script if isinstance(script, str) else "\n".join(texts_field(row, "generator_cmd")))
    return [runnable_generator(Generator("generator", program, commands=commands, language="cpp"), options)]


def _solutions(row: Mapping[str, object], column: str, label: Label) -> list[Solution]:
    return [
        Solution(
            f"{column}/{index}",
            required_field(item, "code", str),
            label,
            language=language_named(required_field(item, "language", str)),
        )
        for index, item in enumerate(required_field(row, column, list))
    ]


def _time_limit_s(row: Mapping[str, object]) -> float:
    limit = float(optional_field(row, "time_limit", (int, float), 0))
    return (limit / 1e3 if limit > LONGEST_SECONDS else limit) or DEFAULT_TIME_LIMIT_S


def _memory_bytes(row: Mapping[str, object]) -> int:
    limit = int(optional_field(row, "memory_limit", (int, float), 0)) or DEFAULT_MEMORY_MIB
    return limit if limit > LARGEST_MIB else limit << 20
