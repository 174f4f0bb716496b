"""Edge: opens whatever can be evaluated: a workdir at a step, published weights, a served model, stored programs.

The text of `evaluation.policies` says which: `runs/grpo` (newest checkpoint), `runs/grpo@1000` (that step), a directory
of published weights or `gguf:PACKAGE` as in `sft.init_from`, `http://host:port/v1#model`, and
`runs/one/evaluation#sft`: the programs that `sft` wrote in stored records, which are then timed again.
"""

import dataclasses
import json
import os
import pathlib
import typing
from collections.abc import Sequence

from optimrl_jax.data import prompts
from optimrl_jax.data.dataset import ProblemRecord
from optimrl_jax.evaluation import records
from optimrl_jax.evaluation.endpoint import PolicyEndpoint, Question
from optimrl_jax.jobs.checked_fields import thaw
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.jobs.progress import JobProgress
from optimrl_jax.model.pretrained import published
from optimrl_jax.rollout.actor import SampledProgram, Sampler
from optimrl_jax.settings import Settings
from optimrl_jax.training import checkpoints, sampling_policy

KEY_VARIABLE = "OPTIMRL_ENDPOINT_KEY"
# Settings of a run that tell recipes apart; what is not here, such as the seed, may differ between launches of one.
RECIPE = ("data", "environment", "reward", "noise", "sandbox", "grpo")


def split_source(source: str) -> tuple[str, int | None]:
    """Split `WORKDIR@STEP` into workdir and step; the step is None where there is none.

    Raises:
      UserError: for a step that is not a number.
    """
    if source.startswith(("http://", "https://")) or "@" not in pathlib.PurePath(source).name:
        return source, None
    path, _, step = source.rpartition("@")
    if not step.isdigit():
        raise UserError(f"evaluation.policies: {source!r}: expected a step after @, such as {path}@1000")
    return path, int(step)


def policy_facts(source: str) -> dict[str, typing.Any]:
    """Describe where a policy comes from, without loading it: what records keep, and what shows that it has changed.

    Args:
      source: where the policy is, as in `evaluation.policies`.

    Returns:
      {"source", "step", "written" (ns, of a checkpoint), "seed", "recipe", "wall_s"}, None where it has none.
    """
    if again := _stored_source(source):
        directory, name = again
        known = records.stored_facts(directory)["policies"]
        if name not in known:
            raise UserError(f"evaluation.policies: {source!r}: expected one of {', '.join(known)} after #")
        return known[name] | {"written": (directory / records.RECORDS).stat().st_mtime_ns}
    path, step = split_source(source)
    facts: dict[str, typing.Any] = {"source": source} | dict.fromkeys(("step", "written", "seed", "recipe", "wall_s"))
    if source.startswith(("http://", "https://")) or published.names_published_weights(path):
        return facts
    facts["step"], facts["written"] = checkpoints.fingerprint(path, step=step)
    summary = pathlib.Path(path) / "summary.json"
    if summary.exists():
        values = json.loads(summary.read_text())
        settings = values.get("settings", {})
        facts["seed"], facts["wall_s"] = settings.get("seed"), values.get("wall_s")
        facts["recipe"] = {name: settings[name] for name in RECIPE if name in settings}
    return facts


def sample_programs(
    source: str, problems: Sequence[ProblemRecord], settings: Settings, *, answers: pathlib.Path
) -> list[list[SampledProgram]]:
    """Sample `evaluation.samples` programs for each problem from one policy.

    Args:
      source: where the policy is, as in `evaluation.policies`.
      problems: to write programs for.
      settings: number of samples, seed, temperature, and lengths of `data`.
      answers: file that keeps what a server said, so that a killed job does not ask again.

    Returns:
      The programs of each problem, in order.

    Raises:
      UserError: for a policy that cannot be read or a server that does not answer.
    """
    samples, statements = settings.evaluation.samples, [problem.statement for problem in problems]
    if again := _stored_source(source):
        return _from_records(*again, problems, samples)
    if source.startswith(("http://", "https://")):
        return _from_server(source, statements, settings, answers=answers)
    path, step = split_source(source)
    policy = sampling_policy.load_to_sample(path, settings.compute, step=step)
    return Sampler(policy, settings.data, settings.grpo.temperature).sample_programs(
        statements, samples, seed=settings.seed
    )


