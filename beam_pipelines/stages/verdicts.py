"""How stages read executions: which pairs pass, time out, or fail by the program's own fault.

A pair that was not run and one on which the sandbox failed count neither for nor against anything.
"""

from collections.abc import Sequence

import numpy as np

from beam_pipelines.matrices import VERDICTS, Executions, verdict_code
from beam_pipelines.records import Label, Problem, ReviewCase, Test
from optimrl_jax.arrays import Status, TestKind
from sandbox.protocol import Verdict

REVIEWED_SOLUTIONS = 5
EXCERPT_CHARACTERS = 200


def is_timeout(executions: Executions) -> np.ndarray:
    """bool[k, s]"""
    return executions.status == Status.TIMEOUT


def is_failure(executions: Executions) -> np.ndarray:
    """bool[k, s]: crashes, broken limits and wrong outputs, but neither syntax errors nor timeouts.

    App. B.5, "Implementation invariants".
    """
    return (executions.status == Status.FAILURE) & (executions.verdict != verdict_code(Verdict.COMPILE_ERROR))


def is_decided(executions: Executions) -> np.ndarray:
    """bool[k, s]: the program ran and the sandbox did not fail."""
    return ~np.isin(executions.status, (Status.NOT_RUN, Status.FAULT))


def passes_all_tests(problem: Problem, *, tolerates_timeouts: bool = False) -> np.ndarray:
    """bool[s]: solutions that succeed on every test; where asked for, a timeout on an optimization test passes too."""
    return np.asarray(_tolerated(problem, tolerates_timeouts=tolerates_timeouts).all(axis=0))


def fails_a_test(problem: Problem, *, tolerates_timeouts: bool = False) -> np.ndarray:
    """bool[s]: solutions that fail some test by their own fault; the others pass, or nobody can tell."""
    executions = problem.executed
    is_against = is_decided(executions) & ~_tolerated(problem, tolerates_timeouts=tolerates_timeouts)
    return np.asarray(is_against.any(axis=0))


def does_not_compile(problem: Problem) -> np.ndarray:
    """bool[s]: solutions that no test ever ran: what they fail says nothing about the tests."""
    return (problem.executed.verdict == verdict_code(Verdict.COMPILE_ERROR)).any(axis=0)


def _tolerated(problem: Problem, *, tolerates_timeouts: bool) -> np.ndarray:
    status = problem.executed.status
    succeeds = status == Status.SUCCESS
    if tolerates_timeouts:
        succeeds |= (status == Status.TIMEOUT) & is_kind(problem, TestKind.OPTIMIZATION)[:, None]
    return succeeds


def is_kind(problem: Problem, *kinds: int) -> np.ndarray:
    """bool[k]: tests of the kinds."""
    return np.isin([test.kind for test in problem.tests], kinds)


def is_label(problem: Problem, label: Label) -> np.ndarray:
    """bool[s]: solutions of the label."""
    return np.array([solution.label is label for solution in problem.solutions], bool)


def share_of_correct(problem: Problem, events: np.ndarray) -> np.ndarray:
    """float[k]: share of the correct solutions with a decided execution that have the event; 0 where none has one."""
    counted = is_decided(problem.executed) & is_label(problem, Label.CORRECT)
    return (events & counted).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)


def solution_pass_rates(problem: Problem, *, when: str) -> dict[str, float]:
    """Shares of correct and of incorrect solutions that pass every test, named for the trace.

    App. B, "Correctness-test filtering": the pass rates before and after. Undecided solutions are left out; 0 where
    nobody is left.
    """
    passes, fails = passes_all_tests(problem), fails_a_test(problem)
    rates = {}
    for label in Label:
        decided = passes[is_label(problem, label) & (passes | fails)]
        rates[f"{label}_pass_rate_{when}"] = float(decided.mean()) if decided.size else 0.0
    return rates


def count_statuses(problem: Problem, kind: int, *, when: str) -> dict[str, float]:
    """Executions by status of correct and of incorrect solutions on the tests of a kind, named for the trace.

    App. B, "50-problem diagnostics", Figures 18 and 19. Incorrect solutions that original tests turn down do not run on
    generated ones.
    """
    rows = problem.executed.status[is_kind(problem, kind)]
    return {
        f"{label}_{status.name.lower()}_{when}": float((rows[:, is_label(problem, label)] == status).sum())
        for label in Label
        for status in Status
        if status is not Status.NOT_RUN
    }


def review_tests(problem: Problem, tests: Sequence[int], *, stage: str, reason: str) -> tuple[ReviewCase, ...]:
    """A case for review for each of the tests, with the first correct solutions that do not succeed on it."""
    executions = problem.executed
    is_against = is_decided(executions) & (executions.status != Status.SUCCESS) & is_label(problem, Label.CORRECT)
    return tuple(
        ReviewCase(
            stage, reason, excerpt(problem.tests[k]), _verdicts_on(problem, k, np.flatnonzero(is_against[k]).tolist())
        )
        for k in tests
    )


def review_solutions(problem: Problem, leaves: np.ndarray, *, stage: str) -> tuple[ReviewCase, ...]:
    """A case for review for each solution that leaves its label, with the first test that it does not pass."""
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
    """Origin of a test and the beginning of its input."""
    return f"{test.origin}: {test.input[:EXCERPT_CHARACTERS]}"


def _verdicts_on(problem: Problem, k: int, solutions: Sequence[int]) -> tuple[str, ...]:
    verdict = problem.executed.verdict
    return tuple(f"{problem.solutions[s].id}: {VERDICTS[verdict[k, s]]}" for s in solutions[:REVIEWED_SOLUTIONS])
