"""Both labels present: a problem without positive or without negative controls cannot be checked (App. B.3).

Only Python 3 counts. Python 2 programs are left out and counted in the trace, whatever their source calls them.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Sequence

from beam_pipelines.records import Problem, Rejection, Solution, Test, count_stage, rejection_of
from beam_pipelines.stages.python2 import is_python2
from beam_pipelines.stages.stage import Stage

NAME = "labels"


def labels_stage(*, max_solutions: int, max_original_tests: int, min_incorrect: int, seed: int) -> Stage:
    """Make the stage that requires both labels, with the arguments of `require_both_labels`."""
    decide = functools.partial(
        require_both_labels,
        max_solutions=max_solutions,
        max_original_tests=max_original_tests,
        min_incorrect=min_incorrect,
        seed=seed,
    )
    return Stage(NAME, decide)


def require_both_labels(
    problem: Problem, *, max_solutions: int = 0, max_original_tests: int = 0, min_incorrect: int = 1, seed: int = 0
) -> Problem | Rejection:
    """Keep a problem that has correct solutions, incorrect solutions and tests.

    Caps save the time that the paper's build takes: solutions are chosen by the seed, tests are the first ones (public
    before private before generated).

    Args:
      problem: as its source gives it; Python 2 programs are dropped.
      max_solutions: solutions kept of each label; 0 for all.
      max_original_tests: tests kept; 0 for all.
      min_incorrect: 0 where a problem without incorrect solutions is welcome too.
      seed: chooses the solutions.

    Returns:
      The problem, or a rejection as `only_python2`, `no_solutions`, `correct_only`, `incorrect_only` or
      `no_original_tests`.
    """
    python2 = [one for one in problem.solutions if one.language == "python3" and is_python2(one.program)]
    usable = tuple(one for one in problem.solutions if one not in python2)
    problem = dataclasses.replace(problem, solutions=usable)
    if not usable:
        return rejection_of(problem, NAME, reason="only_python2" if python2 else "no_solutions")
    if not problem.incorrect and min_incorrect:
        return rejection_of(problem, NAME, reason="correct_only")
    if not problem.correct:
        return rejection_of(problem, NAME, reason="incorrect_only")
    if not problem.tests:
        return rejection_of(problem, NAME, reason="no_original_tests")
    solutions = _sample(problem.correct, max_solutions, seed) + _sample(problem.incorrect, max_solutions, seed)
    tests = _first(problem.tests, max_original_tests)
    return count_stage(dataclasses.replace(problem, solutions=solutions, tests=tests), NAME, python2=len(python2))


def _sample(solutions: Sequence[Solution], cap: int, seed: int) -> tuple[Solution, ...]:
    if not cap or len(solutions) <= cap:
        return tuple(solutions)
    chosen = sorted(solutions, key=lambda one: hashlib.sha256(f"{seed}/{one.id}".encode()).digest())[:cap]
    return tuple(one for one in solutions if one in chosen)


def _first(tests: Sequence[Test], cap: int) -> tuple[Test, ...]:
    return tuple(tests[:cap] if cap else tests)
