"""How stages read executions: which pairs pass, time out, or fail by the program's own fault.

A pair that was not run and one on which the sandbox failed count neither for nor against anything.
"""

import numpy as np

from beam_pipelines.matrices import Executions, verdict_code
from beam_pipelines.records import Label, Problem
from optimrl_jax.arrays import Status, TestKind
from sandbox.protocol import Verdict


def is_timeout(executions: Executions) -> np.ndarray:
    """bool[k, s]"""
    return executions.status == Status.TIMEOUT


def is_failure(executions: Executions) -> np.ndarray:
    """bool[k, s]: crashes, broken limits and wrong outputs; syntax errors and timeouts are not meant (paper L1503)."""
    return (executions.status == Status.FAILURE) & (executions.verdict != verdict_code(Verdict.COMPILE_ERROR))


def is_decided(executions: Executions) -> np.ndarray:
    """bool[k, s]: the program ran and the sandbox did not fail."""
    return ~np.isin(executions.status, (Status.NOT_RUN, Status.FAULT))


def passes_all_tests(problem: Problem, *, tolerates_timeouts: bool = False) -> np.ndarray:
    """bool[s]: solutions that succeed on every test; where asked for, a timeout on an optimization test passes too."""
    return _tolerated(problem, tolerates_timeouts=tolerates_timeouts).all(axis=0)


def fails_a_test(problem: Problem, *, tolerates_timeouts: bool = False) -> np.ndarray:
    """bool[s]: solutions that fail some test by their own fault; the others pass, or nobody can tell."""
    executions = problem.executed
    return (is_decided(executions) & ~_tolerated(problem, tolerates_timeouts=tolerates_timeouts)).any(axis=0)


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
