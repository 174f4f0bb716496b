"""Edge: what sources that read files share: blocks are spread over workers, broken records become rejections.

Everything that comes from a file is checked here, before anything expensive happens to it: texts that cannot be
encoded, numbers that the dataset cannot hold and values of another type end as a rejection with a reason. A file that
cannot be read ends the job instead.
"""

import ast
import copy
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import apache_beam as beam

from beam_pipelines import storage
from beam_pipelines.generators import generator_files
from beam_pipelines.options import BuildOptions
from beam_pipelines.records import KEPT, REJECTED, Problem, Rejection
from beam_pipelines.sources import own_checkers
from beam_pipelines.sources.row_files import DamagedRow, RowBlock, find_row_files, make_blocks, read_block
from optimrl_jax.kinds import Difficulty
from sandbox.protocol import JudgeProgram, ProblemPrograms, to_json

# Reasons for which a problem with programs of its own is rejected, and what such a program does.
WHAT_PROGRAMS_DO = {
    "interactive": "talks to programs",
    "multi_pass": "makes the inputs of further passes",
    "special_judge": "judges outputs",
}
# Marks and carriage returns belong to files, not to texts: they go before anything runs or is compared.
BYTE_ORDER_MARK = "\ufeff"
RATING_BAND = 400
# What the dataset can hold, and what can be meant.
LARGEST_INT32 = (1 << 31) - 1
LARGEST_INT64 = (1 << 63) - 1
LONGEST_LIMIT_S = 3600.0
RUN, COMPARE = "run", "compare"
NAME_FIELDS = ("id", "name", "question_id", "problem_id")

Parse = Callable[..., Iterable[Problem | Rejection]]
ParseRow = Callable[[str, Mapping[str, object], BuildOptions], Problem]
Kind = TypeVar("Kind")
Program = TypeVar("Program", bound=JudgeProgram)


class BrokenRecordError(ValueError):
    """A record of a source that cannot become a problem; the message names field, value and what was expected."""


