"""Edge: Polygon packages: one directory a problem, described by its `problem.xml`.

Only packages that hold their tests can be read: tests and answers that a standard package leaves to be generated are
named as missing. Checkers of the standard library become the comparison that they stand for; other checkers, and
interactors, are run, and so are generators, with the commands that made the tests. Problems that read or write files
are named and left out.
"""

import pathlib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from typing import TypeVar

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Generator, Label, Problem, Solution, Test, count_stage
from beam_pipelines.sources.languages import language_named, select_languages
from beam_pipelines.sources.own_generators import runnable_generator
from beam_pipelines.sources.packages.folders import read_package_source
from beam_pipelines.sources.reading import (
    BrokenRecordError,
    ReadSource,
    UnsupportedProblemError,
    own_checker,
)
from optimrl_jax.kinds import TestKind
from sandbox.protocol import Interactor, JudgeProgram, ProblemPrograms

SOURCE = "polygon"
MANIFEST = "problem.xml"
DEFAULT_TIME_LIMIT_MS = 2000
DEFAULT_MEMORY_BYTES = 256 << 20
LARGEST_MANIFEST_BYTES = 16 << 20
# Checkers of the standard library and what they compare.
CHECKERS = {
    "fcmp": "lines",
    "lcmp": "tokens",
    "wcmp": "tokens",
    "hcmp": "tokens",
    "icmp": "tokens",
    "ncmp": "tokens",
    "yesno": "kattis",
    "nyesno": "kattis",
    "rcmp": "kattis:float_absolute_tolerance=1.5e-06",
    "acmp": "kattis:float_absolute_tolerance=1.5e-06",
    "dcmp": "float_1e-6",
    "rcmp4": "float_1e-4",
    "rcmp6": "float_1e-6",
    "rcmp9": "float_1e-9",
    "rncmp": "kattis:float_absolute_tolerance=1.5e-05",
}
LABELS = {
    "main": Label.CORRECT,
    "accepted": Label.CORRECT,
    "wrong-answer": Label.INCORRECT,
    "presentation-error": Label.INCORRECT,
    "failed": Label.INCORRECT,
}
Program = TypeVar("Program", bound=JudgeProgram)
STATEMENT_PARTS = ("legend", "input", "output", "interaction", "notes")


def read_polygon(options: BuildOptions) -> ReadSource:
    """Return the source that reads a Polygon package or a directory of them; raises UserError where there is none."""
    return read_package_source(options, SOURCE, problem_from_polygon, manifest=MANIFEST)


def problem_from_polygon(package: pathlib.Path, options: BuildOptions) -> Problem:
    """Make a problem of a package's directory.

    Args:
      package: holds `problem.xml`.
      options: `languages`, `special_judges` and `testlib` count.

    Raises:
      BrokenRecordError: something is missing or does not fit; the message says what.
      UnsupportedProblemError: the problem is not judged by comparing outputs.
      xml.etree.ElementTree.ParseError: the manifest is not XML.
    """
    root = _manifest(package / MANIFEST)
    judging, testset = root.find("judging"), root.find("judging/testset[@name='tests']")
    testset = root.find("judging/testset") if testset is None else testset
    if judging is None or testset is None:
        raise BrokenRecordError(f"{MANIFEST}: expected judging/testset")
    if judging.get("input-file") or judging.get("output-file"):
        raise UnsupportedProblemError("file_io", f"input-file = {judging.get('input-file')!r}")
    solutions, unlabelled = _solutions(package, root)
    accepted = select_languages(solutions, options)
    generators = [runnable_generator(one, options) for one in _generators(package, root, testset)]
    problem = Problem(
        id=f"{SOURCE}/{root.get('short-name') or package.name}",
        source=SOURCE,
        category="",
        statement=_statement(package, root),
        difficulty=0,
        rating=0,
        time_limit_s=_number(testset, "time-limit", DEFAULT_TIME_LIMIT_MS) / 1e3,
        memory_limit_bytes=_number(testset, "memory-limit", DEFAULT_MEMORY_BYTES),
        checker=_checker(package, root, options),
        solutions=accepted,
        tests=tuple(_tests(package, testset)),
        generators=tuple(one for one in generators if one),
        tags=tuple(tag.get("value", "") for tag in root.iterfind("tags/tag")),
    )
    others = {"other_language": len(solutions) - len(accepted), "other_generators": generators.count(None)}
    return count_stage(problem, "read", **others, **unlabelled)


def _manifest(path: pathlib.Path) -> ElementTree.Element:
    text = path.read_bytes()
    # Entities that stand for each other let a short text grow without end; a manifest has no use for any.
    if len(text) > LARGEST_MANIFEST_BYTES or b"<!ENTITY" in text:
        raise BrokenRecordError(f"{MANIFEST}: expected at most {LARGEST_MANIFEST_BYTES} bytes and no entities")
    return ElementTree.fromstring(text)


def _tests(package: pathlib.Path, testset: ElementTree.Element) -> Iterator[Test]:
    patterns = [testset.findtext(f"{name}-path-pattern", "") for name in ("input", "answer")]
    for number, test in enumerate(testset.iterfind("tests/test"), start=1):
        paths = [_inside(package, _numbered(pattern, number)) for pattern in patterns]
        for path in paths:
            if not path.is_file():
                raise BrokenRecordError(
                    f"{path.relative_to(package.resolve())}: expected this file: the full package has it"
                )
        origin = "public" if test.get("sample") == "true" else "private"
        given, wanted = (path.read_text("utf-8") for path in paths)
        yield Test(int(TestKind.ORIGINAL), given, wanted, origin)