def _from_server(
    source: str, statements: Sequence[str], settings: Settings, *, answers: pathlib.Path
) -> list[list[SampledProgram]]:
    url, _, model = source.partition("#")
    endpoint = PolicyEndpoint(url, model or "policy", store=answers, key=os.environ.get(KEY_VARIABLE, ""))
    n = settings.evaluation.samples
    try:
        questions = _questions(statements, settings, is_chat=endpoint.has_chat_template())
        with JobProgress("answers", len(questions)) as progress:
            found = endpoint.ask(questions, on_answer=progress.advance_to)
    finally:
        endpoint.close()
    programs = [
        SampledProgram(prompts.program_in(answer.text, settings.data), answer.tokens, answer.is_cut) for answer in found
    ]
    return [programs[start : start + n] for start in range(0, len(programs), n)]


def _questions(statements: Sequence[str], settings: Settings, *, is_chat: bool) -> list[Question]:
    """Word what a server is asked as rollouts are asked, `evaluation.samples` times for each statement."""
    asked = []
    for statement in statements:
        *told, user = prompts.question(statement, settings.data, is_chat=is_chat)
        question = Question(
            user["content"],
            temperature=settings.grpo.temperature,
            tokens=settings.data.completion_tokens,
            seed=settings.seed,
            system=told[0]["content"] if told else "",
        )
        asked += [dataclasses.replace(question, number=number) for number in range(settings.evaluation.samples)]
    return asked


def _stored_source(source: str) -> tuple[pathlib.Path, str] | None:
    """Split `RECORDS#POLICY` into directory and name; None where the source is no directory of records."""
    directory, _, name = source.rpartition("#")
    path = pathlib.Path(directory)
    return (path, name) if directory and (path / records.RECORDS).exists() else None


def _from_records(
    directory: pathlib.Path, name: str, problems: Sequence[ProblemRecord], samples: int
) -> list[list[SampledProgram]]:
    """Take the programs of stored records, to be timed again."""
    programs: dict[str, list[SampledProgram]] = {}
    ordered = sorted(records.read_evaluation(directory).samples, key=lambda sample: sample.sample)
    for sample in (sample for sample in ordered if sample.policy == name):
        stored = SampledProgram(sample.program, sample.tokens, sample.is_cut)
        programs.setdefault(sample.problem_id, []).append(stored)
    for problem in problems:
        if len(programs.get(problem.id, ())) < samples:
            raise UserError(
                f"{directory}: policy {name!r} has {len(programs.get(problem.id, ()))} programs for {problem.id!r}: "
                f"expected evaluation.samples = {samples}"
            )
    return [programs[problem.id][:samples] for problem in problems]


def measurement_facts(settings: Settings) -> dict[str, typing.Any]:
    """Collect what decides measured seconds and sampled programs, for the key of stored records."""
    return {
        "samples": settings.evaluation.samples,
        "seed": settings.seed,
        "temperature": settings.grpo.temperature,
        "text": prompts.text_facts(settings.data),
        "dtype": settings.compute.dtype,
        "sandbox": thaw(settings.sandbox),
    }


def check_names(policies: Sequence[tuple[str, str]]) -> None:
    """Check the names of policies.

    Raises:
      UserError: where there is no policy, a name is empty, holds a slash or is used twice, or is "references".
    """
    if not policies:
        raise UserError("evaluation.policies = (): expected at least one (name, policy) pair")
    names = [name for name, _ in policies]
    for name in names:
        if not name or "/" in name:
            raise UserError(f"evaluation.policies: {name!r}: expected a name without '/', of which files are named")
        if names.count(name) > 1 or name == "references":
            raise UserError(f"evaluation.policies: {name!r}: expected another name for each policy, not 'references'")
