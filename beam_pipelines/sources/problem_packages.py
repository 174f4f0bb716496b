"""Edge: ICPC/Kattis problem packages: one directory a problem, with problem.yaml, data, submissions and generators.

Accepted Python submissions are correct solutions; wrong_answer and run_time_error ones are incorrect. Submissions that
are only too slow are neither and are counted. Programs in `generators` are input generators, read as data. Packages
with a validator of their own cannot be judged by comparing outputs and are rejected.
"""

import pathlib
import re
from collections.abc import Iterator, Mapping

import yaml

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Generator, Label, Problem, Rejection, Solution, Test, count_stage
from beam_pipelines.sources.reading import BrokenRecordError, ReadSource, optional_field
from optimrl_jax.arrays import TestKind
from optimrl_jax.errors import require
from optimrl_jax.jobs.user_paths import existing_path

MANIFEST = "problem.yaml"
LABEL_OF_FOLDER = {"accepted": Label.CORRECT, "wrong_answer": Label.INCORRECT, "run_time_error": Label.INCORRECT}
STATEMENTS = ("problem_statement", "statement")
STATEMENT_NAMES = ("problem.en.md", "problem.en.tex", "problem.md", "problem.tex")
ORIGIN_OF_FOLDER = {"sample": "public", "secret": "private"}
DEFAULT_TIME_LIMIT_S = 2.0
DEFAULT_MEMORY_MIB = 2048


def read_packages(options: BuildOptions) -> ReadSource:
    root = existing_path(options.input, "--input", is_directory=True)
    packages = [root] if (root / MANIFEST).exists() else sorted(path for path in root.iterdir() if path.is_dir())
    require(bool(packages), "--input", options.input, "a problem package or a directory of packages")
    return ReadSource([(str(path),) for path in packages[: options.limit or None]], parse_package_block, options)


def parse_package_block(block: tuple[str], options: BuildOptions) -> Iterator[Problem | Rejection]:
    yield parse_package(pathlib.Path(block[0]))


def parse_package(package: pathlib.Path) -> Problem | Rejection:
    """One package as a problem, or why it is none."""
    name = f"packages/{package.name}"
    if not (package / MANIFEST).is_file():
        return Rejection(name, "read", "no_problem_yaml")
    try:
        return problem_from_package(package)
    except (ValueError, OSError, yaml.YAMLError) as error:
        return Rejection(name, "read", "broken_record", " ".join(str(error).split()))


def problem_from_package(package: pathlib.Path) -> Problem:
    """A problem from a package's directory; raises Broken naming what does not fit."""
    manifest = yaml.safe_load((package / MANIFEST).read_text("utf-8-sig")) or {}
    if not isinstance(manifest, Mapping):
        raise BrokenRecordError(f"{MANIFEST}: expected a mapping")
    manifest = dict(manifest)
    limits = dict(optional_field(manifest, "limits", dict, {}))
    solutions = tuple(_solutions(package))
    problem = Problem(
        id=f"packages/{package.name}",
        source="packages",
        category=str(manifest.get("source") or ""),
        statement=_statement(package),
        difficulty=0,
        rating=0,
        time_limit_s=_time_limit_s(package, limits),
        memory_limit_bytes=int(optional_field(limits, "memory", int, DEFAULT_MEMORY_MIB)) << 20,
        checker=checker_of_manifest(manifest),
        solutions=solutions,
        tests=tuple(_tests(package)),
        generators=tuple(
            Generator(path.name, path.read_text("utf-8-sig")) for path in sorted((package / "generators").glob("*.py"))
        ),
    )
    too_slow = len(list((package / "submissions" / "time_limit_exceeded").glob("*.py")))
    return count_stage(problem, "read", too_slow=too_slow)


def checker_of_manifest(manifest: Mapping[str, object]) -> str:
    """The named output comparison that the manifest asks for; raises Broken for a validator of the package's own."""
    kind = str(manifest.get("validation") or "default")
    if kind.split()[0] != "default":
        raise BrokenRecordError(f"validation = {kind!r}: expected default (outputs are compared, not validated)")
    flags = str(manifest.get("validator_flags") or manifest.get("output_validator_flags") or "")
    tolerance = re.search(r"float(?:_absolute|_relative)?_tolerance\s+(\S+)", flags)
    return f"float_{float(tolerance[1]):.0e}".replace("e-0", "e-") if tolerance else "lines"


def _time_limit_s(package: pathlib.Path, limits: Mapping[str, object]) -> float:
    if (package / ".timelimit").is_file():
        return float((package / ".timelimit").read_text())
    return float(optional_field(limits, "time_limit", (int, float), DEFAULT_TIME_LIMIT_S))


def _statement(package: pathlib.Path) -> str:
    for folder in STATEMENTS:
        for name in STATEMENT_NAMES:
            if (package / folder / name).is_file():
                return (package / folder / name).read_text("utf-8-sig")
    raise BrokenRecordError(f"{STATEMENTS[0]}: expected one of {', '.join(STATEMENT_NAMES)}")


def _tests(package: pathlib.Path) -> Iterator[Test]:
    for folder, origin in ORIGIN_OF_FOLDER.items():
        for path in sorted((package / "data" / folder).rglob("*.in")):
            answer = path.with_suffix(".ans")
            if not answer.is_file():
                raise BrokenRecordError(f"{answer.relative_to(package)}: expected the answer to {path.name}")
            yield Test(int(TestKind.ORIGINAL), path.read_text("utf-8"), answer.read_text("utf-8"), origin)


def _solutions(package: pathlib.Path) -> Iterator[Solution]:
    for folder, label in LABEL_OF_FOLDER.items():
        for path in sorted((package / "submissions" / folder).glob("*.py")):
            yield Solution(f"{folder}/{path.name}", path.read_text("utf-8-sig"), label)
