"""Edge: CodeContests from Parquet files in the layout in which the Hugging Face hub publishes them.

Original tests keep their origin (public, private, generated) and that order. Solutions in other languages than Python
are left out and counted in the trace.
"""

import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import pyarrow
import pyarrow.parquet

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Label, Problem, Rejection, Solution, Test, count_stage
from beam_pipelines.sources.reading import BrokenRecordError, ReadSource, optional_field, required_field
from optimrl_jax.arrays import TestKind
from optimrl_jax.errors import UserError, require

ORIGINS = ("public", "private", "generated")
LANGUAGES = {1: "python2", 3: "python3"}
COLUMNS = ("name", "description", "solutions", "incorrect_solutions", *(f"{origin}_tests" for origin in ORIGINS))
ROWS_A_BATCH = 8
MAX_PARTS = 16
RATING_BAND = 400

Block = tuple[str, int, int, int, int]


def read_code_contests(options: BuildOptions) -> ReadSource:
    source = pathlib.Path(options.input)
    require(bool(options.input) and source.exists(), "--input", options.input, "a Parquet file or a directory of them")
    files = sorted(source.glob("*.parquet")) if source.is_dir() else [source]
    require(bool(files), "--input", options.input, "at least one Parquet file")
    return ReadSource(parquet_blocks(files, limit=options.limit), read_block, options)


def parquet_blocks(files: Sequence[pathlib.Path], *, limit: int) -> list[Block]:
    """(file, row group, part, parts, rows) blocks; the parts of a row group can be read by different workers.

    A limit is met by taking the first rows of the first row groups, each of these in one part.
    """
    found, left = [], limit
    for path in files:
        file = _opened(path)
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if limit:
                rows = min(rows, left)
                left -= rows
            parts = 1 if limit else min(MAX_PARTS, math.ceil(rows / ROWS_A_BATCH))
            found += [(str(path), group, part, parts, rows) for part in range(parts) if rows]
    return found


def read_block(block: Block, options: BuildOptions) -> Iterator[Problem | Rejection]:
    """The records of a block; a row group that cannot be decoded is one rejection."""
    path, group = block[:2]
    try:
        for row in _rows(block):
            yield parse_row(row)
    except (pyarrow.ArrowException, OSError) as error:
        detail = " ".join(str(error).split())[:200]
        yield Rejection(f"{pathlib.Path(path).name}/row_group_{group}", "read", "broken_row_group", detail)


def _rows(block: Block) -> Iterator[Mapping[str, object]]:
    path, group, part, parts, rows = block
    batches = pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=ROWS_A_BATCH, row_groups=[group])
    for index, batch in enumerate(batches):
        if index % parts == part:
            yield from batch.to_pylist()[: max(0, rows - index * ROWS_A_BATCH)]


def parse_row(row: Mapping[str, object]) -> Problem | Rejection:
    """One row as a problem, or why it is none."""
    try:
        return problem_from_row(row)
    except BrokenRecordError as error:
        return Rejection(f"code_contests/{row.get('name')}", "read", "broken_record", str(error))


def problem_from_row(row: Mapping[str, object]) -> Problem:
    """A problem from one row; raises Broken naming the column."""
    name = required_field(row, "name", str)
    solutions = _solutions(row, "solutions", Label.CORRECT) + _solutions(row, "incorrect_solutions", Label.INCORRECT)
    rating = optional_field(row, "cf_rating", int, 0)
    limit = optional_field(row, "time_limit", dict, {"seconds": 2})
    problem = Problem(
        id=f"code_contests/{name}",
        source="code_contests",
        category=f"rating_{rating // RATING_BAND * RATING_BAND}" if rating else "",
        statement=required_field(row, "description", str),
        difficulty=optional_field(row, "difficulty", int, 0),
        rating=rating,
        time_limit_s=float(limit.get("seconds") or 0) + float(limit.get("nanos") or 0) / 1e9,
        memory_limit_bytes=optional_field(row, "memory_limit_bytes", int, 256 << 20),
        solutions=tuple(one for one in solutions if one is not None),
        tests=tuple(test for origin in ORIGINS for test in _tests(row, origin)),
    )
    return count_stage(problem, "read", other_language=sum(one is None for one in solutions))


def _solutions(row: Mapping[str, object], column: str, label: Label) -> list[Solution | None]:
    """Solutions of a column; None for each that is not in Python."""
    value = required_field(row, column, dict)
    languages, programs = required_field(value, "language", list), required_field(value, "solution", list)
    if len(languages) != len(programs):
        raise BrokenRecordError(
            f"{column}: expected as many languages as solutions, got {len(languages)} and {len(programs)}"
        )
    pairs = enumerate(zip(languages, programs, strict=True))
    return [
        Solution(id=f"{column}/{index}", program=program, label=label) if language in LANGUAGES else None
        for index, (language, program) in pairs
    ]


def _tests(row: Mapping[str, object], origin: str) -> list[Test]:
    value = required_field(row, f"{origin}_tests", dict)
    inputs, outputs = required_field(value, "input", list), required_field(value, "output", list)
    if len(inputs) != len(outputs):
        raise BrokenRecordError(
            f"{origin}_tests: expected as many outputs as inputs, got {len(outputs)} and {len(inputs)}"
        )
    return [Test(int(TestKind.ORIGINAL), i, o, origin) for i, o in zip(inputs, outputs, strict=True)]


def _opened(path: pathlib.Path) -> pyarrow.parquet.ParquetFile:
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"--input = {str(path)!r}: expected a readable Parquet file ({reason})") from None
    missing = [column for column in COLUMNS if column not in file.schema_arrow.names]
    require(not missing, "--input", str(path), f"CodeContests columns, without {', '.join(missing)}")
    return file
