"""How stages read executions: which verdicts pass, which are timeouts, which are the program's own failure.

A None cell was not run; a sandbox fault says nothing about the program. Neither counts for or against anything.
"""

from collections.abc import Callable, Iterable, Sequence

from beam_pipelines.records import Execution, Label, Problem
from optimrl_jax.arrays import Status
from sandbox.protocol import Verdict

Cell = Execution | None

STATUS_OF_VERDICT = {
    verdict: {
        Verdict.SUCCESS: Status.SUCCESS,
        Verdict.TIME_LIMIT: Status.TIMEOUT,
        Verdict.SANDBOX_FAULT: Status.FAULT,
    }.get(verdict, Status.FAILURE)
    for verdict in Verdict
}


def status_of(cell: Cell) -> Status:
    return Status.NOT_RUN if cell is None else STATUS_OF_VERDICT[Verdict(cell.verdict)]


def is_decided(cell: Cell) -> bool:
    """True where the program ran and the sandbox did not fail."""
    return status_of(cell) not in (Status.NOT_RUN, Status.FAULT)


def is_timeout(cell: Cell) -> bool:
    return status_of(cell) is Status.TIMEOUT


def is_failing(cell: Cell) -> bool:
    """True for anything that the program is to blame for, timeouts included."""
    return status_of(cell) in (Status.TIMEOUT, Status.FAILURE)


def is_exception_or_failure(cell: Cell) -> bool:
    """True for crashes, broken limits and wrong outputs; syntax errors and timeouts are not meant (paper L1503)."""
    return status_of(cell) is Status.FAILURE and Verdict(cell.verdict) is not Verdict.COMPILE_ERROR


def passes(cells: Iterable[Cell], *, allows_timeout: bool = False) -> bool:
    """True where every test was a success; with `allows_timeout` a timeout passes as well."""
    allowed = (Status.SUCCESS, Status.TIMEOUT) if allows_timeout else (Status.SUCCESS,)
    return all(status_of(cell) in allowed for cell in cells)


def column(problem: Problem, solution: int) -> tuple[Cell, ...]:
    """Executions of one solution on all tests."""
    return tuple(row[solution] for row in problem.executions)


def correct_columns(problem: Problem) -> list[int]:
    return [s for s, solution in enumerate(problem.solutions) if solution.label is Label.CORRECT]


def pass_rates(problem: Problem, *, when: str) -> dict[str, float]:
    """Shares of correct and of incorrect solutions that pass every test, named for the trace (paper L1528-1595)."""
    rates = {}
    for label in Label:
        columns = [s for s, solution in enumerate(problem.solutions) if solution.label is label]
        passing = sum(passes(column(problem, s)) for s in columns)
        rates[f"{label}_pass_rate_{when}"] = passing / len(columns) if columns else 0.0
    return rates


def share(cells: Sequence[Cell], predicate: Callable[[Cell], bool]) -> float:
    """Share of the decided cells for which the predicate holds; 0 where none is decided."""
    decided = [cell for cell in cells if is_decided(cell)]
    return sum(predicate(cell) for cell in decided) / len(decided) if decided else 0.0
