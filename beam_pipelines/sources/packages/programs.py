"""Edge: the programs of a problem package: submissions with what they are expected to do, and input generators."""

import dataclasses
import fnmatch
import itertools
import pathlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import yaml

from beam_pipelines.records import Generator, Label, Solution
from beam_pipelines.sources.languages import language_named, language_of_file
from beam_pipelines.sources.reading import optional_field

# Verdicts that tests may have and that one test must have, by folder, as the format lays down.
PERMITTED = {"accepted": {"AC"}}
REQUIRED = {
    "accepted": {"AC"},
    "wrong_answer": {"WA"},
    "run_time_error": {"RTE"},
    "time_limit_exceeded": {"TLE"},
    "brute_force": {"RTE", "TLE"},
    "rejected": {"RTE", "TLE", "WA"},
}
# DOMjudge's mark in a source file; the words that it uses for the three ways to fail.
EXPECTED_RESULTS = re.compile(r"@EXPECTED_RESULTS@:\s*([\w,\- ]+)")
VERDICT_OF_WORD = {
    "CORRECT": "AC",
    "ACCEPTED": "AC",
    "WRONG-ANSWER": "WA",
    "WRONG_ANSWER": "WA",
    "NO-OUTPUT": "WA",
    "RUN-ERROR": "RTE",
    "RUN_TIME_ERROR": "RTE",
    "TIMELIMIT": "TLE",
    "TIME_LIMIT_EXCEEDED": "TLE",
}
ALL_VERDICTS = {"AC", "WA", "RTE", "TLE"}
FAILURES = {"WA", "RTE"}
CLASS_MARKS = ("class InputGenerator", "def generate_input")
# A command that is to be run a hundred times differs in its seed, and a campaign calls it again and again anyway.
MOST_COUNTED = 8


@dataclasses.dataclass(frozen=True)
class Submissions:
    """The submissions of a package.

    Attributes:
      solutions: of all languages, with labels.
      left_out: reason -> submissions that were left out for it.
    """

    solutions: tuple[Solution, ...]
    left_out: Mapping[str, int]


def read_submissions(folder: pathlib.Path) -> Submissions:
    """Read every program in the folders of `submissions`: a file, or a directory with one source file.

    A program that must pass all tests is correct, one that must fail one by its answer or by crashing is incorrect.
    Those that may be only too slow are neither, and are left out, as are programs of several files.

    Args:
      folder: the directory `submissions` of a package; one that is not there has none.

    Raises:
      BrokenRecordError, yaml.YAMLError: `submissions.yaml` does not fit.
    """
    settings = _read_yaml(folder / "submissions.yaml")
    solutions: list[Solution] = []
    left_out: Counter[str] = Counter(too_slow=0, several_files=0)
    for path in sorted(path for path in folder.glob("*/*") if not path.name.startswith(".")):
        name = str(path.relative_to(folder))
        own = [value for pattern, value in settings.items() if matches(pattern, name) and isinstance(value, dict)]
        sources = [path] if path.is_file() else [file for file in path.rglob("*") if _is_source(file)]
        if len(sources) != 1:
            left_out["several_files"] += 1
            continue
        program = sources[0].read_text("utf-8-sig", errors="replace")
        label = _label(path.parent.name, own, program)
        language = next((str(value["language"]) for value in own if value.get("language")), "")
        if label is None:
            left_out["too_slow"] += 1
        else:
            named = language_named(language) or language_of_file(sources[0])
            solutions.append(Solution(name, program, label, language=named))
    return Submissions(tuple(solutions), dict(left_out))


def _is_source(path: pathlib.Path) -> bool:
    return path.is_file() and bool(language_of_file(path))


