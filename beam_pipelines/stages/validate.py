"""Execution-based validation: labels are believed only after the original tests were run again (paper, stage 3)."""

import dataclasses
import functools

import numpy as np

from beam_pipelines.records import Label, Problem, Rejection, count_stage, rejection_of, with_solutions
from beam_pipelines.sandbox_session import Connection, SandboxSession
from beam_pipelines.stages import verdicts
from beam_pipelines.stages.stage import Stage
from optimrl_jax.arrays import Status

NAME = "validate"


def validate_stage(connection: Connection, *, min_correct: int) -> Stage:
    return Stage(NAME, functools.partial(validate, min_correct=min_correct), connection=connection)


def validate(problem: Problem, session: SandboxSession, *, min_correct: int) -> Problem | Rejection:
    """Runs every solution on the original tests and lets `confirmed` decide."""
    runs = session.run(problem.solutions, problem.tests, checker=problem.checker, stops_early=True)
    return confirm_labels(dataclasses.replace(problem, executions=runs.executions), min_correct=min_correct)


def confirm_labels(problem: Problem, *, min_correct: int) -> Problem | Rejection:
    """The problem with the solutions whose label its executions confirm.

    Correct solutions that fail a test leave the pool; incorrect solutions stay as negative controls whatever they did
    (those that pass are the false positives that stronger tests must expose). A solution that a fault of the sandbox
    left undecided leaves the pool.
    """
    passing = verdicts.passes_all_tests(problem)
    is_failing = np.isin(problem.executions.status, (Status.TIMEOUT, Status.FAILURE)).any(axis=0)
    is_correct = verdicts.is_label(problem, Label.CORRECT)
    kept = np.flatnonzero(np.where(is_correct, passing, passing | is_failing))
    before = len(problem.correct)
    left = with_solutions(problem, kept)
    if len(left.correct) < min_correct:
        return rejection_of(
            left, NAME, reason="few_confirmed_correct", detail=f"{len(left.correct)} of {before} correct solutions pass"
        )
    if not left.incorrect:
        return rejection_of(left, NAME, reason="no_incorrect_left")
    incorrect_passing = int(verdicts.passes_all_tests(left)[verdicts.is_label(left, Label.INCORRECT)].sum())
    return count_stage(left, NAME, correct_before=before, incorrect_passing=incorrect_passing)
