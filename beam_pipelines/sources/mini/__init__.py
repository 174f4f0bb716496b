"""The corpus that ships with the package: small original problems with programs of three speeds and labelled mistakes.

All text, deterministic, no files and no network. Nothing here runs a shipped program; `verify` does, in the sandbox.
"""

import functools

from beam_pipelines.records import Problem
from beam_pipelines.sources.mini.families import (
    blocks,
    divisors,
    frequency,
    intervals,
    pairs,
    segments,
    sorting,
    stack,
    subsequences,
    substrings,
    tree,
    windows,
)
from beam_pipelines.sources.mini.family import expand

FAMILIES = (
    pairs.FAMILY,
    segments.FAMILY,
    blocks.FAMILY,
    frequency.FAMILY,
    sorting.FAMILY,
    substrings.FAMILY,
    subsequences.FAMILY,
    tree.FAMILY,
    divisors.FAMILY,
    intervals.FAMILY,
    stack.FAMILY,
    windows.FAMILY,
)


@functools.cache
def problems() -> tuple[Problem, ...]:
    """All problems in a fixed order: families one after the other, nine instances each."""
    return tuple(problem for position, family in enumerate(FAMILIES) for problem in expand(family, position))
