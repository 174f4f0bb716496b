"""Edge: problems from JSON Lines, one object a line, of this schema (fields in brackets may be left out):

    id          text, unique
    statement   text
    tests       list of {input, output, [origin]}: the original tests
    solutions   list of {program, label, [id], [speed_class], [language]}; label is "correct" or "incorrect"
    [source, category, group]       text; duplicates share a group and stay in one split
    [difficulty, rating]            whole numbers
    [time_limit_s, memory_limit_bytes, checker]
    [generators]                    list of program texts, or of {id, program}

A line that does not fit is rejected with a reason; it never stops the build.
"""

import json
import pathlib
from collections.abc import Iterator

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Generator, Label, Problem, Rejection, Solution, Test
from beam_pipelines.sources.reading import BrokenRecordError, ReadSource, optional_field, required_field
from optimrl_jax.arrays import TestKind
from optimrl_jax.jobs.user_paths import existing_path

LINES_A_BLOCK = 8


def read_jsonl(options: BuildOptions) -> ReadSource:
    path = existing_path(options.input, "--input")
    return ReadSource(line_blocks(path, limit=options.limit), parse_line_block, options)


def line_blocks(path: pathlib.Path, *, limit: int) -> list[tuple[str, int, int, int]]:
    """(file, first line, byte offset, lines) of runs of lines, so that workers read their own part of the file."""
    found, offset, count = [], 0, 0
    with path.open("rb") as lines:
        for line in lines:
            if limit and count >= limit:
                break
            if count % LINES_A_BLOCK == 0:
                found.append([str(path), count, offset, 0])
            found[-1][3] += 1
            offset += len(line)
            count += 1
    return [tuple(block) for block in found]


def parse_line_block(block: tuple[str, int, int, int], options: BuildOptions) -> Iterator[Problem | Rejection]:
    """The records of a run of lines; empty lines are none."""
    path, first, offset, count = block
    with open(path, "rb") as file:
        file.seek(offset)
        for number in range(first + 1, first + count + 1):
            line = file.readline()
            if line.strip():
                yield parse_line(line, name=f"{pathlib.Path(path).name}:{number}")


def parse_line(line: bytes, *, name: str) -> Problem | Rejection:
    """One line as a problem, or why it is none; `name` stands for a record that does not say its id."""
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except ValueError:
        return Rejection(name, "read", "not_json")
    if not isinstance(value, dict):
        return Rejection(name, "read", "not_an_object")
    try:
        return problem_from_object(value)
    except BrokenRecordError as error:
        return Rejection(str(value.get("id") or name), "read", "broken_record", str(error))


def problem_from_object(value: dict) -> Problem:
    """A problem from one parsed object of the schema above; raises Broken naming the field."""
    name = required_field(value, "id", str)
    return Problem(
        id=name,
        source=optional_field(value, "source", str, "jsonl"),
        category=optional_field(value, "category", str, ""),
        statement=required_field(value, "statement", str),
        difficulty=optional_field(value, "difficulty", int, 0),
        rating=optional_field(value, "rating", int, 0),
        time_limit_s=float(optional_field(value, "time_limit_s", (int, float), 2.0)),
        memory_limit_bytes=optional_field(value, "memory_limit_bytes", int, 256 << 20),
        checker=optional_field(value, "checker", str, "lines"),
        group=optional_field(value, "group", str, ""),
        tests=tuple(_test(one) for one in required_field(value, "tests", list)),
        solutions=tuple(_solution(name, n, one) for n, one in enumerate(required_field(value, "solutions", list))),
        generators=tuple(_generator(n, one) for n, one in enumerate(optional_field(value, "generators", list, []))),
    )


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
    )


def _generator(index: int, value: object) -> Generator:
    if isinstance(value, str):
        return Generator(id=f"generator_{index}", program=value)
    return Generator(
        id=optional_field(value, "id", str, f"generator_{index}"), program=required_field(value, "program", str)
    )
