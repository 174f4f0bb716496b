"""Edge: input generators that were written beforehand, by hand or by a model: untrusted texts until they ran.

A JSON file maps problem names to lists of program texts. A JSON Lines file has one {problem, program, [id]} a line,
which is what `python -m beam_pipelines.sample_generators` stores; lines without a program are completions that held
none. A name is a problem's id, with or without the source in front.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping

from beam_pipelines.records import Generator, Problem
from beam_pipelines.remote_files import existing_place
from optimrl_jax.jobs.errors import UserError, require

Generators = Mapping[str, tuple[Generator, ...]]


def add_generators(problem: Problem, known: Generators) -> Problem:
    """Append to a problem's own generators those that a file has for it.

    Args:
      problem: any problem; not changed.
      known: as `read_generators` returns it; names may lack the source in front of the id.
    """
    more = known.get(problem.id) or known.get(problem.id.partition("/")[2], ())
    return dataclasses.replace(problem, generators=problem.generators + more) if more else problem


@functools.lru_cache(maxsize=1)
def read_generators(path: str) -> Generators:
    """Read the generators of a JSON or JSON Lines file; the last file read is cached.

    Args:
      path: the file; empty for no generators.

    Returns:
      Name of the problem -> its generators, in the order of the file.

    Raises:
      UserError: the file is not there or holds something else.
    """
    if not path:
        return {}
    file = existing_place(path, "--generators")
    try:
        text = file.read_bytes().decode("utf-8-sig")
        pairs = _lines(text) if file.suffix == ".jsonl" else _object(text)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        expected = "JSON lists of programs by problem, or JSON Lines of problem and program"
        raise UserError(f"--generators = {path!r}: expected {expected} ({type(error).__name__}: {error})") from None
    found: dict[str, tuple[Generator, ...]] = {}
    for name, generator in pairs:
        is_text = isinstance(name, str) and isinstance(generator.program, str)
        require(is_text, "--generators", path, "program texts by problem name")
        found[name] = (*found.get(name, ()), generator)
    return found


def _object(text: str) -> list[tuple[str, Generator]]:
    return [
        (name, Generator(f"{name}/{index}", program))
        for name, programs in json.loads(text).items()
        for index, program in enumerate(_list(programs))
    ]


def _list(programs: object) -> list:
    if not isinstance(programs, list):
        raise TypeError(f"{type(programs).__name__} instead of a list")
    return programs


def _lines(text: str) -> list[tuple[str, Generator]]:
    # Split at line feeds alone: U+2028 and U+0085, which str.splitlines cuts at, may stand inside the programs.
    rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    usable = [row for row in rows if row.get("program")]
    return [
        (
            row["problem"],
            Generator(str(row.get("id", f"line_{number}")), row["program"], campaign=row.get("campaign", "")),
        )
        for number, row in enumerate(usable)
    ]
