"""How stages read executions: which pairs pass, time out, or fail by the program's own fault.

A pair that was not run and one on which the sandbox failed count neither for nor against anything.
"""

from collections.abc import Sequence

import numpy as np

from beam_pipelines.matrices import VERDICTS, Executions, verdict_code
from beam_pipelines.records import Label, Problem, ReviewCase, Test
from optimrl_jax.kinds import Status, TestKind
from sandbox.protocol import Verdict

REVIEWED_SOLUTIONS = 5
EXCERPT_CHARACTERS = 200


def is_timeout(executions: Executions) -> np.ndarray:
    """Return where a program ran out of time, as bool[k, s]."""
    return executions.status == Status.TIMEOUT


def is_failure(executions: Executions) -> np.ndarray:
    """Return where a program failed by its own fault, as bool[k, s].

    App. B.5, "Implementation invariants": crashes, broken limits and wrong outputs, but neither syntax errors nor
    timeouts.
    """
    return (executions.status == Status.FAILURE) & (executions.verdict != verdict_code(Verdict.COMPILE_ERROR))


def is_decided(executions: Executions) -> np.ndarray:
    """Return where a program ran and the sandbox did not fail, as bool[k, s]."""
    return ~np.isin(executions.status, (Status.NOT_RUN, Status.FAULT))


def passes_all_tests(problem: Problem, *, tolerates_timeouts: bool = False) -> np.ndarray:
    """Return which solutions succeed on every test.

    Args:
      problem: with executions.
      tolerates_timeouts: whether a timeout on an optimization test passes too.

    Returns:
      bool[s].
    """
    return np.asarray(_tolerated(problem, tolerates_timeouts=tolerates_timeouts).all(axis=0))


def fails_a_test(problem: Problem, *, tolerates_timeouts: bool = False) -> np.ndarray:
    """Return which solutions fail some test by their own fault.

    A solution that a fault of the sandbox left undecided neither passes nor fails.

    Args:
      problem: with executions.
      tolerates_timeouts: whether a timeout on an optimization test passes too.

    Returns:
      bool[s].
    """
    executions = problem.executed
    is_against = is_decided(executions) & ~_tolerated(problem, tolerates_timeouts=tolerates_timeouts)
    return np.asarray(is_against.any(axis=0))


def does_not_compile(problem: Problem) -> np.ndarray:
    """Return which solutions do not compile, as bool[s]: what these fail says nothing about the tests."""
    return (problem.executed.verdict == verdict_code(Verdict.COMPILE_ERROR)).any(axis=0)


def wrong_output_share(problem: Problem) -> float:
    """Return the share of correct solutions that end cleanly on some test and print what it does not expect.

    Args:
      problem: with executions.

    Returns:
      Share of those with a decided execution, in [0, 1]; 0 where none has one.
    """
    is_correct = is_label(problem, Label.CORRECT)
    decided = is_decided(problem.executed).any(axis=0) & is_correct
    is_wrong = (problem.executed.verdict == verdict_code(Verdict.WRONG_OUTPUT)).any(axis=0) & is_correct
    return float(is_wrong.sum() / max(1, decided.sum()))


def _tolerated(problem: Problem, *, tolerates_timeouts: bool) -> np.ndarray:
    status = problem.executed.status
    succeeds = status == Status.SUCCESS
    if tolerates_timeouts:
        succeeds |= (status == Status.TIMEOUT) & is_kind(problem, TestKind.OPTIMIZATION)[:, None]
    return succeeds


def is_kind(problem: Problem, *kinds: int) -> np.ndarray:
    """Return which tests are of one of the kinds, as bool[k]."""
    return np.isin([test.kind for test in problem.tests], kinds)


def is_label(problem: Problem, label: Label) -> np.ndarray:
    """Return which solutions carry the label, as bool[s]."""
    return np.array([solution.label is label for solution in problem.solutions], bool)


