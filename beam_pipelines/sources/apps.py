"""APPS and TACO, from the JSON Lines or Parquet files in which hubs publish them.

Both keep tests and solutions as JSON inside a text. All solutions are labelled correct, so that nothing contradicts a
test: such problems pass a build only with `--min_incorrect=0`. APPS compares words, and numbers by a relative tolerance
even where they are whole; here whole numbers have to be equal.
"""

import json
import re
from collections.abc import Mapping
from typing import TypeVar

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Label, Problem, Solution, Test
from beam_pipelines.sources.reading import (
    BrokenRecordError,
    ReadSource,
    UnsupportedProblemError,
    optional_field,
    read_row_source,
    required_field,
    tags_field,
)
from optimrl_jax.kinds import Difficulty, TestKind

CHECKER = "code_contests"
DEFAULT_TIME_LIMIT_S = 2.0
DEFAULT_MEMORY_BYTES = 256 << 20
# What the two sets call a problem, on the scale of the datasets that know three steps.
DIFFICULTIES = {
    "introductory": Difficulty.EASY,
    "interview": Difficulty.MEDIUM,
    "competition": Difficulty.HARD,
    "easy": Difficulty.EASY,
    "medium": Difficulty.MEDIUM,
    "medium_hard": Difficulty.MEDIUM,
    "hard": Difficulty.HARD,
    "very_hard": Difficulty.HARD,
}
Kind = TypeVar("Kind", list, dict)
_NUMBER = re.compile(r"\d+(\.\d+)?")


def read_apps(options: BuildOptions) -> ReadSource:
    """Return the source that reads APPS; raises UserError for an input that is not there."""
    return read_row_source(options, "apps", parse_apps)


def read_taco(options: BuildOptions) -> ReadSource:
    """Return the source that reads TACO; raises UserError for an input that is not there."""
    return read_row_source(options, "taco", parse_taco)


def parse_apps(name: str, row: Mapping[str, object], options: BuildOptions) -> Problem:
    """Make a problem of a row of APPS.

    Args:
      name: identifies a row that has no id.
      row: the row.
      options: not used.

    Raises:
      BrokenRecordError: a column is missing or holds something else.
      UnsupportedProblemError: its tests call a function.
    """
    number = row.get("problem_id", row.get("id"))
    return _problem(f"apps/{name if number is None else number}", row, source="apps")


def parse_taco(name: str, row: Mapping[str, object], options: BuildOptions) -> Problem:
    """Make a problem of a row of TACO; as `parse_apps`, but the name, its place in the file, identifies every row."""
    return _problem(f"taco/{name}", row, source="taco")


def _problem(problem_id: str, row: Mapping[str, object], *, source: str) -> Problem:
    category = str(row.get("difficulty") or "").lower()
    return Problem(
        id=problem_id,
        source=source,
        category=category,
        statement=required_field(row, "question", str),
        difficulty=int(DIFFICULTIES.get(category, 0)),
        rating=0,
        time_limit_s=_first_number(row.get("time_limit"), DEFAULT_TIME_LIMIT_S),
        memory_limit_bytes=_memory_bytes(row.get("memory_limit")),
        checker=CHECKER,
        tags=tags_field(row, "tags"),
        solutions=tuple(
            Solution(f"solutions/{index}", _text(program, f"solutions[{index}]"), Label.CORRECT)
            for index, program in enumerate(_parsed(row, "solutions", list))
        ),
        tests=_tests(_parsed(row, "input_output", dict)),
    )


def _parsed(row: Mapping[str, object], column: str, kind: type[Kind]) -> Kind:
    """Return the value that a column holds as JSON in a text, or as it is; an empty text holds nothing."""
    value = optional_field(row, column, (str, kind), "")
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else kind()
        except (ValueError, RecursionError) as error:
            raise BrokenRecordError(f"{column}: expected JSON ({type(error).__name__})") from None
    if not isinstance(value, kind):
        raise BrokenRecordError(f"{column}: expected a JSON {kind.__name__}, got {type(value).__name__}")
    return value


def _tests(value: dict) -> tuple[Test, ...]:
    if value.get("fn_name"):
        raise UnsupportedProblemError("functional_tests", f"fn_name = {str(value['fn_name'])[:40]!r}")
    inputs, outputs = optional_field(value, "inputs", list, []), optional_field(value, "outputs", list, [])
    if len(inputs) != len(outputs):
        raise BrokenRecordError(
            f"input_output: expected an output for each of {len(inputs)} inputs, got {len(outputs)}"
        )
    pairs = enumerate(zip(inputs, outputs, strict=True))
    return tuple(
        Test(int(TestKind.ORIGINAL), _text(given, f"inputs[{n}]"), _text(wanted, f"outputs[{n}]"))
        for n, (given, wanted) in pairs
    )


def _text(value: object, where: str) -> str:
    """Return a text; a list of lines is joined."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value) + "\n"
    if not isinstance(value, str):
        raise BrokenRecordError(f"{where} = {str(value)[:40]!r}: expected a text, got {type(value).__name__}")
    return value


def _first_number(value: object, default: float) -> float:
    """Return the number in a text such as "2.0 seconds"."""
    match = _NUMBER.search(str(value or ""))
    return float(match[0]) if match else default


def _memory_bytes(value: object) -> int:
    """Return the bytes that a text such as "256.0 megabytes" means."""
    unit = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    match = re.search(r"(\d+(?:\.\d+)?)\s*([kmg])", str(value or "").lower())
    return int(float(match[1]) * unit[match[2]]) if match else DEFAULT_MEMORY_BYTES
