"""Edge: the input generators of a problem package, with the commands that `generators.yaml` starts them with."""

import itertools
import pathlib
from collections.abc import Iterator, Mapping

import yaml

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Generator
from beam_pipelines.sources.languages import language_of_file
from beam_pipelines.sources.own_generators import runnable_generator

# A command that is to be run a hundred times differs in its seed, and a campaign calls it again and again anyway.
MOST_COUNTED = 8
HEADERS = (".h", ".hpp")


def read_generators_of_package(folder: pathlib.Path, options: BuildOptions) -> tuple[tuple[Generator, ...], int]:
    """Read the input generators of a package.

    A program is a file, a directory with source files, or what `generators.yaml` lists under `generators`: a main file
    and those that it needs. What `own_generators` says of commands and of testlib.h holds.

    Args:
      folder: the directory `generators` of a package; one that is not there has none.
      options: `testlib` counts.

    Returns:
      The generators that can be run, and how many other programs there are.
    """
    settings = read_settings(folder / "generators.yaml")
    commands = _commands(settings)
    programs = [_program(name, paths, commands.get(name, ())) for name, paths in _sources(folder, settings).items()]
    found = [runnable_generator(program, options) for program in programs]
    return tuple(one for one in found if one), found.count(None)


def read_settings(path: pathlib.Path) -> dict[str, object]:
    """Read a YAML file that holds a mapping; one that is not there, or holds anything else, has no settings."""
    value = yaml.safe_load(path.read_text("utf-8-sig")) if path.is_file() else {}
    return value if isinstance(value, dict) else {}


def _sources(folder: pathlib.Path, settings: Mapping[str, object]) -> dict[str, list[pathlib.Path]]:
    """Return the files of each program by its name, the main one first."""
    headers = [path for path in sorted(folder.glob("*")) if path.suffix in HEADERS and path.is_file()]
    found: dict[str, list[pathlib.Path]] = {}
    for name, files in _mapping(settings.get("generators")).items():
        paths = [folder / str(file) for file in files] if isinstance(files, list) else []
        if paths and all(path.is_file() and path.parent == folder for path in paths):
            found[name] = paths
    named = {path for paths in found.values() for path in paths}
    for path in sorted(folder.glob("*")):
        inside = sorted(file for file in path.glob("*") if file.is_file()) if path.is_dir() else []
        sources = [file for file in inside if language_of_file(file)]
        # What is built or started by a script of its own is no program of one language.
        if len(sources) == 1 and not {"build", "run"} & {file.name for file in inside}:
            found[path.name] = [*sources, *(file for file in inside if file not in sources)]
        elif path.is_file() and path not in named and language_of_file(path):
            found[path.name] = [path, *headers]
    return found


def _program(name: str, paths: list[pathlib.Path], commands: tuple[str, ...]) -> Generator:
    main, *others = paths
    return Generator(
        name,
        main.read_text("utf-8-sig", errors="replace"),
        commands=tuple(commands),
        language=language_of_file(main),
        files={path.name: path.read_text("utf-8-sig", errors="replace") for path in others},
    )


def _commands(settings: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Collect the arguments of each program, in the order in which they stand under `data`."""
    found: dict[str, dict[str, None]] = {}
    for command, count in _walk(settings.get("data")):
        program, _, arguments = command.strip().partition(" ")
        own = found.setdefault(program.removeprefix("/generators/"), {})
        for number in itertools.islice(itertools.count(1), min(count, MOST_COUNTED)):
            own[arguments.replace("{count}", str(number)).strip()] = None
    return {program: tuple(own) for program, own in found.items()}


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


def _mapping(value: object) -> dict[str, object]:
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}
