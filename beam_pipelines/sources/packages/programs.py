"""Edge: the submissions of a problem package, with what they are expected to do."""

import dataclasses
import fnmatch
import pathlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from beam_pipelines.records import Label, Solution
from beam_pipelines.sources.languages import language_named, language_of_file
from beam_pipelines.sources.packages.generators import read_settings
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
    settings = read_settings(folder / "submissions.yaml")
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
