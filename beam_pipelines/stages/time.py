"""Reference durations: repeated, interleaved measurements of every correct solution on the kept tests.

Optimization tests are measured `repeats` times, the others once. The executions of earlier stages are the first
measurement; further ones come in rounds over all solutions in an order that changes from round to round, so that a
host that slows down for a while does not slow down one solution.
"""

import dataclasses
import functools
import random
from collections import Counter
from collections.abc import Sequence

import numpy as np

from beam_pipelines.execution import Connection, Executor
from beam_pipelines.records import Problem, Timing
from beam_pipelines.stages import verdicts
from beam_pipelines.stages.filterability import CAP_S, tests_of
from beam_pipelines.stages.stage import Stage, counted
from optimrl_jax.arrays import Status, TestKind

NAME = "time"
FIRST_ROUND = 2  # rounds 0 and 1 are the executions of generation and of its verification

Measurements = list[list[list[verdicts.Cell]]]


def stage(connection: Connection, *, repeats: int, seed: int) -> Stage:
    return Stage(NAME, functools.partial(measure, repeats=repeats, seed=seed), connection=connection)


def measure(problem: Problem, executor: Executor, *, repeats: int, seed: int) -> Problem:
    """The problem with timings of its correct solutions on all its tests; drops the executions they came from."""
    columns = verdicts.correct_columns(problem)
    cells: Measurements = [[[row[s]] for s in columns] for row in problem.executions]
    optimization = tests_of(problem, {TestKind.OPTIMIZATION})
    tests = [problem.tests[k] for k in optimization]
    for index in range(repeats - 1):
        order = list(range(len(columns)))
        random.Random(f"{seed}/{problem.id}/{index}").shuffle(order)
        solutions = [problem.solutions[columns[h]] for h in order]
        runs = executor.run(solutions, tests, checker=problem.checker, round_index=FIRST_ROUND + index)
        for h, run in zip(order, runs, strict=True):
            for k, cell in zip(optimization, run.executions, strict=True):
                cells[k][h].append(cell)
    timings = tuple(tuple(combined(measured) for measured in row) for row in cells)
    timed = dataclasses.replace(problem, timings=timings, executions=(), measured_under=executor.measured_under)
    return counted(timed, NAME, timed_pairs=sum(map(len, timings)))


def combined(measured: Sequence[verdicts.Cell]) -> Timing:
    """One timing from repeated executions of a pair.

    The status is the one that most executions had (the earlier value of `Status` on a tie), the duration the median
    over those, capped at 10 s, and their standard deviation (of a single run: the instrument's own estimate). A
    timeout is stored as 10 s; a pair without any run has duration 0 and no runs.
    """
    counts = Counter(verdicts.status_of(cell) for cell in measured if cell is not None)
    if not counts:
        return Timing(duration_s=0.0, std_s=0.0, runs=0, status=int(Status.NOT_RUN))
    status = min(counts, key=lambda one: (-counts[one], one))
    same = [cell for cell in measured if cell is not None and verdicts.status_of(cell) is status]
    seconds = np.minimum([cell.wall_s for cell in same], CAP_S)
    runs = sum(cell.runs for cell in same)
    if status is Status.TIMEOUT:
        return Timing(duration_s=CAP_S, std_s=0.0, runs=runs, status=int(status))
    std_s = float(np.std(seconds, ddof=1)) if len(same) > 1 else same[0].std_s
    return Timing(duration_s=float(np.median(seconds)), std_s=std_s, runs=runs, status=int(status))