def _label(folder: str, settings: Sequence[Mapping[str, object]], program: str) -> Label | None:
    """Return the label that the permitted and required verdicts give; None where they give neither."""
    permitted, required = PERMITTED.get(folder, ALL_VERDICTS), REQUIRED.get(folder, ALL_VERDICTS)
    if folder not in REQUIRED and (match := EXPECTED_RESULTS.search(program)):
        words = {word.strip().upper() for word in match[1].split(",")}
        # With an unknown word the program may be only too slow, which leaves it without a label.
        required = {VERDICT_OF_WORD.get(word, "TLE") for word in words if word}
        permitted = required | {"AC"}
    for value in settings:
        permitted = permitted & set(optional_field(value, "permitted", list, sorted(ALL_VERDICTS)))
        required = set(optional_field(value, "required", list, sorted(required)))
    if permitted == {"AC"} or required == {"AC"}:
        return Label.CORRECT if permitted >= {"AC"} else None
    return Label.INCORRECT if required <= FAILURES else None


def matches(pattern: str, name: str) -> bool:
    """Tell whether a glob pattern of `submissions.yaml` matches a path or a directory above it.

    Args:
      pattern: `*` stays inside a name; braces give alternatives.
      name: path below `submissions`, with forward slashes.
    """
    parts = name.split("/")
    for plain in _expand_braces(pattern):
        wanted = plain.strip("/").split("/")
        if len(wanted) <= len(parts) and all(map(fnmatch.fnmatchcase, parts, wanted)):
            return True
    return False


def _expand_braces(pattern: str) -> Iterator[str]:
    match = re.search(r"\{([^{}]*)\}", pattern)
    if not match:
        yield pattern
        return
    for choice in match[1].split(","):
        yield from _expand_braces(pattern[: match.start()] + choice + pattern[match.end() :])


def read_generators_of_package(folder: pathlib.Path) -> tuple[tuple[Generator, ...], int]:
    """Read the input generators of a package.

    A Python program that defines `InputGenerator` or `generate_input` is called. Any other Python program is started
    with the arguments with which `generators.yaml` starts it, and prints an input.

    Args:
      folder: the directory `generators` of a package; one that is not there has none.

    Returns:
      The generators that can be run, and how many other programs there are.
    """
    commands = _commands(_read_yaml(folder / "generators.yaml"))
    generators, others = [], 0
    for path in sorted(folder.glob("*")):
        if path.is_dir() or path.suffix in ("", ".yaml", ".md", ".txt", ".h", ".hpp", ".in"):
            continue
        own = tuple(commands.get(path.name, ()))
        program = path.read_text("utf-8-sig", errors="replace")
        if language_of_file(path) == "python3" and any(mark in program for mark in CLASS_MARKS):
            generators.append(Generator(path.name, program))
        elif language_of_file(path) == "python3" and own:
            generators.append(Generator(path.name, program, commands=own))
        else:
            others += 1
    return tuple(generators), others


def _commands(settings: Mapping[str, object]) -> dict[str, list[str]]:
    """Collect the arguments of each program, in the order in which they stand under `data`."""
    found: dict[str, list[str]] = {}
    for command, count in _walk(settings.get("data")):
        program, _, arguments = command.strip().partition(" ")
        own = found.setdefault(program.removeprefix("/generators/"), [])
        for number in itertools.islice(itertools.count(1), min(count, MOST_COUNTED)):
            text = arguments.replace("{count}", str(number)).strip()
            if text not in own:
                own.append(text)
    return found


def _walk(node: object) -> Iterator[tuple[str, int]]:
    """Yield the commands below a node, each with how often it is run."""
    if isinstance(node, str):
        yield node, 1
    elif isinstance(node, list):
        for item in node:
            yield from _walk(item)
    elif isinstance(node, dict) and isinstance(node.get("generate"), str):
        count = node.get("count", 1)
        yield node["generate"], count if isinstance(count, int) else 1
    elif isinstance(node, dict):
        # A directory has its tests under `data`; a test that is written out has `in`, `ans`, `copy` or a hint.
        below = [node["data"]] if "data" in node else [value for key, value in node.items() if key not in ("in", "ans")]
        if not {"in", "copy"} & set(node):
            for value in below:
                yield from _walk(value)


def _read_yaml(path: pathlib.Path) -> dict[str, object]:
    value = yaml.safe_load(path.read_text("utf-8-sig")) if path.is_file() else {}
    return value if isinstance(value, dict) else {}
