"""Test generation: untrusted generators propose inputs, agreement of correct solutions gives outputs (App. B.4).

One attempt a generator: run it, let a pool of verified solutions agree, keep the inputs if at least two give the same
outputs on all of them and one of these passes a second time. What the pool executed is kept as executions, so that
only solutions outside the pool have to run afterwards.
"""

import dataclasses
import functools
import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from beam_pipelines import matrices
from beam_pipelines.generators.agreement import Agreement, find_agreement
from beam_pipelines.generators.drawing import draw_inputs
from beam_pipelines.generators.harness import CAMPAIGN_METHODS
from beam_pipelines.records import Generator, Label, Problem, Test, count_stage
from beam_pipelines.sandbox_session import Connection, SandboxSession
from beam_pipelines.stages import verdicts
from beam_pipelines.stages.stage import Stage
from beam_pipelines.stages.thresholds import Thresholds
from optimrl_jax.kinds import Status, TestKind


@dataclasses.dataclass(frozen=True)
class GenerationCampaign:
    """What a round of test generation may spend.

    Attributes:
      thresholds: of the round; they name it and its kind of tests.
      calls: rounds of all methods of a generator (paper: 5).
      attempts: generators that are tried for a problem at most (paper: 10).
      verifiers: correct solutions that vote at most (paper: 10).
      seed: of calls and pools.
    """

    thresholds: Thresholds
    calls: int
    attempts: int
    verifiers: int
    seed: int


def generate_stage(connection: Connection, campaign: GenerationCampaign) -> Stage:
    """Make the stage that generates the tests of a campaign.

    Args:
      connection: how to reach the sandbox.
      campaign: what may be spent; its thresholds name the stage.
    """
    return Stage(
        campaign.thresholds.stage_name("generate"),
        functools.partial(generate_tests, campaign=campaign),
        connection=connection,
    )


def generate_tests(problem: Problem, session: SandboxSession, *, campaign: GenerationCampaign) -> Problem:
    """Add the tests of all accepted attempts, with their executions; never rejects.

    The trace counts attempts, accepted ones (and those of them on whose outputs no majority of the pool agrees) and, by
    reason, those that were turned down, and how the pass rates of correct and incorrect solutions changed before any
    filter saw the new tests.

    Args:
      problem: with executions on all its tests.
      session: the sandbox.
      campaign: what may be spent.

    Raises:
      InvalidRequestError: the sandbox does not know the problem's checker.
    """
    stage_name = campaign.thresholds.stage_name("generate")
    outcomes: Counter[str] = Counter()
    rates = verdicts.solution_pass_rates(problem, when="before")
    before, disputed = len(problem.tests), 0
    for generator in campaign_generators(problem, campaign):
        outcome = try_generator(problem, session, generator=generator, campaign=campaign)
        if isinstance(outcome, str):
            outcomes[outcome] += 1
        else:
            outcomes["accepted"] += 1
            problem, is_disputed = outcome
            disputed += is_disputed
    rates |= verdicts.solution_pass_rates(problem, when="generated")
    return count_stage(
        problem,
        stage_name,
        attempts=sum(outcomes.values()),
        tests_added=len(problem.tests) - before,
        disputed=disputed,
        **outcomes,
        **rates,
    )


def campaign_generators(problem: Problem, campaign: GenerationCampaign) -> list[Generator]:
    """Return the generators that the campaign tries: those for both campaigns and its own, up to its attempts."""
    name = campaign.thresholds.name
    return [one for one in problem.generators if one.campaign in ("", name)][: campaign.attempts]


def try_generator(
    problem: Problem, session: SandboxSession, *, generator: Generator, campaign: GenerationCampaign
) -> tuple[Problem, bool] | str:
    """Add the tests of one generator, or say why it gives none.

    Args:
      problem: with executions on all its tests.
      session: the sandbox.
      generator: the untrusted generator.
      campaign: what may be spent.

    Returns:
      The problem with new tests and executions and whether their outputs are disputed, or a reason in one word.
    """
    methods = CAMPAIGN_METHODS[campaign.thresholds.name]
    seed = _seed(campaign.seed, problem.id, generator.id, campaign.thresholds.name)
    inputs = draw_inputs(session, generator, methods, calls=campaign.calls, seed=seed)
    if isinstance(inputs, str):
        return inputs
    fresh = new_inputs(problem, inputs)
    if not fresh:
        return "no_new_inputs"
    candidates = [Test(campaign.thresholds.kind, text, None, origin=generator.id) for text in fresh]
    pool = verification_pool(problem, campaign.verifiers, seed=seed)
    agreement = find_agreement(problem, session, pool=pool, candidates=candidates)
    if agreement is None:
        return "no_agreement"
    return _verified(problem, session, agreement, pool=pool, campaign=campaign)


def new_inputs(problem: Problem, inputs: Sequence[str]) -> list[str]:
    """Return the inputs that neither the suite nor an earlier call has, in order: a repeated test says nothing new."""
    known = {test.input for test in problem.tests}
    return [text for text in dict.fromkeys(inputs) if text not in known]


def verification_pool(problem: Problem, size: int, *, seed: int) -> list[int]:
    """Draw the correct solutions that vote.

    Args:
      problem: any problem.
      size: of the pool at most.
      seed: of the draw.

    Returns:
      Indices into the problem's solutions, in order.
    """
    columns = [s for s, one in enumerate(problem.solutions) if one.label is Label.CORRECT]
    columns.sort(key=lambda s: hashlib.sha256(f"{seed}/{problem.solutions[s].id}".encode()).digest())
    return sorted(columns[:size])


def _verified(
    problem: Problem,
    session: SandboxSession,
    agreement: Agreement,
    *,
    pool: list[int],
    campaign: GenerationCampaign,
) -> tuple[Problem, bool] | str:
    """Run one agreeing solution once more, and run every solution that still lacks executions on the accepted tests."""
    tests = agreement.tests
    fastest = min(agreement.agreeing, key=lambda one: agreement.executions.wall_s[:, one].sum())
    rest = [s for s in _undecided(problem, campaign) if s not in pool]
    asked = [problem.solutions[s] for s in (pool[fastest], *rest)]
    more = session.run(asked, tests, checker=problem.checker, round_index=1).executions
    if (more.status[:, 0] == Status.FAULT).any():
        return "sandbox_fault"
    if not (more.status[:, 0] == Status.SUCCESS).all():
        return "not_reproducible"
    executions = matrices.not_run(len(tests), len(problem.solutions))
    executions = matrices.replace_columns(agreement.executions, pool, into=executions)
    executions = matrices.replace_columns(more.take(range(1, len(asked)), axis=1), rest, into=executions)
    grown = dataclasses.replace(
        problem,
        tests=problem.tests + tests,
        executions=matrices.concatenate_tests(problem.executed, executions),
    )
    return grown, agreement.is_disputed


def _undecided(problem: Problem, campaign: GenerationCampaign) -> list[int]:
    """Return the solutions that have to run on new tests: correct ones, and incorrect ones that original tests passed.

    No filter removes original tests, so what fails them needs no further evidence.
    """
    status = problem.executed.status[verdicts.is_kind(problem, TestKind.ORIGINAL)]
    let_through = (status == Status.SUCCESS).all(axis=0) & campaign.thresholds.reclassifies_incorrect
    return np.flatnonzero(let_through | verdicts.is_label(problem, Label.CORRECT)).tolist()


def _seed(*parts: object) -> int:
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    # Leaves room below 2**31 for the calls, which count up from it.
    return int.from_bytes(digest[:4], "big") % 10**9
