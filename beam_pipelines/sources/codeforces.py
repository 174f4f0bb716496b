"""Codeforces problems as open-r1 publishes them: statements in parts and official tests, no solutions.

Without solutions they make a dataset only with `--tests_only`. Interactive problems, and those that read and write
files, are named and left out; a generated checker is a Python program that judges outputs.
"""

from collections.abc import Iterator, Mapping

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Problem, Test
from beam_pipelines.sources.reading import (
    ReadSource,
    UnsupportedProblemError,
    optional_field,
    own_checker,
    rating_band,
    read_row_source,
    required_field,
    tags_field,
)
from optimrl_jax.kinds import TestKind
from sandbox.protocol import JudgeProgram

CHECKER = "code_contests"
STATEMENT_PARTS = {
    "description": "{}",
    "input_format": "Input\n{}",
    "output_format": "Output\n{}",
    "note": "Note\n{}",
}
# A generated checker takes (input, answer, output) and prints 1 for a right output, unlike the sandbox's conventions;
# whatever else it does, such as failing on an output that it cannot read, turns the output down.
JUDGE = """import contextlib, io, sys
sys.argv[1:4] = sys.argv[1], sys.argv[3], sys.argv[2]
said, status = io.StringIO(), 0
try:
    with contextlib.redirect_stdout(said):
        exec(compile({program!r}, "checker", "exec"), {{"__name__": "__main__"}})
except SystemExit as end:
    status = end.code
except Exception as error:
    status = error
if status:
    print("the checker ended with", repr(status), file=sys.stderr)
sys.exit(0 if not status and said.getvalue().strip() == "1" else 2)
"""
ORIGINS = {"examples": "public", "official_tests": "private"}


def read_codeforces(options: BuildOptions) -> ReadSource:
    """Return the source that reads Codeforces problems; raises UserError for an input that is not there."""
    return read_row_source(options, "codeforces", parse_codeforces)


def parse_codeforces(name: str, row: Mapping[str, object], options: BuildOptions) -> Problem:
    """Make a problem without solutions of a row.

    Args:
      name: not used; rows carry an id of their own.
      row: the row.
      options: `special_judges` counts.

    Raises:
      BrokenRecordError: a column is missing or holds something else.
      UnsupportedProblemError: the problem is interactive, reads or writes files, or has a checker that is not to run.
    """
    if optional_field(row, "interaction_format", str, ""):
        raise UnsupportedProblemError("interactive", "interaction_format is given")
    mode = optional_field(row, "input_mode", str, "stdio")
    if mode != "stdio":
        raise UnsupportedProblemError("file_io", f"input_mode = {mode[:40]!r}")
    rating = optional_field(row, "rating", int, 0)
    return Problem(
        id=f"codeforces/{required_field(row, 'id', str)}",
        source="codeforces",
        category=rating_band(rating),
        statement=_statement(row),
        difficulty=0,
        rating=rating,
        time_limit_s=float(optional_field(row, "time_limit", (int, float), 2.0)),
        memory_limit_bytes=int(optional_field(row, "memory_limit", (int, float), 256.0) * (1 << 20)),
        checker=_checker(row, options),
        tags=tags_field(row, "tags"),
        solutions=(),
        tests=tuple(_tests(row)),
    )


def _checker(row: Mapping[str, object], options: BuildOptions) -> str:
    program = optional_field(row, "generated_checker", str, "")
    if not program.strip():
        return CHECKER
    judge = JudgeProgram(JUDGE.format(program=program), "python3")
    return own_checker(judge, options, comparison=CHECKER)


def _statement(row: Mapping[str, object]) -> str:
    required_field(row, "description", str)
    texts = {part: optional_field(row, part, str, "").strip() for part in STATEMENT_PARTS}
    parts = [
        optional_field(row, "title", str, ""),
        *(STATEMENT_PARTS[part].format(texts[part]) for part in texts if texts[part]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _tests(row: Mapping[str, object]) -> Iterator[Test]:
    """Yield samples first, then the official tests, which usually begin with the same samples, without repetition."""
    seen = set()
    for column, origin in ORIGINS.items():
        for case in optional_field(row, column, list, []):
            given = required_field(case, "input", str)
            if given not in seen:
                seen.add(given)
                yield Test(int(TestKind.ORIGINAL), given, required_field(case, "output", str), origin)