class UnsupportedProblemError(ValueError):
    """A sound record of a kind of problem that one run and its output do not judge.

    Attributes:
      reason: names the kind.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def read_row_source(
    options: BuildOptions, source: str, parse: ParseRow, *, columns: Sequence[str] = ()
) -> "ReadSource":
    """Make a source whose records are rows of files.

    Args:
      options: `input`, `split` and `limit` say which rows.
      source: begins the ids of rejected rows; empty where rows carry whole ids.
      parse: makes a problem of a row's name, the row and the options; raises BrokenRecordError or
        UnsupportedProblemError.
      columns: names that Parquet files must have.

    Raises:
      UserError: the input is not there or is none of this source.
    """
    blocks = make_blocks(find_row_files(options.input, options.split), limit=options.limit, columns=columns)
    parse_block = functools.partial(parse_rows, source=source, parse=parse)
    return ReadSource(blocks, parse_block, options, records=sum(block.rows for block in blocks))


def parse_rows(
    block: RowBlock, options: BuildOptions, *, source: str, parse: ParseRow
) -> Iterator[Problem | Rejection]:
    """Yield a problem or a rejection for every row of a block.

    Args:
      block: some rows of a file.
      options: of the build.
      source: begins the ids of rejected rows; empty where rows carry whole ids.
      parse: makes a problem of a row, or raises why it cannot.
    """
    for row in read_block(block):
        if isinstance(row, DamagedRow):
            yield Rejection(row.name, "read", row.reason, row.detail)
        else:
            yield parse_or_reject(*row, options, source=source, parse=parse)


def parse_or_reject(
    name: str, row: object, options: BuildOptions, *, source: str, parse: ParseRow
) -> Problem | Rejection:
    """Make a problem of a row, or a rejection that says why it is none.

    Args:
      name: identifies a row that has no id.
      row: the parsed row; anything but an object is rejected.
      options: of the build.
      source: begins the ids of rejected rows; empty where rows carry whole ids.
      parse: makes a problem of a row, or raises why it cannot.
    """
    if not isinstance(row, dict):
        return Rejection(name, "read", "not_an_object")
    ids = (row[field] for field in NAME_FIELDS if isinstance(row.get(field), str | int))
    own_id = str(next(ids, name))
    record_id = f"{source}/{own_id}" if source else own_id
    try:
        return parse(name, row, options)
    except UnsupportedProblemError as error:
        return Rejection(record_id, "read", error.reason, str(error))
    except BrokenRecordError as error:
        return Rejection(record_id, "read", "broken_record", str(error))


def own_checker(programs: JudgeProgram | ProblemPrograms, options: BuildOptions, *, comparison: str) -> str:
    """Return what a problem with judging programs of its own carries as its checker.

    Args:
      programs: a program that judges outputs, or those of an interactive problem.
      options: `special_judges` decides whether they judge; `testlib` names the header that they may include.
      comparison: name of the comparison to use instead, where the build asks for that.

    Raises:
      UnsupportedProblemError: the build rejects such problems, outputs are to be compared although the problem is
        interactive or takes several passes, or a program cannot run.
    """
    is_interactive = isinstance(programs, ProblemPrograms)
    kind = "interactive" if is_interactive else "multi_pass" if programs.passes > 1 else "special_judge"
    if options.special_judges == COMPARE and kind == "special_judge":
        return comparison
    if options.special_judges != RUN:
        raise UnsupportedProblemError(kind, f"a program of the problem {WHAT_PROGRAMS_DO[kind]}")
    if not is_interactive:
        return to_json(_runnable(programs, options))
    judge = programs.judge and _runnable(programs.judge, options)
    return to_json(ProblemPrograms(_runnable(programs.interactor, options), judge))


def _runnable(program: Program, options: BuildOptions) -> Program:
    """Return a judging program with the header that it includes; raises UnsupportedProblemError where it cannot run."""
    if not program.language:
        raise UnsupportedProblemError("special_judge", "the checker is in no language that the sandbox runs")
    if not own_checkers.lacks_testlib(program):
        return program
    if not options.testlib:
        raise UnsupportedProblemError("special_judge", "the checker includes testlib.h: name it by --testlib")
    return own_checkers.with_testlib(program, options.testlib)


def rating_band(rating: int) -> str:
    """Return the category of a rating: bands of 400, empty for a problem without one."""
    return f"rating_{rating // RATING_BAND * RATING_BAND}" if rating else ""


class ReadSource(beam.PTransform):
    """Reads blocks and parses them; problems out, and rejections under the tag `rejected`.

    Attributes:
      expected_records: how many problems and rejections come out, counted before anything is parsed.
    """

    def __init__(
        self, blocks: Sequence[object], parse: Parse, options: BuildOptions, *, records: int | None = None
    ) -> None:
        super().__init__(label="read")
        # A file that does not fit is the caller's mistake and shows before anything runs.
        generator_files.read_generators(options.generators)
        own_checkers.read_checkers(options.checkers)
        self.expected_records = len(blocks) if records is None else records
        self._blocks = list(blocks)
        self._parse = parse
        self._options = options
        self._finished = ""

    def records(self) -> Iterator[Problem | Rejection]:
        """Yield all records in this process, with the generators and checkers that files have for them."""
        for block in self._blocks:
            for record in self._parse(block, self._options):
                yield _finish_record(record, self._options)

    def resumed_from(self, finished: str) -> "ReadSource":
        """Return the same source without the records that an earlier run left in the directory `finished`."""
        source = copy.copy(self)
        source._finished = finished
        return source

    def expand(self, input_or_inputs: beam.Pipeline):
        """Read the blocks on the runner's workers; the result is indexed by `kept` and `rejected`."""
        blocks = input_or_inputs | "blocks" >> beam.Create(list(enumerate(self._blocks)))
        step = _ReadBlock(self._parse, self._options, finished=self._finished)
        return blocks | "parse" >> beam.ParDo(step).with_outputs(REJECTED, main=KEPT)


class _ReadBlock(beam.DoFn):
    """Gives every record the key of its place in the source, and passes over those that are finished."""

    def __init__(self, parse: Parse, options: BuildOptions, *, finished: str) -> None:
        self._parse = parse
        self._options = options
        self._finished = finished

    def process(self, numbered: tuple[int, object]) -> Iterator[Problem]:
        number, block = numbered
        for place, record in enumerate(self._parse(block, self._options)):
            finished = _finish_record(record, self._options)
            keyed = dataclasses.replace(finished, key=f"{number:07d}-{place:05d}")
            if self._finished and storage.is_stored(keyed, self._finished):
                continue
            yield keyed if isinstance(keyed, Problem) else beam.pvalue.TaggedOutput(REJECTED, keyed)


def _finish_record(record: Problem | Rejection, options: BuildOptions) -> Problem | Rejection:
    """Tidy a record, and add what files have for its problem; these were read once and are kept in memory."""
    clean = tidy_or_reject(record) if isinstance(record, Problem) else record
    if isinstance(clean, Rejection):
        return clean
    judged = own_checkers.add_checker(clean, own_checkers.read_checkers(options.checkers))
    return generator_files.add_generators(judged, generator_files.read_generators(options.generators))


def tidy_or_reject(problem: Problem) -> Problem | Rejection:
    """Tidy the texts of a problem; reject it where the dataset could not hold one of its values."""
    clean = tidy_problem(problem)
    name = clean.id.encode("ascii", "replace").decode()
    try:
        for text in _texts(clean):
            text.encode()
    except UnicodeEncodeError as error:
        return Rejection(name, "read", "not_unicode", str(error)[:200])
    if detail := _out_of_range(clean):
        return Rejection(name, "read", "out_of_range", detail)
    return clean