def _numbered(pattern: str, number: int) -> str:
    """Fill a test's number into the one place that a pattern such as tests/%02d.a has for it."""
    try:
        return pattern % number
    except (TypeError, ValueError):
        raise BrokenRecordError(f"path-pattern = {pattern[:40]!r}: expected one place for a number") from None


def _inside(package: pathlib.Path, name: str) -> pathlib.Path:
    path = (package / name).resolve()
    if not path.is_relative_to(package.resolve()):
        raise BrokenRecordError(f"{name[:40]!r}: expected a path inside the package")
    return path


def _checker(package: pathlib.Path, root: ElementTree.Element, options: BuildOptions) -> str:
    """Return the comparison that a checker of the standard library stands for, or the programs that judge."""
    checker, interactor = root.find("assets/checker"), root.find("assets/interactor")
    name = "" if checker is None else checker.get("name", "")
    standard = name.removeprefix("std::").removesuffix(".cpp")
    if interactor is not None:
        programs = ProblemPrograms(
            _judging(package, root, interactor, kind=Interactor),
            None if checker is None else _judging(package, root, checker, kind=JudgeProgram),
        )
        return own_checker(programs, options, comparison="tokens")
    if name.startswith("std::") and standard in CHECKERS:
        return CHECKERS[standard]
    return own_checker(_judging(package, root, checker, kind=JudgeProgram), options, comparison="tokens")


def _judging(
    package: pathlib.Path, root: ElementTree.Element, node: ElementTree.Element | None, *, kind: type[Program]
) -> Program:
    """Read a checker or an interactor with the headers of the package."""
    source = None if node is None else node.find("source")
    path = _inside(package, "" if source is None else source.get("path", ""))
    if source is None or not path.is_file():
        raise UnsupportedProblemError(
            "special_judge", f"{node.tag if node is not None else 'checker'}: no source of it"
        )
    return kind(path.read_text("utf-8-sig", errors="replace"), _language(source), files=_headers(package, root))


def _headers(package: pathlib.Path, root: ElementTree.Element) -> dict[str, str]:
    return {
        place.name: place.read_text("utf-8-sig", errors="replace")
        for file in root.iterfind("files/resources/file")
        for place in [_inside(package, file.get("path", ""))]
        if place.suffix == ".h" and place.is_file()
    }


def _generators(package: pathlib.Path, root: ElementTree.Element, testset: ElementTree.Element) -> Iterator[Generator]:
    """Yield the programs that made tests, each with its commands in the order of the tests."""
    commands: dict[str, dict[str, None]] = {}
    for test in testset.iterfind("tests/test"):
        name, _, arguments = test.get("cmd", "").strip().partition(" ")
        commands.setdefault(name, {})[arguments.strip()] = None
    headers = _headers(package, root)
    for source in root.iterfind("files/executables/executable/source"):
        path = _inside(package, source.get("path", ""))
        if path.stem in commands and path.is_file():
            program = path.read_text("utf-8-sig", errors="replace")
            own = tuple(commands[path.stem])
            yield Generator(path.stem, program, commands=own, language=_language(source), files=headers)


def _solutions(package: pathlib.Path, root: ElementTree.Element) -> tuple[list[Solution], dict[str, int]]:
    """Return the solutions whose tags say that they are right or wrong, and count the others."""
    solutions, others = [], Counter(too_slow=0)
    for solution in root.iterfind("assets/solutions/solution"):
        source = solution.find("source")
        label = LABELS.get(solution.get("tag", ""))
        if label is None or source is None:
            others["too_slow"] += 1
            continue
        path = _inside(package, source.get("path", ""))
        if not path.is_file():
            raise BrokenRecordError(f"{source.get('path', '')[:60]!r}: expected this file")
        program = path.read_text("utf-8-sig", errors="replace")
        solutions.append(Solution(path.name, program, label, language=_language(source)))
    return solutions, dict(others)


def _language(source: ElementTree.Element) -> str:
    """Name the language of a source, whose type is as in cpp.g++17, java11, python.3 and python.pypy3-64."""
    kind = source.get("type", "")
    kind = kind.removeprefix("python.") if kind.startswith("python.pypy") else kind.replace(".", " ")
    return language_named(kind)


def _statement(package: pathlib.Path, root: ElementTree.Element) -> str:
    """Return the English statement in TeX, else the first one; of its sections, those that are there."""
    found = [node for node in root.iterfind("statements/statement") if node.get("type", "").endswith("tex")]
    english = [node for node in found if node.get("language") == "english"] or found
    language = english[0].get("language", "english") if english else "english"
    sections = package / "statement-sections" / language
    texts = [(sections / f"{part}.tex") for part in STATEMENT_PARTS]
    if any(path.is_file() for path in texts):
        return "\n\n".join(path.read_text("utf-8-sig").strip() for path in texts if path.is_file()) + "\n"
    path = _inside(package, english[0].get("path", "")) if english else package / "statement"
    if not path.is_file():
        raise BrokenRecordError("statements: expected a statement in TeX")
    return path.read_text("utf-8-sig")


def _number(node: ElementTree.Element, name: str, default: int) -> int:
    text = node.findtext(name, "").strip()
    if text and not text.isdecimal():
        raise BrokenRecordError(f"{name} = {text[:40]!r}: expected a whole number")
    return int(text) if text else default
