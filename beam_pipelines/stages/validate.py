"""Execution-based validation: labels are believed only after the original tests were run again (App. B.3)."""

import dataclasses
import functools

import numpy as np

from beam_pipelines.records import Label, Problem, Rejection, count_stage, rejection_of, with_solutions
from beam_pipelines.sandbox_session import Connection, SandboxSession
from beam_pipelines.stages import verdicts
from beam_pipelines.stages.stage import Stage

NAME = "validate"


def validate_stage(connection: Connection, *, min_correct: int, min_incorrect: int) -> Stage:
    """Make the stage that runs the original tests again, with the arguments of `validate`."""
    decide = functools.partial(validate, min_correct=min_correct, min_incorrect=min_incorrect)
    return Stage(NAME, decide, connection=connection)


def validate(
    problem: Problem, session: SandboxSession, *, min_correct: int, min_incorrect: int = 1
) -> Problem | Rejection:
    """Run every solution on the original tests and let `confirm_labels` decide.

    Args:
      problem: with both labels and original tests only.
      session: the sandbox.
      min_correct: correct solutions that have to pass.
      min_incorrect: 0 where a problem without incorrect solutions is welcome too.

    Raises:
      InvalidRequestError: the sandbox does not know the checker or a language.
    """
    runs = session.run(problem.solutions, problem.tests, checker=problem.checker, stops_early=True)
    ran = dataclasses.replace(problem, executions=runs.executions)
    return confirm_labels(ran, min_correct=min_correct, min_incorrect=min_incorrect)


def confirm_labels(problem: Problem, *, min_correct: int, min_incorrect: int = 1) -> Problem | Rejection:
    """Keep the solutions whose label the executions on the original tests confirm.

    App. B, stage 3: correct solutions that fail a test leave the pool; incorrect solutions stay as negative controls
    whatever they did (those that pass are the false positives that stronger tests must expose). A solution that a fault
    of the sandbox left undecided leaves the pool, and so does an incorrect program that does not compile: every suite
    would turn it down, so that it controls nothing.

    Args:
      problem: with executions on the original tests.
      min_correct: correct solutions that have to be left.
      min_incorrect: 0 where a problem without incorrect solutions is welcome too.

    Returns:
      The problem, or a rejection as `few_confirmed_correct` or `no_incorrect_left`.
    """
    passes, fails = verdicts.passes_all_tests(problem), verdicts.fails_a_test(problem)
    is_correct = verdicts.is_label(problem, Label.CORRECT)
    broken = verdicts.does_not_compile(problem) & ~is_correct
    kept = np.where(is_correct, passes, (passes | fails) & ~broken)
    before = len(problem.correct)
    left = with_solutions(problem, np.flatnonzero(kept).tolist())
    if len(left.correct) < min_correct:
        detail = f"{len(left.correct)} of {before} correct solutions pass"
        return rejection_of(left, NAME, reason="few_confirmed_correct", detail=detail)
    if not left.incorrect and min_incorrect:
        detail = f"{broken.sum()} incorrect solutions do not compile"
        return rejection_of(left, NAME, reason="no_incorrect_left", detail=detail)
    passing = int(verdicts.passes_all_tests(left)[verdicts.is_label(left, Label.INCORRECT)].sum())
    notes = {"correct_before": before, "incorrect_passing": passing, "incorrect_not_compiling": int(broken.sum())}
    return count_stage(left, NAME, **notes)