def _texts(problem: Problem) -> Iterator[str]:
    yield from (problem.id, problem.source, problem.category, problem.statement, problem.checker, problem.group)
    yield from problem.tags
    for solution in problem.solutions:
        yield from (solution.id, solution.program, solution.speed_class, solution.language)
    for test in problem.tests:
        yield from (test.input, test.output or "", test.origin)
    for generator in problem.generators:
        yield from (generator.id, generator.program, *generator.commands, *generator.files.values())


def _out_of_range(problem: Problem) -> str:
    """Describe the first number that cannot be stored or meant; empty if all can."""
    bounds = {
        "difficulty": (-LARGEST_INT32, LARGEST_INT32),
        "rating": (-LARGEST_INT32, LARGEST_INT32),
        "memory_limit_bytes": (1, LARGEST_INT64),
        "time_limit_s": (math.ulp(0.0), LONGEST_LIMIT_S),
    }
    for field, (low, high) in bounds.items():
        value = getattr(problem, field)
        if not low <= value <= high:
            return f"{field} = {value}: expected a number in [{low:g}, {high:g}]"
    return ""


def tidy_problem(problem: Problem) -> Problem:
    """Return the problem with LF line ends and without leading byte-order marks in statement, programs and tests."""
    return dataclasses.replace(
        problem,
        statement=tidy_text(problem.statement),
        solutions=tuple(dataclasses.replace(one, program=tidy_text(one.program)) for one in problem.solutions),
        tests=tuple(
            dataclasses.replace(
                test, input=tidy_text(test.input), output=None if test.output is None else tidy_text(test.output)
            )
            for test in problem.tests
        ),
        generators=tuple(dataclasses.replace(one, program=tidy_text(one.program)) for one in problem.generators),
    )


def tidy_text(text: str) -> str:
    """Return the text with LF line ends and without a leading byte-order mark."""
    return text.removeprefix(BYTE_ORDER_MARK).replace("\r\n", "\n").replace("\r", "\n")


def required_field(value: object, field: str, kind: type[Kind] | tuple[type[Kind], ...]) -> Kind:
    """Return a field of a parsed object.

    Args:
      value: what should be an object.
      field: name of the field.
      kind: type or types of its value; true and false are no numbers.

    Raises:
      BrokenRecordError: the value is no object, or the field is missing or of another type.
    """
    if not isinstance(value, dict):
        raise BrokenRecordError(f"{type(value).__name__}: expected an object with the field {field!r}")
    if field not in value:
        raise BrokenRecordError(f"{field}: expected this field")
    found = value[field]
    if not isinstance(found, kind) or isinstance(found, bool):
        raise BrokenRecordError(
            f"{field} = {str(found)[:40]!r}: expected {_kind_name(kind)}, got {type(found).__name__}"
        )
    return found


def optional_field(value: object, field: str, kind: type[Kind] | tuple[type[Kind], ...], default: Kind) -> Kind:
    """Return a field of a parsed object, or the default where it is absent or null.

    Args:
      value: what should be an object.
      field: name of the field.
      kind: type or types of its value; true and false are no numbers.
      default: of any type.

    Raises:
      BrokenRecordError: the value is no object, or the field is of another type.
    """
    if isinstance(value, dict) and value.get(field) is None:
        return default
    return required_field(value, field, kind)


def texts_field(value: object, field: str) -> list[str]:
    """Return a field that is a list of texts.

    Raises:
      BrokenRecordError: the field is missing or no list, or an item is no text; the message says which.
    """
    items = required_field(value, field, list)
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise BrokenRecordError(f"{field}[{index}] = {str(item)[:40]!r}: expected str, got {type(item).__name__}")
    return items


def difficulty_field(value: object, field: str) -> int:
    """Return how hard a problem is: the whole number that stands there, or that of easy, medium or hard.

    Args:
      value: a parsed object.
      field: name of the field; absent, null or empty for 0, not known.

    Raises:
      BrokenRecordError: the field holds neither.
    """
    found = optional_field(value, field, (int, str), 0)
    if isinstance(found, str) and found and found.upper() not in Difficulty.__members__:
        raise BrokenRecordError(f"{field} = {found[:40]!r}: expected a whole number, easy, medium or hard")
    return found if isinstance(found, int) else int(Difficulty[found.upper()]) if found else 0


def tags_field(value: object, field: str) -> tuple[str, ...]:
    """Return a list of tags, each once and in order; some sets write such a list as one text.

    Args:
      value: a parsed object.
      field: name of the field; absent, null or empty for no tags.

    Raises:
      BrokenRecordError: the field holds neither a list nor the text of one, or a tag is no text.
    """
    items = optional_field(value, field, (list, str), [])
    if isinstance(items, str):
        try:
            # As Python prints a list of texts, which JSON does not read.
            items = ast.literal_eval(items or "[]")
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise BrokenRecordError(f"{field} = {items[:40]!r}: expected a list of texts") from None
    return tuple(dict.fromkeys(filter(None, texts_field({field: items}, field))))


def _kind_name(kind: type | tuple[type, ...]) -> str:
    return " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
