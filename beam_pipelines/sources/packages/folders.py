"""Edge: directories of problem packages, here or in a bucket: which there are, and one record of each.

A package is many small files that refer to each other: one in a bucket is copied to the worker that reads it.
"""

import configparser
import functools
import pathlib
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator

import yaml

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Problem, Rejection
from beam_pipelines.remote_files import existing_place, local_directory
from beam_pipelines.sources.reading import ReadSource, UnsupportedProblemError
from optimrl_jax.jobs.errors import require

ParsePackage = Callable[[pathlib.Path, BuildOptions], Problem]


def read_package_source(options: BuildOptions, source: str, parse: ParsePackage, *, manifest: str) -> ReadSource:
    """Make a source whose records are packages: the input itself, or the directories in it.

    Args:
      options: `input` and `limit` say which.
      source: begins the ids of rejected packages.
      parse: makes a problem of a package's directory, or raises why it cannot.
      manifest: name of the file that makes a directory a package.

    Raises:
      UserError: there is no such directory, or no package in it.
    """
    root = existing_place(options.input, "--input", is_directory=True)
    is_package = (root / manifest).exists()
    packages = [root] if is_package else [path for path in sorted(root.iterdir()) if (path / manifest).exists()]
    require(bool(packages), "--input", options.input, f"a package ({manifest}) or a directory of packages")
    parse_one = functools.partial(_parse_block, source=source, parse=parse)
    return ReadSource([(str(path),) for path in packages[: options.limit or None]], parse_one, options)


def _parse_block(
    block: tuple[str], options: BuildOptions, *, source: str, parse: ParsePackage
) -> Iterator[Problem | Rejection]:
    """Yield the one record of a package's directory: a problem, or a rejection that says why it is none."""
    with local_directory(block[0]) as package:
        name = f"{source}/{package.name}"
        try:
            yield parse(package, options)
        except UnsupportedProblemError as error:
            yield Rejection(name, "read", error.reason, str(error))
        except (ValueError, yaml.YAMLError, configparser.Error, ElementTree.ParseError, RecursionError) as error:
            yield Rejection(name, "read", "broken_record", " ".join(str(error).split())[:200])
