"""Test generation: untrusted generators propose inputs, agreement of correct solutions gives outputs (paper L1400).

One attempt a generator: run it, let a pool of verified solutions vote, keep the inputs if at least two give the same
outputs on all of them and one of these passes a second time. What the vote executed is kept as executions, so that
only solutions outside the pool have to run afterwards.
"""

import dataclasses
import functools
import hashlib
from collections import Counter
from collections.abc import Sequence

from beam_pipelines.execution import Connection, Executor, Run
from beam_pipelines.records import Execution, Generator, Label, Problem, Test
from beam_pipelines.stages import verdicts
from beam_pipelines.stages.harness import CAMPAIGN_METHODS
from beam_pipelines.stages.stage import Stage, counted
from beam_pipelines.stages.thresholds import Thresholds
from optimrl_jax.arrays import TestKind
from sandbox.protocol import Verdict

MIN_AGREEING = 2


@dataclasses.dataclass(frozen=True)
class Campaign:
    """What a campaign may use: paper defaults are 5 calls, 10 attempts, 10 verifying solutions."""

    thresholds: Thresholds
    calls: int
    attempts: int
    verifiers: int
    seed: int


@dataclasses.dataclass(frozen=True)
class Vote:
    """Outputs that the largest group of agreeing solutions gave, and who they are (indices into the pool)."""

    outputs: tuple[str, ...]
    agreeing: tuple[int, ...]


def name(thresholds: Thresholds) -> str:
    return f"generate_{thresholds.name}"


def stage(connection: Connection, campaign: Campaign) -> Stage:
    return Stage(name(campaign.thresholds), functools.partial(generate, campaign=campaign), connection=connection)


def generate(problem: Problem, executor: Executor, *, campaign: Campaign) -> Problem:
    """The problem with the tests of all accepted attempts and their executions; never rejects.

    The trace counts attempts, accepted ones and, by reason, those that were turned down, and how the pass rates of
    correct and incorrect solutions changed before any filter saw the new tests.
    """
    stage_name = name(campaign.thresholds)
    outcomes: Counter[str] = Counter()
    rates = verdicts.pass_rates(problem, when="before")
    for index, generator in enumerate(problem.generators[: campaign.attempts]):
        outcome = attempt(problem, executor, generator=generator, campaign=campaign, index=index)
        outcomes["accepted" if isinstance(outcome, Problem) else outcome] += 1
        problem = outcome if isinstance(outcome, Problem) else problem
    rates |= verdicts.pass_rates(problem, when="generated")
    return counted(problem, stage_name, attempts=sum(outcomes.values()), **outcomes, **rates)


def attempt(
    problem: Problem, executor: Executor, *, generator: Generator, campaign: Campaign, index: int
) -> Problem | str:
    """The problem with this generator's tests added, or the reason why there are none."""
    methods = CAMPAIGN_METHODS[campaign.thresholds.name]
    seed = _seed(campaign.seed, problem.id, generator.id, campaign.thresholds.name)
    inputs = executor.inputs_of(generator, methods, calls=campaign.calls, seed=seed)
    if isinstance(inputs, str):
        return inputs
    fresh = new_inputs(problem, inputs)
    if not fresh:
        return "no_new_inputs"
    candidates = [Test(campaign.thresholds.kind, text, None, origin=generator.id) for text in fresh]
    pool = verification_pool(problem, campaign.verifiers, seed=seed)
    runs = executor.run([problem.solutions[s] for s in pool], candidates, returns_output=True)
    vote = consensus([run.outputs for run in runs])
    if vote is None:
        return "no_agreement"
    tests = [dataclasses.replace(test, output=out) for test, out in zip(candidates, vote.outputs, strict=True)]
    return _verified(problem, executor, tests=tests, pool=pool, runs=runs, vote=vote, campaign=campaign)


def new_inputs(problem: Problem, inputs: Sequence[str]) -> list[str]:
    """Inputs that neither the suite nor an earlier call has, in order: a repeated test says nothing new."""
    known = {test.input for test in problem.tests}
    return [text for text in dict.fromkeys(inputs) if text not in known]


