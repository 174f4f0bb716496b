"""Edge: what sources that read files share: blocks are spread over workers, broken records become rejections."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

import apache_beam as beam

from beam_pipelines.generators import generator_files
from beam_pipelines.options import BuildOptions
from beam_pipelines.records import KEPT, REJECTED, Problem, Rejection

# Marks and carriage returns belong to files, not to texts: they go before anything runs or is compared.
BYTE_ORDER_MARK = "\ufeff"
Block = tuple
Parse = Callable[[Block, BuildOptions], Iterable[Problem | Rejection]]


class BrokenRecordError(ValueError):
    """A record of a source that cannot become a problem; the message names field, value and what was expected."""


class ReadSource(beam.PTransform):
    """Reads every block with `parse`; problems out, and rejections under the tag `rejected`."""

    def __init__(self, blocks: Sequence[Block], parse: Parse, options: BuildOptions) -> None:
        super().__init__(label="read")
        # A generators file that does not fit is the caller's mistake and shows before anything runs.
        generator_files.read_generators(options.generators)
        self._blocks = list(blocks)
        self._parse = parse
        self._options = options

    def records(self) -> Iterator[Problem | Rejection]:
        """The records one after the other in this process, for jobs that need no pipeline."""
        for block in self._blocks:
            for record in self._parse(block, self._options):
                yield tidy_or_reject(record) if isinstance(record, Problem) else record

    def expand(self, root: beam.Pipeline):
        blocks = root | "blocks" >> beam.Create(self._blocks)
        step = _ReadBlock(self._parse, self._options)
        return blocks | "parse" >> beam.ParDo(step).with_outputs(REJECTED, main=KEPT)


class _ReadBlock(beam.DoFn):
    def __init__(self, parse: Parse, options: BuildOptions) -> None:
        self._parse = parse
        self._options = options

    def setup(self) -> None:
        self._generators = generator_files.read_generators(self._options.generators)

    def process(self, block: Block) -> Iterator[Problem]:
        for record in self._parse(block, self._options):
            clean = tidy_or_reject(record) if isinstance(record, Problem) else record
            if isinstance(clean, Problem):
                yield generator_files.add_generators(clean, self._generators)
            else:
                yield beam.pvalue.TaggedOutput(REJECTED, clean)


def tidy_or_reject(problem: Problem) -> Problem | Rejection:
    """The problem with tidy texts, or a rejection where one of them is no Unicode text (lone surrogates)."""
    clean = tidy_problem(problem)
    texts = [clean.id, clean.statement, *(one.program for one in clean.solutions)]
    texts += [text for test in clean.tests for text in (test.input, test.output or "")]
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        return Rejection(clean.id.encode("ascii", "replace").decode(), "read", "not_unicode", str(error)[:200])
    return clean


def tidy_problem(problem: Problem) -> Problem:
    """The problem with LF line ends and without leading byte-order marks in its statement, programs and tests."""
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
    return text.removeprefix(BYTE_ORDER_MARK).replace("\r\n", "\n").replace("\r", "\n")


def required_field(value: object, field: str, kind: type | tuple[type, ...]) -> object:
    """The field of a parsed object; raises Broken where it is missing or of another kind."""
    if not isinstance(value, dict):
        raise BrokenRecordError(f"{type(value).__name__}: expected an object with the field {field!r}")
    if field not in value:
        raise BrokenRecordError(f"{field}: expected this field")
    found = value[field]
    if not isinstance(found, kind) or isinstance(found, bool):
        raise BrokenRecordError(f"{field} = {str(found)[:40]!r}: expected {_name(kind)}, got {type(found).__name__}")
    return found


def optional_field(value: object, field: str, kind: type | tuple[type, ...], default: object) -> object:
    """The field of a parsed object, or the default where it is absent or null."""
    if isinstance(value, dict) and value.get(field) is None:
        return default
    return required_field(value, field, kind)


def _name(kind: type | tuple[type, ...]) -> str:
    return " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
