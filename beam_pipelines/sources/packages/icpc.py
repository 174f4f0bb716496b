"""Edge: ICPC/Kattis problem packages: one directory a problem, in the formats `legacy`, `2023-07` and `2025-09`.

Tests that the samples and secret data hold are original tests. How outputs are compared follows the arguments of the
default validator; a validator of the package's own judges in the sandbox, and talks to programs where the problem is
interactive, and asks for the next pass where a test takes several. What no run of a program judges (answers that are
submitted) is named and left out.
"""

import configparser
import functools
import pathlib
from collections.abc import Mapping

import yaml

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Problem, Test, count_stage
from beam_pipelines.sources.languages import select_languages
from beam_pipelines.sources.packages.folders import read_package_source
from beam_pipelines.sources.packages.generators import read_generators_of_package
from beam_pipelines.sources.packages.programs import read_submissions
from beam_pipelines.sources.packages.validation import (
    Arguments,
    Validator,
    choose_checker,
    read_validator,
    validator_arguments,
)
from beam_pipelines.sources.reading import (
    BrokenRecordError,
    ReadSource,
    UnsupportedProblemError,
    optional_field,
    own_checker,
)
from optimrl_jax.kinds import TestKind
from sandbox.protocol import Interactor, JudgeProgram, ProblemPrograms

SOURCE = "packages"
MANIFEST = "problem.yaml"
STATEMENTS = ("statement", "problem_statement")
STATEMENT_NAMES = ("problem.en.md", "problem.en.tex", "problem.md", "problem.tex")
ORIGIN_OF_FOLDER = {"sample": "public", "secret": "private"}
DEFAULT_TIME_LIMIT_S = 2.0
DEFAULT_MEMORY_MIB = 2048


def read_packages(options: BuildOptions) -> ReadSource:
    """Return the source that reads a problem package or a directory of them; raises UserError where there is none."""
    return read_package_source(options, SOURCE, problem_from_package, manifest=MANIFEST)


def problem_from_package(package: pathlib.Path, options: BuildOptions) -> Problem:
    """Make a problem of a package's directory.

    Args:
      package: holds `problem.yaml`.
      options: `languages`, `special_judges` and `testlib` count.

    Raises:
      BrokenRecordError: something is missing or does not fit; the message says what.
      UnsupportedProblemError: the problem is not judged by comparing outputs.
      ValueError, yaml.YAMLError, configparser.Error: a file cannot be parsed.
    """
    manifest = read_mapping(package / MANIFEST)
    validator = read_validator(package, manifest)
    limits = dict(optional_field(manifest, "limits", dict, {}))
    submissions = read_submissions(package / "submissions")
    accepted = select_languages(submissions.solutions, options)
    generators, others = read_generators_of_package(package / "generators", options)
    tests, arguments = _tests_and_arguments(package, manifest)
    problem = Problem(
        id=f"{SOURCE}/{package.name}",
        source=SOURCE,
        category=_source_name(manifest),
        statement=_statement(package),
        difficulty=0,
        rating=0,
        time_limit_s=_time_limit_s(package, limits),
        memory_limit_bytes=int(optional_field(limits, "memory", int, DEFAULT_MEMORY_MIB)) << 20,
        checker=_checker(validator, arguments, options),
        solutions=accepted,
        tests=tests,
        generators=generators,
        tags=_keywords(manifest),
    )
    return count_stage(
        problem,
        "read",
        **submissions.left_out,
        other_language=len(submissions.solutions) - len(accepted),
        other_generators=others,
    )


def _checker(validator: Validator | None, arguments: Arguments, options: BuildOptions) -> str:
    """Return the comparison of the default validator with these arguments, or the package's own validator with them."""
    if validator is None:
        return choose_checker(arguments)
    kind = Interactor if validator.is_interactive else JudgeProgram
    program = kind(
        validator.program,
        validator.language,
        "kattis",
        arguments=arguments,
        files=dict(validator.files),
        passes=validator.passes,
    )
    programs = ProblemPrograms(program) if isinstance(program, Interactor) else program
    return own_checker(programs, options, comparison="kattis")


