"""Execution-based validation: labels are believed only after the original tests were run again (paper, stage 3)."""

import dataclasses
import functools

from beam_pipelines.execution import Connection, Executor
from beam_pipelines.records import Execution, Label, Problem, Rejection, with_solutions
from beam_pipelines.stages import verdicts
from beam_pipelines.stages.stage import Stage, counted, reject

NAME = "validate"


def stage(connection: Connection, *, min_correct: int) -> Stage:
    return Stage(NAME, functools.partial(validate, min_correct=min_correct), connection=connection)


def validate(problem: Problem, executor: Executor, *, min_correct: int) -> Problem | Rejection:
    """Runs every solution on the original tests and lets `confirmed` decide."""
    runs = executor.run(problem.solutions, problem.tests, checker=problem.checker, stops_early=True)
    columns = [run.executions for run in runs]
    executions = tuple(zip(*columns, strict=True))
    return confirmed(dataclasses.replace(problem, executions=executions), min_correct=min_correct)


def confirmed(problem: Problem, *, min_correct: int) -> Problem | Rejection:
    """The problem with the solutions whose label its executions confirm.

    Correct solutions that fail a test leave the pool; incorrect solutions stay as negative controls whatever they did
    (those that pass are the false positives that stronger tests must expose). A solution that a fault of the sandbox
    left undecided leaves the pool.
    """
    kept = [s for s, solution in enumerate(problem.solutions) if _stays(problem, s, solution.label)]
    before = len(problem.correct)
    left = with_solutions(problem, kept)
    if len(left.correct) < min_correct:
        return reject(left, NAME, "few_confirmed_correct", f"{len(left.correct)} of {before} correct solutions pass")
    if not left.incorrect:
        return reject(left, NAME, "no_incorrect_left")
    incorrect = [s for s, one in enumerate(left.solutions) if one.label is Label.INCORRECT]
    passing = sum(verdicts.passes(verdicts.column(left, s)) for s in incorrect)
    return counted(left, NAME, correct_before=before, incorrect_passing=passing)


def _stays(problem: Problem, solution: int, label: Label) -> bool:
    cells: tuple[Execution | None, ...] = verdicts.column(problem, solution)
    if label is Label.CORRECT:
        return verdicts.passes(cells)
    return verdicts.passes(cells) or any(verdicts.is_failing(cell) for cell in cells)
