"""Edge: programs that judge the outputs of one problem: of its source, of its package, or from a file of the user's.

Where several outputs are right, no comparison decides. A problem then carries such a program as its checker, in the
form that the sandbox reads; it runs there only, in a container of its own.
"""

import dataclasses
import functools
import json
import re
from collections.abc import Mapping
from typing import TypeVar

from beam_pipelines.records import Generator, Problem
from beam_pipelines.remote_files import existing_place
from optimrl_jax.jobs.errors import UserError
from sandbox.protocol import JudgeProgram, ProblemPrograms, from_dict, to_json

Checkers = Mapping[str, str]
Program = TypeVar("Program", bound=JudgeProgram | Generator)
TESTLIB = "testlib.h"
_INCLUDES_TESTLIB = re.compile(r'^\s*#\s*include\s*[<"]testlib\.h[>"]', re.MULTILINE)

_ANY_ANSWER = re.compile(
    r"\b(?:print|output|report|return|write|display) "
    r"(?:any\b|(?:\S+ ){1,6}any (?:order|of (?:them|these|those)|such|suitable|valid|correct|possible)\b)",
    re.IGNORECASE,
)


def accepts_any_answer(statement: str) -> bool:
    """Tell whether a statement asks to print any of several right answers, or parts of one in any order."""
    return _ANY_ANSWER.search(" ".join(statement.split())) is not None


def lacks_testlib(program: JudgeProgram | Generator) -> bool:
    """Tell whether a program includes the header testlib.h without bringing it along."""
    return TESTLIB not in program.files and _INCLUDES_TESTLIB.search(program.program) is not None


def with_testlib(program: Program, path: str) -> Program:
    """Give a program the header testlib.h from a file; raises UserError where that is not there."""
    return dataclasses.replace(program, files={**program.files, TESTLIB: _read_testlib(path)})


def parse_programs(value: object, *, path: str = "") -> JudgeProgram | ProblemPrograms:
    """Read the judging programs of a problem from parsed JSON: of an interactive one, or the one that judges outputs.

    Args:
      value: what was parsed.
      path: what the fields' names begin with in errors.

    Raises:
      InvalidRequestError: a field is missing, unknown or of another type.
    """
    is_interactive = isinstance(value, dict) and "interactor" in value
    return from_dict(ProblemPrograms if is_interactive else JudgeProgram, value, path=path)


def add_checker(problem: Problem, known: Checkers) -> Problem:
    """Let a program judge a problem in place of its checker, where a file has one for it.

    Args:
      problem: any problem; not changed.
      known: as `read_checkers` returns it; names may lack the source in front of the id.
    """
    found = known.get(problem.id) or known.get(problem.id.partition("/")[2])
    return dataclasses.replace(problem, checker=found) if found else problem


@functools.lru_cache(maxsize=1)
def read_checkers(path: str) -> Checkers:
    """Read judging programs from a JSON file; the last file read is cached.

    Args:
      path: a JSON object: name of a problem -> object with `program` and, where they differ from the defaults of
        `sandbox.protocol.JudgeProgram`, its other fields, or with the fields of `ProblemPrograms`; empty for none.

    Returns:
      Name of the problem -> its checker.

    Raises:
      UserError: the file is not there or holds something else.
    """
    if not path:
        return {}
    file = existing_place(path, "--checkers")
    try:
        judges = json.loads(file.read_bytes().decode("utf-8-sig")).items()
        return {name: to_json(parse_programs(judge)) for name, judge in judges}
    except (ValueError, AttributeError, RecursionError) as error:
        expected = "a JSON object of judging programs by problem"
        raise UserError(f"--checkers = {path!r}: expected {expected} ({type(error).__name__}: {error})") from None


@functools.lru_cache(maxsize=1)
def _read_testlib(path: str) -> str:
    return existing_place(path, "--testlib").read_bytes().decode("utf-8-sig")
