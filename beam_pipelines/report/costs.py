"""What a build costs: executions, hours and storage, measured on one corpus and scaled to another. Pure.

A corpus is not its number of problems: it costs solutions x tests x seconds. The paper's counts are those of App. B,
"Problem and solution counts" (Table 19) and "Test generation statistics by campaign" (Table 12).
"""

import dataclasses
from collections.abc import Iterable, Mapping

from beam_pipelines.records import StageCount

# Which stages run which kind of tests.
KIND_OF_STAGE = {
    "validate": "original",
    "generate_correctness": "correctness",
    "generate_optimization": "optimization",
    "time": "optimization",
}


@dataclasses.dataclass(frozen=True)
class Workload:
    """How much of one kind of tests a corpus executes.

    Attributes:
      solutions: of the whole corpus.
      tests: mean number per problem.
      runs: executions of each pair.
    """

    solutions: int
    tests: float
    runs: float = 1.0

    @property
    def executions(self) -> float:
        """Executions of the whole corpus."""
        return self.solutions * self.tests * self.runs


# Optimization tests are measured three times in our builds; the tests of a problem are means over problems.
PAPER_WORKLOAD = {
    "original": Workload(938_227, 107),
    "correctness": Workload(797_896, 109.5),
    "optimization": Workload(800_000, 115, runs=3),
}
# Mean seconds of a run in the paper's service, by kind of tests (App. B.8, Table 21).
PAPER_MEAN_S = {"original": 0.088, "correctness": 0.137, "optimization": 0.334}


@dataclasses.dataclass(frozen=True)
class BuildCost:
    """What a build took.

    Attributes:
      problems: read, rejected ones included.
      executions: runs of programs.
      program_h: hours of wall time of the programs alone.
      sandbox_h: hours that stages waited for the sandbox, times the workers it had.
      dataset_bytes: size of the dataset.
      store_bytes: size of the file of stored executions, which a finished dataset no longer needs; None where they
        lie in a bucket, which would have to be asked for each of them.
      mean_s: mean wall seconds of a run by kind of tests.
    """

    problems: int
    executions: int
    program_h: float
    sandbox_h: float
    dataset_bytes: int
    store_bytes: int | None
    mean_s: Mapping[str, float] = dataclasses.field(default_factory=dict)


def total_spent(traces: Iterable[Iterable[StageCount]]) -> dict[str, float]:
    """Sum what the sandbox did over all stages of all problems.

    Args:
      traces: of kept and rejected problems.

    Returns:
      `executions`, `program_s` and `waited_s`; and `executions_KIND` and `program_s_KIND` for the stages that run one
      kind of tests, where there were any.
    """
    totals = {"executions": 0.0, "program_s": 0.0, "waited_s": 0.0}
    for trace in traces:
        for step in trace:
            kind = KIND_OF_STAGE.get(step.stage)
            for name, value in step.notes:
                if name in ("executions", "program_s", "waited_s"):
                    totals[name] += value
                    if kind and name != "waited_s":
                        totals[f"{name}_{kind}"] = totals.get(f"{name}_{kind}", 0.0) + value
    return totals


def add_spent(totals: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    """Add to totals what the sandbox did outside of all stages; totals by kind of tests stay as they are."""
    return {**totals, **{name: totals[name] + value for name, value in more.items()}}


def measure_cost(
    totals: Mapping[str, float], *, problems: int, workers: int, dataset_bytes: int, store_bytes: int | None
) -> BuildCost:
    """Compute the cost of a build.

    Args:
      totals: as `total_spent` returns them.
      problems: how many were read.
      workers: programs that the sandbox ran at the same time.
      dataset_bytes: size of the dataset.
      store_bytes: size of the file of stored executions; None where that is not known.
    """
    return BuildCost(
        problems=problems,
        executions=int(totals["executions"]),
        program_h=totals["program_s"] / 3600,
        sandbox_h=totals["waited_s"] * workers / 3600,
        dataset_bytes=dataset_bytes,
        store_bytes=store_bytes,
        mean_s={
            kind: totals[f"program_s_{kind}"] / totals[f"executions_{kind}"]
            for kind in PAPER_WORKLOAD
            if totals.get(f"executions_{kind}")
        },
    )


def cost_at_scale(
    mean_s: Mapping[str, float], workload: Mapping[str, Workload] = PAPER_WORKLOAD
) -> dict[str, dict[str, float]]:
    """Extrapolate executions and program hours to a corpus of another size.

    Args:
      mean_s: mean wall seconds of a run by kind of tests; kinds that are absent were never measured and count nothing.
      workload: solutions, tests and runs by kind; the paper's corpus by default.

    Returns:
      Kind of tests, or `total` -> `executions` and `program_h`.
    """
    table = {
        kind: {"executions": work.executions, "program_h": work.executions * mean_s[kind] / 3600}
        for kind, work in workload.items()
        if kind in mean_s
    }
    columns = ("executions", "program_h")
    return table | {"total": {name: sum(row[name] for row in table.values()) for name in columns}}
