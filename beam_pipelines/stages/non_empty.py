"""Generated correctness and optimization tests must both be there (App. B.3)."""

from beam_pipelines.records import Problem, Rejection, count_stage, rejection_of
from beam_pipelines.stages.stage import Stage
from optimrl_jax.kinds import TestKind

NAME = "non_empty"


def non_empty_stage() -> Stage:
    """Make the stage that requires generated tests of both kinds."""
    return Stage(NAME, require_generated_tests)


def require_generated_tests(problem: Problem) -> Problem | Rejection:
    """Reject a problem without generated correctness tests or without optimization tests."""
    kinds = {test.kind for test in problem.tests}
    if TestKind.ADDED not in kinds:
        return rejection_of(problem, NAME, reason="no_correctness_tests")
    if TestKind.OPTIMIZATION not in kinds:
        return rejection_of(problem, NAME, reason="no_optimization_tests")
    return count_stage(problem, NAME)
