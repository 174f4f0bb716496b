"""Edge: how a problem package wants outputs judged: its type, its validator, and the arguments of the default one."""

import pathlib
import shlex
from collections.abc import Callable, Mapping
from typing import NamedTuple

from beam_pipelines.sources.languages import language_of_file
from beam_pipelines.sources.reading import BrokenRecordError, UnsupportedProblemError, optional_field

# A scoring problem that the default validator judges has full score where every test is right: that is judged here.
UNJUDGED_TYPES = {"submit-answer": "submit_answer"}
INTERACTIVE, MULTI_PASS = "interactive", "multi-pass"
DEFAULT_PASSES = 2
VALIDATOR_FOLDERS = ("output_validator", "output_validators")
# Settings of a group of tests: of format 2025-09, and of the older ones.
GROUP_FILES = ("test_group.yaml", "testdata.yaml")
GENERATORS_FILE = "generators/generators.yaml"
ARGUMENT_KEYS = ("output_validator_args", "output_validator_flags", "validator_flags")
SENSITIVE = ("case_sensitive", "space_change_sensitive")
TOLERANCES = ("float_tolerance", "float_absolute_tolerance", "float_relative_tolerance")

# Of a validator's main file, where it has several.
MAIN_NAMES = ("main", "__main__", "validate", "validator", "output_validator")

Arguments = tuple[str, ...]
ReadSettings = Callable[[pathlib.Path], Mapping[str, object]]


class Validator(NamedTuple):
    """A program that judges outputs by the convention of the format.

    Attributes:
      program: its main source.
      language: the sandbox's name of its language.
      files: its other files by name.
      is_interactive: whether it talks to the program under test instead of reading its output.
      passes: how often, at most, it lets the program under test run on one test.
    """

    program: str
    language: str
    files: Mapping[str, str]
    is_interactive: bool
    passes: int = 1


def read_validator(package: pathlib.Path, manifest: Mapping[str, object]) -> Validator | None:
    """Return the package's own validator of outputs; None where the default one judges.

    The legacy format says so in `validation`, the later ones in `type` and by a folder with a validator.

    Args:
      package: directory of the package.
      manifest: what `problem.yaml` says.

    Raises:
      UnsupportedProblemError: one run does not judge the problem, or the validator is none that the sandbox runs. The
        error's reason is the kind of problem.
    """
    validation = str(manifest.get("validation") or "default").split()
    kinds = manifest.get("type") or "pass-fail"
    words = {str(kind) for kind in (kinds if isinstance(kinds, list) else [kinds])} | set(validation[1:])
    for kind, reason in UNJUDGED_TYPES.items():
        if kind in words:
            raise UnsupportedProblemError(reason, f"type: {kind}")
    is_legacy = str(manifest.get("problem_format_version") or "legacy").startswith("legacy") and "type" not in manifest
    own = [package / folder for folder in VALIDATOR_FOLDERS if _has_program(package / folder)]
    is_interactive = INTERACTIVE in words
    if MULTI_PASS in words:
        limits = dict(optional_field(manifest, "limits", dict, {}))
        passes = optional_field(limits, "validation_passes", int, DEFAULT_PASSES)
        folder = own[0] if own else package / VALIDATOR_FOLDERS[0]
        return _validator(folder, is_interactive=is_interactive)._replace(passes=passes)
    if is_interactive or validation[0] != "default" or (own and not (is_legacy and "validation" in manifest)):
        return _validator(own[0] if own else package / VALIDATOR_FOLDERS[1], is_interactive=is_interactive)
    return None


def _has_program(folder: pathlib.Path) -> bool:
    return folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())


def _validator(folder: pathlib.Path, *, is_interactive: bool) -> Validator:
    """Read a validator: one source file, or a program of several files in one folder."""
    kind = INTERACTIVE if is_interactive else "special_judge"
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    sources = [path for path in paths if language_of_file(path)]
    if len({path.parent for path in sources}) > 1 and all(path.parent != folder for path in sources):
        raise UnsupportedProblemError(kind, f"{folder.name}: several validators")
    if not sources or any(path.name in ("build", "run") for path in paths):
        raise UnsupportedProblemError(kind, f"{folder.name}: no source that the sandbox can run as it is")
    # Of several sources, the one with a usual name is what runs; for compiled ones the order does not matter.
    main = min(sources, key=lambda path: (path.stem not in MAIN_NAMES, path.name))
    language = language_of_file(main)
    files = {path.name: path.read_text("utf-8-sig", errors="replace") for path in paths if path != main}
    return Validator(main.read_text("utf-8-sig", errors="replace"), language, files, is_interactive)


def validator_arguments(
    path: pathlib.Path, package: pathlib.Path, manifest: Mapping[str, object], read: ReadSettings
) -> Arguments:
    """Return the arguments of the output validator for one test.

    The test's own settings count, else those of the nearest group above it, else those that `generators.yaml` would
    write for all tests, where a package comes without the files that it generates, else those of the manifest.

    Args:
      path: the test's input file.
      package: directory of the package.
      manifest: what `problem.yaml` says.
      read: returns what a YAML file says, nothing for a file that is not there.
    """
    places = [path.with_suffix(".yaml")]
    for folder in path.relative_to(package).parents[:-1]:
        places += [package / folder / name for name in GROUP_FILES]
    planned = read(package / GENERATORS_FILE)
    groups = [group for name in GROUP_FILES if isinstance(group := planned.get(name), dict)]
    for settings in (*map(read, places), *groups, manifest):
        for key in ARGUMENT_KEYS:
            if settings.get(key) is not None:
                return _words(settings[key], key)
    return ()


def _words(value: object, key: str) -> Arguments:
    """Split a sequence of arguments, or a text of them, into words."""
    if isinstance(value, str):
        return tuple(shlex.split(value))
    if isinstance(value, list):
        return tuple(word for item in value for word in shlex.split(str(item)))
    raise BrokenRecordError(f"{key} = {str(value)[:40]!r}: expected a sequence of arguments")


def choose_checker(arguments: Arguments) -> str:
    """Name the sandbox's comparison that does what the default validator does with these arguments.

    Args:
      arguments: of the default validator.

    Raises:
      BrokenRecordError: an argument is unknown, or a tolerance is no number.
    """
    parts, words = ["kattis"], iter(arguments)
    for word in words:
        if word in SENSITIVE:
            parts.append(word)
        elif word in TOLERANCES:
            parts.append(f"{word}={_tolerance(next(words, ''), word)!r}")
        else:
            raise BrokenRecordError(
                f"output_validator_args: {word[:40]!r}: expected arguments of the default validator"
            )
    return ":".join(parts)


def _tolerance(text: str, word: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BrokenRecordError(f"{word} = {text[:40]!r}: expected a number") from None
