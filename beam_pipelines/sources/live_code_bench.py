"""LiveCodeBench, from the JSON Lines files of its hub: statements and tests, no solutions.

Such problems make a dataset only with `--tests_only`. Hidden tests come as JSON in a pickled text, compressed, in base
64: the text is taken out of the pickle without executing it. Problems that call a function are named and left out.
"""

import base64
import binascii
import json
import pickletools
import zlib
from collections.abc import Iterator, Mapping

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Problem, Test
from beam_pipelines.sources.reading import (
    BrokenRecordError,
    ReadSource,
    UnsupportedProblemError,
    difficulty_field,
    optional_field,
    read_row_source,
    required_field,
)
from optimrl_jax.kinds import TestKind

# Lines and words have to be equal, numbers as numbers: 1.0 is 1.
CHECKER = "kattis:case_sensitive:float_tolerance=0"
TIME_LIMIT_S = 6.0
MEMORY_BYTES = 1 << 30
ORIGINS = {"public_test_cases": "public", "private_test_cases": "private"}
MAX_UNPACKED_BYTES = 1 << 30
# What a pickle of one text may consist of; anything else could construct objects.
_HARMLESS = {"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP"}
_TEXTS = {"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"}


def read_live_code_bench(options: BuildOptions) -> ReadSource:
    """Return the source that reads LiveCodeBench; raises UserError for an input that is not there."""
    return read_row_source(options, "live_code_bench", parse_live_code_bench)


def parse_live_code_bench(name: str, row: Mapping[str, object], options: BuildOptions) -> Problem:
    """Make a problem without solutions of a row.

    Args:
      name: not used; rows carry an id of their own.
      row: the row.
      options: not used.

    Raises:
      BrokenRecordError: a column is missing or holds something else.
      UnsupportedProblemError: its tests call a function.
    """
    return Problem(
        id=f"live_code_bench/{required_field(row, 'question_id', str)}",
        source="live_code_bench",
        category=optional_field(row, "difficulty", str, ""),
        statement=required_field(row, "question_content", str),
        difficulty=difficulty_field(row, "difficulty"),
        rating=0,
        time_limit_s=TIME_LIMIT_S,
        memory_limit_bytes=MEMORY_BYTES,
        checker=CHECKER,
        solutions=(),
        tests=tuple(test for column, origin in ORIGINS.items() for test in _tests(row, column, origin)),
    )


def _tests(row: Mapping[str, object], column: str, origin: str) -> Iterator[Test]:
    for index, case in enumerate(_cases(optional_field(row, column, (str, list), "[]"), column)):
        kind = optional_field(case, "testtype", str, "stdin")
        if kind != "stdin":
            raise UnsupportedProblemError("functional_tests", f"{column}[{index}].testtype = {kind[:40]!r}")
        output = required_field(case, "output", str)
        yield Test(int(TestKind.ORIGINAL), required_field(case, "input", str), output, origin)


def _cases(value: str | list, column: str) -> list:
    """Return the test cases of a column: a list, JSON in a text, or a packed text of JSON."""
    if isinstance(value, list):
        return value
    try:
        cases = json.loads(value) if value.lstrip().startswith("[") else json.loads(unpack_text(value))
    except (ValueError, RecursionError) as error:
        raise BrokenRecordError(f"{column}: expected JSON, or JSON packed in base 64 ({error})") from None
    if not isinstance(cases, list):
        raise BrokenRecordError(f"{column}: expected a list of tests")
    return cases


def unpack_text(packed: str) -> str:
    """Unpack a text from a compressed pickle in base 64, without executing anything of the pickle.

    Args:
      packed: the base 64 text.

    Raises:
      ValueError: it is no such thing, unpacks to more than a gibibyte, or holds anything but one text.
    """
    try:
        unpacking = zlib.decompressobj()
        pickled = unpacking.decompress(base64.b64decode(packed, validate=True), MAX_UNPACKED_BYTES)
    except (zlib.error, binascii.Error) as error:
        raise ValueError(str(error)) from None
    if unpacking.unconsumed_tail:
        raise ValueError(f"more than {MAX_UNPACKED_BYTES} bytes")
    texts: list[str] = []
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name in _TEXTS:
            texts.append(str(argument))
        elif opcode.name not in _HARMLESS:
            raise ValueError(f"a pickle with {opcode.name} instead of a text alone")
    if len(texts) != 1:
        raise ValueError(f"a pickle of {len(texts)} texts instead of one")
    return texts[0]
