"""Execution-based validation: labels are believed only after the original tests were run again (App. B.3)."""

import dataclasses
import functools

import numpy as np

from beam_pipelines import matrices
from beam_pipelines.generators.voting import has_majority, successful_outputs
from beam_pipelines.records import Label, Problem, Rejection, count_stage, rejection_of, with_solutions
from beam_pipelines.sandbox_session import Connection, SandboxSession
from beam_pipelines.sources.own_checkers import accepts_any_answer
from beam_pipelines.stages import verdicts
from beam_pipelines.stages.stage import Stage
from sandbox.client import checker_named
from sandbox.protocol import Verdict

NAME = "validate"


def validate_stage(connection: Connection, *, min_correct: int, min_incorrect: int, max_disagreement: float) -> Stage:
    """Make the stage that runs the original tests again, with the arguments of `validate`."""
    decide = functools.partial(
        validate, min_correct=min_correct, min_incorrect=min_incorrect, max_disagreement=max_disagreement
    )
    return Stage(NAME, decide, connection=connection)


def validate(
    problem: Problem,
    session: SandboxSession,
    *,
    min_correct: int,
    min_incorrect: int = 1,
    max_disagreement: float = 1.0,
) -> Problem | Rejection:
    """Run every solution on the original tests and let `confirm_labels` decide.

    A problem whose correct solutions disagree with one another there goes as `needs_checker`: several outputs are
    right, and comparing with one of them would punish the others.

    Args:
      problem: with both labels and original tests only.
      session: the sandbox.
      min_correct: correct solutions that have to pass.
      min_incorrect: 0 where a problem without incorrect solutions is welcome too.
      max_disagreement: share of correct solutions with another output than is expected from which it is looked at
        whether they disagree with one another; 1 for never.

    Raises:
      InvalidRequestError: the sandbox does not know the checker or a language, or the checker does not compile.
    """
    runs = session.run(problem.solutions, problem.tests, checker=problem.checker, stops_early=True)
    ran = dataclasses.replace(problem, executions=runs.executions)
    share = verdicts.wrong_output_share(ran)
    if share > max_disagreement and not problem.is_judged_by_program and _is_disputed(ran, session):
        detail = f"{share:.1%} of correct solutions print other outputs than original tests expect"
        return rejection_of(ran, NAME, reason="needs_checker", detail=detail)
    return confirm_labels(ran, min_correct=min_correct, min_incorrect=min_incorrect)


def _is_disputed(problem: Problem, session: SandboxSession) -> bool:
    """Tell whether several outputs of an original test are right.

    The statement says so, or on some test no majority of the correct solutions agrees. Where they agree on another
    output than the test expects, it is the test that is wrong.
    """
    if accepts_any_answer(problem.statement):
        return True
    is_wrong = problem.executed.verdict == matrices.verdict_code(Verdict.WRONG_OUTPUT)
    doubtful = np.flatnonzero((is_wrong & verdicts.is_label(problem, Label.CORRECT)).any(axis=1))
    asked = [dataclasses.replace(problem.tests[k], output=None) for k in doubtful]
    outputs = successful_outputs(session.run(problem.correct, asked, returns_output=True))
    checker = checker_named(problem.checker)
    return any(not has_majority([row[k] for row in outputs], checker) for k in range(len(asked)))


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
