"""Edge: what a pool of correct solutions agrees on for new inputs: by a vote, or by the problem's judging program.

Comes between the inputs of a generator and the tests that they become. Where a program judges outputs, texts need not
be equal: one solution's outputs are the answers, and the program has to accept all other solutions against them. An
interactor, or a judge of several passes, has to accept all of them.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from beam_pipelines.generators.voting import (
    MIN_AGREEING,
    OutputList,
    find_consensus,
    judge_pool,
    successful_outputs,
)
from beam_pipelines.matrices import Executions, verdict_code
from beam_pipelines.records import Problem, Test
from beam_pipelines.sandbox_session import SandboxSession
from optimrl_jax.kinds import Status
from sandbox.client import checker_named
from sandbox.protocol import Verdict

# A first reference may be the one that is wrong; more of them would only repeat what the judge said.
MOST_REFERENCES = 3


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Tests on whose outputs a pool agrees.

    Attributes:
      tests: k tests with their expected outputs.
      executions: [k, p] of the pool, judged.
      agreeing: the solutions that agree, as indices into the pool.
      is_disputed: whether these are no majority of the solutions that succeeded everywhere.
    """

    tests: tuple[Test, ...]
    executions: Executions
    agreeing: tuple[int, ...]
    is_disputed: bool = False


def find_agreement(
    problem: Problem, session: SandboxSession, *, pool: Sequence[int], candidates: Sequence[Test]
) -> Agreement | None:
    """Run a pool on new inputs and find the outputs that it agrees on.

    Args:
      problem: with its checker.
      session: the sandbox.
      pool: indices of the solutions that have a say.
      candidates: tests without outputs.

    Returns:
      The agreement; None where fewer than two solutions agree, or a program judges and does not accept all of them.

    Raises:
      InvalidRequestError: the sandbox does not know the checker, or its program does not compile.
    """
    solutions = [problem.solutions[s] for s in pool]
    if problem.has_no_answers:
        return _agree_without_answers(problem, session, pool=pool, candidates=candidates)
    runs = session.run(solutions, candidates, returns_output=True)
    outputs = successful_outputs(runs)
    if problem.is_judged_by_program:
        return _agree_before_judge(problem, session, pool=pool, candidates=candidates, outputs=outputs)
    checker = checker_named(problem.checker)
    vote = find_consensus(outputs, checker)
    if vote is None:
        return None
    complete = sum(None not in row for row in outputs)
    tests = with_outputs(candidates, vote.outputs)
    is_disputed = 2 * len(vote.agreeing) <= complete
    return Agreement(tests, judge_pool(runs, vote, checker), vote.agreeing, is_disputed)


def _agree_before_judge(
    problem: Problem,
    session: SandboxSession,
    *,
    pool: Sequence[int],
    candidates: Sequence[Test],
    outputs: Sequence[OutputList],
) -> Agreement | None:
    solutions = [problem.solutions[s] for s in pool]
    complete = [s for s, row in enumerate(outputs) if row and None not in row]
    if len(complete) < MIN_AGREEING:
        return None
    for reference in complete[:MOST_REFERENCES]:
        tests = with_outputs(candidates, outputs[reference])
        executions = session.run(solutions, tests, checker=problem.checker).executions
        if (executions.status[:, complete] == Status.SUCCESS).all():
            return Agreement(tests, executions, tuple(complete))
    return None


def _agree_without_answers(
    problem: Problem, session: SandboxSession, *, pool: Sequence[int], candidates: Sequence[Test]
) -> Agreement | None:
    """Let the problem's program judge all solutions: there is no answer, and none that ends may be turned down."""
    tests = with_outputs(candidates, [""] * len(candidates))
    executions = session.run([problem.solutions[s] for s in pool], tests, checker=problem.checker).executions
    against = (verdict_code(Verdict.WRONG_OUTPUT), verdict_code(Verdict.SANDBOX_FAULT))
    complete = np.flatnonzero((executions.status == Status.SUCCESS).all(axis=0))
    if len(complete) < MIN_AGREEING or np.isin(executions.verdict, against).any():
        return None
    return Agreement(tests, executions, tuple(complete.tolist()))


def with_outputs(tests: Sequence[Test], outputs: Sequence[str | None]) -> tuple[Test, ...]:
    """Give tests the outputs that are expected of them, in order."""
    return tuple(dataclasses.replace(test, output=output) for test, output in zip(tests, outputs, strict=True))