def _tests_and_arguments(package: pathlib.Path, manifest: Mapping[str, object]) -> tuple[tuple[Test, ...], Arguments]:
    """Return the tests and the validator's arguments of the secret ones, without samples that have others."""
    # All tests of a group ask for the same files.
    settings = functools.lru_cache(maxsize=None)(read_mapping_if_there)
    found = [
        (test, validator_arguments(path, package, manifest, settings))
        for folder, origin in ORIGIN_OF_FOLDER.items()
        for path in sorted((package / "data" / folder).rglob("*.in"))
        for test in [_test(path, package, origin)]
    ]
    secret = {arguments for test, arguments in found if test.origin == ORIGIN_OF_FOLDER["secret"]}
    arguments = secret or {arguments for _, arguments in found} or {()}
    if len(arguments) > 1:
        raise UnsupportedProblemError("several_comparisons", f"{len(arguments)} ways of comparing outputs")
    (chosen,) = arguments
    return tuple(test for test, own in found if own == chosen), chosen


def _test(path: pathlib.Path, package: pathlib.Path, origin: str) -> Test:
    answer = path.with_suffix(".ans")
    if not answer.is_file():
        raise BrokenRecordError(f"{answer.relative_to(package)}: expected the answer to {path.name}")
    if path.with_suffix(".files").is_dir():
        raise UnsupportedProblemError("file_io", f"{path.with_suffix('.files').relative_to(package)} is given")
    return Test(int(TestKind.ORIGINAL), path.read_text("utf-8"), answer.read_text("utf-8"), origin)


def _statement(package: pathlib.Path) -> str:
    for folder in STATEMENTS:
        for name in STATEMENT_NAMES:
            if (package / folder / name).is_file():
                return (package / folder / name).read_text("utf-8-sig")
    raise BrokenRecordError(f"{STATEMENTS[0]}: expected one of {', '.join(STATEMENT_NAMES)}")


def _source_name(manifest: Mapping[str, object]) -> str:
    """Return the name of the contest: a text, an object with a name, or the first of a list of these."""
    source = manifest.get("source") or ""
    source = source[0] if isinstance(source, list) and source else source
    return str(source.get("name") or "" if isinstance(source, dict) else source)


def _keywords(manifest: Mapping[str, object]) -> tuple[str, ...]:
    """Return the keywords of a package: a list in later formats, words in the legacy one."""
    words = manifest.get("keywords") or ()
    return tuple(map(str, words)) if isinstance(words, list) else tuple(str(words).split()) if words else ()


def _time_limit_s(package: pathlib.Path, limits: Mapping[str, object]) -> float:
    if (package / ".timelimit").is_file():
        return float((package / ".timelimit").read_text())
    if (package / "domjudge-problem.ini").is_file():
        parser = configparser.ConfigParser()
        parser.read_string("[problem]\n" + (package / "domjudge-problem.ini").read_text("utf-8-sig"))
        return float(parser.get("problem", "timelimit", fallback=str(DEFAULT_TIME_LIMIT_S)).strip("'\""))
    return float(optional_field(limits, "time_limit", (int, float), DEFAULT_TIME_LIMIT_S))


def read_mapping(path: pathlib.Path) -> dict[str, object]:
    """Read a YAML file that holds a mapping; an empty file holds an empty one.

    Raises:
      BrokenRecordError: it holds something else.
      yaml.YAMLError: it is not YAML.
    """
    value = yaml.safe_load(path.read_text("utf-8-sig")) or {}
    if not isinstance(value, dict):
        raise BrokenRecordError(f"{path.name}: expected a mapping")
    return value


def read_mapping_if_there(path: pathlib.Path) -> dict[str, object]:
    """Read a YAML file as `read_mapping` does; a file that is not there holds an empty mapping."""
    return read_mapping(path) if path.is_file() else {}
