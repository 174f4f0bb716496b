"""CodeContests from Parquet files in the layout in which hubs publish them, as columns of lists or lists of records.

Original tests keep their origin (public, private, generated) and that order. Solutions in languages that the build
does not ask for are left out and counted in the trace. Outputs are compared as CodeContests itself compares them.
"""

from collections.abc import Mapping

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Label, Problem, Solution, Test, count_stage
from beam_pipelines.sources.languages import language_named, select_languages
from beam_pipelines.sources.reading import (
    BrokenRecordError,
    ReadSource,
    UnsupportedProblemError,
    optional_field,
    rating_band,
    read_row_source,
    required_field,
    tags_field,
)
from optimrl_jax.kinds import TestKind

SOURCE = "code_contests"
CHECKER = "code_contests"
ORIGINS = ("public", "private", "generated")
COLUMNS = ("name", "description", "solutions", "incorrect_solutions", *(f"{origin}_tests" for origin in ORIGINS))
# The enumeration of the original protocol buffer; its names call Python 2 just PYTHON.
LANGUAGES = {1: "python2", 2: "cpp", 3: "python3", 4: "java", "PYTHON": "python2"}
DEFAULT_TIME_LIMIT_S = 2.0
DEFAULT_MEMORY_BYTES = 256 << 20


def read_code_contests(options: BuildOptions) -> ReadSource:
    """Return the source that reads CodeContests; raises UserError for an input that is not there or lacks columns."""
    return read_row_source(options, SOURCE, parse_code_contests, columns=COLUMNS)


def parse_code_contests(name: str, row: Mapping[str, object], options: BuildOptions) -> Problem:
    """Make a problem of a row of CodeContests.

    Args:
      name: not used; rows carry a name of their own.
      row: the row.
      options: `languages` says which solutions to keep.

    Raises:
      BrokenRecordError: a column is missing or holds something else; the message names it.
      UnsupportedProblemError: the problem reads or writes files.
    """
    for column in ("input_file", "output_file"):
        if file := optional_field(row, column, str, ""):
            raise UnsupportedProblemError("file_io", f"{column} = {file[:40]!r}")
    solutions = _solutions(row, "solutions", Label.CORRECT) + _solutions(row, "incorrect_solutions", Label.INCORRECT)
    accepted = select_languages(solutions, options)
    rating = optional_field(row, "cf_rating", int, 0)
    problem = Problem(
        id=f"{SOURCE}/{required_field(row, 'name', str)}",
        source=SOURCE,
        category=rating_band(rating),
        statement=required_field(row, "description", str),
        difficulty=optional_field(row, "difficulty", int, 0),
        rating=rating,
        time_limit_s=_time_limit_s(row),
        memory_limit_bytes=optional_field(row, "memory_limit_bytes", int, 0) or DEFAULT_MEMORY_BYTES,
        checker=CHECKER,
        solutions=accepted,
        tags=tags_field(row, "cf_tags"),
        tests=tuple(test for origin in ORIGINS for test in _tests(row, origin)),
    )
    return count_stage(problem, "read", other_language=len(solutions) - len(accepted))


def _solutions(row: Mapping[str, object], column: str, label: Label) -> list[Solution]:
    return [
        Solution(f"{column}/{index}", program, label, language=_language(language))
        for index, (language, program) in enumerate(_pairs(row, column, ("language", "solution"), (int | str, str)))
    ]


def _language(name: int | str) -> str:
    return LANGUAGES.get(name, "") or (language_named(name) if isinstance(name, str) else "")


def _tests(row: Mapping[str, object], origin: str) -> list[Test]:
    pairs = _pairs(row, f"{origin}_tests", ("input", "output"), (str, str))
    return [Test(int(TestKind.ORIGINAL), given, wanted, origin) for given, wanted in pairs]


def _pairs(row: Mapping[str, object], column: str, names: tuple[str, str], kinds: tuple[type, type]) -> list[tuple]:
    """Pair the two fields of a column that holds two lists side by side, or one list of records."""
    value = required_field(row, column, (dict, list))
    if isinstance(value, list):
        lists = [[required_field(item, name, object) for item in value] for name in names]
    else:
        lists = [required_field(value, name, list) for name in names]
    if len(lists[0]) != len(lists[1]):
        raise BrokenRecordError(
            f"{column}: expected as many of {names[0]} as of {names[1]}, got {len(lists[0])} and {len(lists[1])}"
        )
    for name, kind, items in zip(names, kinds, lists, strict=True):
        for index, item in enumerate(items):
            if not isinstance(item, kind):
                raise BrokenRecordError(f"{column}.{name}[{index}] = {str(item)[:40]!r}: got {type(item).__name__}")
    return list(zip(*lists, strict=True))


def _time_limit_s(row: Mapping[str, object]) -> float:
    """Return the limit in seconds; null and zero stand for an unknown limit."""
    limit = optional_field(row, "time_limit", (dict, int, float), 0)
    if isinstance(limit, dict):
        seconds, nanos = (optional_field(limit, part, (int, float), 0) for part in ("seconds", "nanos"))
        limit = seconds + nanos / 1e9
    return float(limit) or DEFAULT_TIME_LIMIT_S
