"""The corpus that ships with the package: original problems, no files and no network."""

from collections.abc import Iterator

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Problem
from beam_pipelines.sources.mini import mini_problems
from beam_pipelines.sources.reading import ReadSource


def read_embedded(options: BuildOptions) -> ReadSource:
    """Return the source that reads the embedded corpus; of the options only `limit` and `generators` count."""
    count = len(mini_problems())
    return ReadSource([(index,) for index in range(min(count, options.limit or count))], _problem, options)


def _problem(block: tuple[int], options: BuildOptions) -> Iterator[Problem]:
    yield mini_problems()[block[0]]
