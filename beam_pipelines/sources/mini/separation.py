"""How far the speed classes of an instance are apart, from measured runs of its correct programs."""

import typing
from collections.abc import Mapping, Sequence

from beam_pipelines.records import Solution
from sandbox.protocol import RunResult

CLASSES = ("fast", "medium", "slow")


class Separation(typing.NamedTuple):
    """Time of the fastest program of a class over that of the slowest program of the next faster class."""

    medium_to_fast: float
    slow_to_medium: float


def least_s(solutions: Sequence[Solution], runs: Sequence[RunResult]) -> dict[str, float]:
    """Wall seconds by solution id: the least over the tests of a run, which are inputs of one size.

    On a shared host most runs may be disturbed, and a disturbed run is only ever slower.
    """
    return {
        solution.id: min(result.wall_s for result in run.results) for solution, run in zip(solutions, runs, strict=True)
    }


def separation(solutions: Sequence[Solution], seconds: Mapping[str, float]) -> Separation:
    """Gaps between neighbouring speed classes; above 1 no program of one class is as fast as one of the next."""
    times = {name: [seconds[one.id] for one in solutions if one.speed_class == name] for name in CLASSES}
    return Separation(
        min(times["medium"]) / max(times["fast"]),
        min(times["slow"]) / max(times["medium"]),
    )
