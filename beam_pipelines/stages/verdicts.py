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
    status = problem.executions.status
    succeeds = status == Status.SUCCESS
    if tolerates_timeouts:
        succeeds |= (status == Status.TIMEOUT) & is_kind(problem, TestKind.OPTIMIZATION)[:, None]
    return succeeds.all(axis=0)


def is_kind(problem: Problem, *kinds: int) -> np.ndarray:
    """bool[k]: tests of the kinds."""
    return np.isin([test.kind for test in problem.tests], kinds)


def is_label(problem: Problem, label: Label) -> np.ndarray:
    """bool[s]: solutions of the label."""
    return np.array([solution.label is label for solution in problem.solutions], bool)


def share_of_correct(problem: Problem, events: np.ndarray) -> np.ndarray:
    """float[k]: share of the correct solutions with a decided execution that have the event; 0 where none has one."""
    counted = is_decided(problem.executions) & is_label(problem, Label.CORRECT)
    return (events & counted).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)


def solution_pass_rates(problem: Problem, *, when: str) -> dict[str, float]:
    """Shares of correct and of incorrect solutions that pass every test, named for the trace (paper L1528-1595)."""
    passes = passes_all_tests(problem)
    rates = {}
    for label in Label:
        chosen = passes[is_label(problem, label)]
        rates[f"{label}_pass_rate_{when}"] = float(chosen.mean()) if chosen.size else 0.0
    return rates
