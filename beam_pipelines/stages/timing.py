"""Reference durations: repeated, interleaved measurements of every correct solution on the kept tests.

Optimization tests are measured `repeats` times, the others once. The executions of earlier stages are the first
measurement; further ones come in rounds over all solutions in an order that changes from round to round, so that a
host that slows down for a while does not slow down one solution.
"""

import dataclasses
import functools
import random

import numpy as np

from beam_pipelines import matrices
from beam_pipelines.records import Label, Problem, count_stage
from beam_pipelines.sandbox_session import Connection, SandboxSession
from beam_pipelines.stages import verdicts
from beam_pipelines.stages.filterability import tests_of
from beam_pipelines.stages.stage import Stage
from optimrl_jax.kinds import TestKind

NAME = "time"
FIRST_ROUND = 2  # rounds 0 and 1 are the executions of generation and of its verification


def timing_stage(connection: Connection, *, repeats: int, cap_s: float, seed: int) -> Stage:
    """Make the stage that measures reference durations, with the arguments of `measure_durations`."""
    return Stage(
        NAME, functools.partial(measure_durations, repeats=repeats, cap_s=cap_s, seed=seed), connection=connection
    )


def measure_durations(problem: Problem, session: SandboxSession, *, repeats: int, cap_s: float, seed: int) -> Problem:
    """Measure the durations of the correct solutions on all tests, and drop the executions they come from.

    Args:
      problem: with executions on all its tests; they are the first round.
      session: the sandbox.
      repeats: rounds on optimization tests, the first one included.
      cap_s: limit of one execution, seconds; what a timeout is stored as.
      seed: of the order of each round.

    Returns:
      The problem with timings [k, h] and without executions.
    """
    first = problem.executed.take(np.flatnonzero(verdicts.is_label(problem, Label.CORRECT)).tolist(), axis=1)
    optimization = tests_of(problem, {TestKind.OPTIMIZATION})
    again = [_round(problem, session, rows=optimization, index=index, seed=seed) for index in range(repeats - 1)]
    timed = dataclasses.replace(
        problem,
        timings=matrices.combine_rounds([first, *again], cap_s=cap_s),
        executions=None,
        measured_under=session.measured_under,
    )
    return count_stage(timed, NAME, timed_pairs=first.verdict.size)


def _round(problem: Problem, session: SandboxSession, *, rows: list[int], index: int, seed: int) -> matrices.Executions:
    """Measure all correct solutions on the optimization tests once more; other tests stay unknown."""
    order = list(range(len(problem.correct)))
    random.Random(f"{seed}/{problem.id}/{index}").shuffle(order)
    solutions = [problem.correct[h] for h in order]
    tests = [problem.tests[k] for k in rows]
    runs = session.run(solutions, tests, checker=problem.checker, round_index=FIRST_ROUND + index)
    in_order = matrices.replace_columns(runs.executions, order, into=matrices.not_run(len(tests), len(order)))
    return matrices.expand_rows(in_order, rows, tests=len(problem.tests))