def share_of_correct(problem: Problem, events: np.ndarray) -> np.ndarray:
    """Return for each test the share of correct solutions that have an event.

    Args:
      problem: with executions.
      events: bool[k, s].

    Returns:
      float[k], over the correct solutions with a decided execution on the test; 0 where none has one.
    """
    counted = is_decided(problem.executed) & is_label(problem, Label.CORRECT)
    return (events & counted).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)


def solution_pass_rates(problem: Problem, *, when: str) -> dict[str, float]:
    """Return the shares of correct and of incorrect solutions that pass every test, named for the trace.

    App. B, "Correctness-test filtering": the pass rates before and after. Undecided solutions are left out; 0 where
    none is left.

    Args:
      problem: with executions.
      when: ends the names: `LABEL_pass_rate_WHEN`.
    """
    passes, fails = passes_all_tests(problem), fails_a_test(problem)
    rates = {}
    for label in Label:
        decided = passes[is_label(problem, label) & (passes | fails)]
        rates[f"{label}_pass_rate_{when}"] = float(decided.mean()) if decided.size else 0.0
    return rates


def count_statuses(problem: Problem, kind: int, *, when: str) -> dict[str, float]:
    """Count executions by label and status on the tests of a kind, named for the trace.

    App. B, "50-problem diagnostics", Figures 18 and 19. Incorrect solutions that original tests turn down do not run on
    generated ones.

    Args:
      problem: with executions.
      kind: a value of `TestKind`.
      when: ends the names: `LABEL_STATUS_WHEN`.
    """
    rows = problem.executed.status[is_kind(problem, kind)]
    return {
        f"{label}_{status.name.lower()}_{when}": float((rows[:, is_label(problem, label)] == status).sum())
        for label in Label
        for status in Status
        if status is not Status.NOT_RUN
    }


def review_tests(problem: Problem, tests: Sequence[int], *, stage: str, reason: str) -> tuple[ReviewCase, ...]:
    """Describe each of some tests for review, with the first correct solutions that do not succeed on it.

    Args:
      problem: with executions.
      tests: indices of the tests.
      stage: the stage that decides.
      reason: why they go.
    """
    executions = problem.executed
    is_against = is_decided(executions) & (executions.status != Status.SUCCESS) & is_label(problem, Label.CORRECT)
    return tuple(
        ReviewCase(
            stage, reason, excerpt(problem.tests[k]), _verdicts_on(problem, k, np.flatnonzero(is_against[k]).tolist())
        )
        for k in tests
    )


def review_solutions(problem: Problem, leaves: np.ndarray, *, stage: str) -> tuple[ReviewCase, ...]:
    """Describe the first solutions that lose their label, each with the first test that it does not pass.

    Args:
      problem: with executions.
      leaves: bool[s]; solutions that lose their label.
      stage: the stage that decides.
    """
    executions = problem.executed
    is_against = is_decided(executions) & (executions.status != Status.SUCCESS)
    cases = []
    for s in np.flatnonzero(leaves)[:REVIEWED_SOLUTIONS]:
        (failed,) = np.nonzero(is_against[:, s])
        if failed.size:
            cases.append(
                ReviewCase(
                    stage, "fails_test", excerpt(problem.tests[failed[0]]), _verdicts_on(problem, failed[0], [s])
                )
            )
        else:
            cases.append(ReviewCase(stage, "passes_all_tests", "", (problem.solutions[s].id,)))
    return tuple(cases)


def excerpt(test: Test) -> str:
    """Return the origin of a test and the beginning of its input."""
    return f"{test.origin}: {test.input[:EXCERPT_CHARACTERS]}"


def _verdicts_on(problem: Problem, k: int, solutions: Sequence[int]) -> tuple[str, ...]:
    verdict = problem.executed.verdict
    return tuple(f"{problem.solutions[s].id}: {VERDICTS[verdict[k, s]]}" for s in solutions[:REVIEWED_SOLUTIONS])