def verification_pool(problem: Problem, size: int, *, seed: int) -> list[int]:
    """Up to `size` correct solutions that vote, drawn by the seed, as indices into the solutions."""
    columns = verdicts.correct_columns(problem)
    columns.sort(key=lambda s: hashlib.sha256(f"{seed}/{problem.solutions[s].id}".encode()).digest())
    return sorted(columns[:size])


def consensus(outputs: Sequence[Sequence[str | None]]) -> Vote | None:
    """The output list that most solutions share, None unless at least two do (paper, step 5).

    Lists are compared after the judge's usual normalization; a solution without an output on some input has no list.
    The first list wins a tie. Agreement on nothing but empty outputs judges nothing and does not count.
    """
    lists = {
        s: tuple(normalized(text) for text in row) for s, row in enumerate(outputs) if all(t is not None for t in row)
    }
    if not lists:
        return None
    best, votes = Counter(lists.values()).most_common(1)[0]
    agreeing = tuple(s for s, row in lists.items() if row == best)
    return Vote(best, agreeing) if votes >= MIN_AGREEING and any(best) else None


def normalized(output: str) -> str:
    """Output without trailing blanks on lines and blank lines at the end, ended by one newline."""
    lines = [line.rstrip() for line in output.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)


def judged(run: Run, vote: Vote) -> tuple[Execution | None, ...]:
    """A pool member's executions with the verdict that the consensus output gives them."""
    cells = zip(run.executions, run.outputs, vote.outputs, strict=True)
    return tuple(_judged(cell, output, wanted) for cell, output, wanted in cells)


def _judged(cell: Execution | None, output: str | None, wanted: str) -> Execution | None:
    if cell is None or cell.verdict != Verdict.SUCCESS or (output is not None and normalized(output) == wanted):
        return cell
    return dataclasses.replace(cell, verdict=str(Verdict.WRONG_OUTPUT))


def _verified(
    problem: Problem,
    executor: Executor,
    *,
    tests: list[Test],
    pool: list[int],
    runs: list[Run],
    vote: Vote,
    campaign: Campaign,
) -> Problem | str:
    """Runs one agreeing solution once more, and everyone who still has no execution on the accepted tests."""
    fastest = min(vote.agreeing, key=lambda one: sum(cell.wall_s for cell in runs[one].executions if cell))
    rest = [s for s in range(len(problem.solutions)) if s not in pool and _has_to_run(problem, s, campaign)]
    asked = [problem.solutions[s] for s in (pool[fastest], *rest)]
    verification, *others = executor.run(asked, tests, checker=problem.checker, round_index=1)
    if not verdicts.passes(verification.executions):
        return "not_reproducible"
    columns = {s: judged(run, vote) for s, run in zip(pool, runs, strict=True)}
    columns |= {s: run.executions for s, run in zip(rest, others, strict=True)}
    return _with_executed(problem, tests, columns)


def _has_to_run(problem: Problem, solution: int, campaign: Campaign) -> bool:
    """Incorrect solutions run only where original tests, which no filter removes, did not already decide."""
    if problem.solutions[solution].label is Label.CORRECT:
        return True
    cells = zip(verdicts.column(problem, solution), problem.tests, strict=True)
    return campaign.thresholds.reclassifies_incorrect and verdicts.passes(
        cell for cell, test in cells if test.kind == TestKind.ORIGINAL
    )


def _with_executed(
    problem: Problem, tests: Sequence[Test], columns: dict[int, tuple[Execution | None, ...]]
) -> Problem:
    unknown: tuple[Execution | None, ...] = (None,) * len(tests)
    rows = zip(*(columns.get(s, unknown) for s in range(len(problem.solutions))), strict=True)
    return dataclasses.replace(
        problem, tests=problem.tests + tuple(tests), executions=problem.executions + tuple(map(tuple, rows))
    )


def _seed(*parts: object) -> int:
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:4], "big") % 10**9
