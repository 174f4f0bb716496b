"""What a build costs: executions, CPU hours and storage, measured on one corpus and scaled to another. Pure."""

import dataclasses
from collections.abc import Iterable

from beam_pipelines.records import StageCount

PAPER_PROBLEMS = 12_275


@dataclasses.dataclass(frozen=True)
class Cost:
    """`program_cpu_h` is the time of the programs alone, `sandbox_h` what stages waited, times the workers they had.

    `store_bytes` is the file of stored executions, which a finished dataset no longer needs.
    """

    problems: int
    executions: int
    program_cpu_h: float
    sandbox_h: float
    dataset_bytes: int
    store_bytes: int


def total_spent(traces: Iterable[Iterable[StageCount]]) -> dict[str, float]:
    """Executions, program_s and waited_s, summed over all stages of all problems, rejected ones included."""
    totals = {"executions": 0.0, "program_s": 0.0, "waited_s": 0.0}
    for trace in traces:
        for step in trace:
            for name, value in step.notes:
                if name in totals:
                    totals[name] += value
    return totals


def measure_cost(
    totals: dict[str, float], *, problems: int, workers: int, dataset_bytes: int, store_bytes: int
) -> Cost:
    """The cost of a build from the totals of `spent` and the sizes of what it left."""
    return Cost(
        problems=problems,
        executions=int(totals["executions"]),
        program_cpu_h=totals["program_s"] / 3600,
        sandbox_h=totals["waited_s"] * workers / 3600,
        dataset_bytes=dataset_bytes,
        store_bytes=store_bytes,
    )


def scale_cost(cost: Cost, *, problems: int = PAPER_PROBLEMS) -> Cost:
    """The same cost a problem for another number of problems; all zero where nothing was measured."""
    factor = problems / cost.problems if cost.problems else 0.0
    return Cost(
        problems=problems,
        executions=round(cost.executions * factor),
        program_cpu_h=cost.program_cpu_h * factor,
        sandbox_h=cost.sandbox_h * factor,
        dataset_bytes=round(cost.dataset_bytes * factor),
        store_bytes=round(cost.store_bytes * factor),
    )
