"""Edge: from policies to stored records: samples programs, times everything in one shuffled pass, keeps it.

All programs of all policies and the reference solutions run in one pass, in random order, so that whatever the service
goes through meets them alike (sec. 5, "Replayed evaluation"). Nothing here says what a program is worth.
"""

import contextlib
import functools
import hashlib
import json
import logging
import pathlib
import typing
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from optimrl_jax import arrays
from optimrl_jax.data.dataset import ProblemRecord
from optimrl_jax.evaluation import policies, records, timing_pass
from optimrl_jax.jobs import files
from optimrl_jax.jobs.progress import JobProgress
from optimrl_jax.rollout import execution
from optimrl_jax.rollout.actor import SampledProgram
from optimrl_jax.settings import Settings
from sandbox.client import Client

_LOG = logging.getLogger(__name__)
ALL_KINDS = frozenset(arrays.TestKind)


class PolicySource(typing.NamedTuple):
    """A policy whose programs are to be timed.

    Attributes:
      facts: what records keep of it, as `policies.policy_facts` has it; another value is another question.
      sample: samples `evaluation.samples` programs for each problem, in order.
    """

    facts: dict[str, typing.Any]
    sample: Callable[[], list[list[SampledProgram]]]


def collect_evaluation(
    settings: Settings, problems: Sequence[ProblemRecord], output: pathlib.Path
) -> records.Evaluation:
    """Read or make the records of `evaluation.policies`; see `collect_records`.

    Args:
      settings: `evaluation`, `sandbox`, `data`, `grpo.temperature` and the seed.
      problems: to evaluate on, in the order of all results.
      output: an existing directory for records, answers of servers and the store of the timing pass.
    """

    def source_of(name: str, source: str) -> PolicySource:
        answers = output / f"answers_{name}.jsonl"
        sample = functools.partial(policies.sample_programs, source, problems, settings, answers=answers)
        return PolicySource(policies.policy_facts(source), sample)

    sources = {name: source_of(name, source) for name, source in settings.evaluation.policies}

    def connect(store: str) -> contextlib.AbstractContextManager[Client]:
        return execution.connect_sandbox(settings.sandbox, pass_store=store)

    return collect_records(settings, problems, output, sources=sources, connect=connect)


def collect_records(
    settings: Settings,
    problems: Sequence[ProblemRecord],
    output: pathlib.Path,
    *,
    sources: Mapping[str, PolicySource],
    connect: Callable[[str], contextlib.AbstractContextManager[Client]],
) -> records.Evaluation:
    """Read the records in `output` where they answer the same question; otherwise sample, time and write them.

    The question is the content of policies, problems and settings of the measurement: a dataset that was rebuilt, a
    policy that was trained further, or another sandbox is a new evaluation, and the log says so.

    Args:
      settings: `evaluation`, `sandbox`, `data`, `grpo.temperature` and the seed.
      problems: to evaluate on, in the order of all results.
      output: an existing directory for records and the store of the timing pass.
      sources: the policies, by name.
      connect: opens a client on the sandbox with the store of the pass; without one where the path is empty.
    """
    named = {name: source.facts for name, source in sources.items()}
    question = _question(settings, problems, named)
    key = _hash(question)
    stored = records.stored_facts(output)
    if stored.get("key") == key:
        _LOG.info("replaying the executions stored in %s by the pass of %s", output, stored["pass"]["begun"])
        return records.read_evaluation(output)
    if stored:
        changed = [name for name, value in question.items() if stored.get("question", {}).get(name) != _hash(value)]
        _LOG.info("the stored records answer another question (%s changed): timing everything anew", ", ".join(changed))
    current = timing_pass.enter_pass(output, key)
    with connect(current.store if settings.sandbox.reuse == "always" else "") as client:
        executor = execution.Executor(client, settings.sandbox)
        samples = _time_all(executor, problems, _programs(settings, problems, sources, current), seed=settings.seed)
    facts = {
        "key": key,
        "question": {name: _hash(value) for name, value in question.items()},
        "pass": {"id": current.id, "begun": current.begun, "address": settings.sandbox.address},
        "policies": named,
    }
    evaluation = records.Evaluation([records.stored_problem(problem) for problem in problems], samples, facts)
    records.write_evaluation(output, evaluation)
    timing_pass.finish_pass(current)
    return evaluation


def _question(
    settings: Settings, problems: Sequence[ProblemRecord], named: dict[str, dict[str, typing.Any]]
) -> dict[str, typing.Any]:
    return {
        "policies": [(name, facts["source"], facts["step"], facts["written"]) for name, facts in named.items()],
        "dataset": [records.content_sha256(problem) for problem in problems],
        "measurement": policies.measurement_facts(settings),
    }


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _programs(
    settings: Settings,
    problems: Sequence[ProblemRecord],
    sources: Mapping[str, PolicySource],
    current: timing_pass.TimingPass,
) -> dict[str, list[list[SampledProgram]]]:
    """Gather the programs to time, by policy and problem: n samples of each policy, and the references themselves.

    What a policy sampled is kept with the pass, so that one that was killed samples only where it was not yet done.
    """
    programs = {
        records.REFERENCES: [[SampledProgram(text) for text in problem.reference_program] for problem in problems]
    }
    n = settings.evaluation.samples
    for name, source in sources.items():
        kept = current.samples(name)
        if kept.exists():
            _LOG.info("%s: %d programs for each of %d problems were sampled before", name, n, len(problems))
        else:
            _LOG.info("%s: sampling %d programs for each of %d problems", name, n, len(problems))
            files.write_json(kept, {"programs": source.sample()})
        stored = json.loads(kept.read_text())["programs"]
        programs[name] = [[SampledProgram(*row) for row in rows] for rows in stored]
    return programs


def _time_all(
    executor: execution.Executor,
    problems: Sequence[ProblemRecord],
    programs: dict[str, list[list[SampledProgram]]],
    *,
    seed: int,
) -> list[records.SampleRecord]:
    """Execute every program on every test, in random order, within one pass."""
    attempts = [
        (name, index, number, sampled)
        for name, of_policy in programs.items()
        for index, of_problem in enumerate(of_policy)
        for number, sampled in enumerate(of_problem)
    ]
    order = np.random.default_rng(seed).permutation(len(attempts))
    shuffled = [attempts[position] for position in order]
    pairs = [(problems[index], sampled.program) for _, index, _, sampled in shuffled]
    with JobProgress("timed programs", len(shuffled)) as progress:
        runs = executor.execute(pairs, kinds=ALL_KINDS, on_result=progress.advance_to)
    samples = [
        records.SampleRecord(
            name,
            problems[index].id,
            number,
            sampled.program,
            run.status,
            run.duration_s,
            sampled.tokens,
            sampled.is_cut,
        )
        for (name, index, number, sampled), run in zip(shuffled, runs, strict=True)
    ]
    return sorted(samples, key=lambda sample: (sample.policy, sample.problem_id, sample.sample))
