"""Edge: what an analysis looks at, stored evaluations of one dataset, replayed once, with what is known of each policy.

First step of `analyze`: records of any number of directories become policies side by side on the same problems. Each
directory is ranked against the references of its own timing pass, so that seconds of two passes never meet.
"""

import dataclasses
import pathlib
import typing
from collections.abc import Sequence

import numpy as np

from optimrl_jax.arrays import AffineMap, Execution, Outcome, Status
from optimrl_jax.evaluation import leaderboards, records, replay
from optimrl_jax.evaluation.scores import counts_at_tau
from optimrl_jax.jobs.errors import UserError


@dataclasses.dataclass(frozen=True, eq=False)
class PolicyRun:
    """One policy on the problems of a study.

    Attributes:
      label: unique in the study.
      facts: source, step, seed, recipe, wall_s of the policy (`evaluation.policies.policy_facts`).
      executions: `[n, k]` of each problem.
      outcome: `[b, n]` on the leaderboard of its own timing pass.
      groups: problems with the reference seconds of that pass.
      gamma: calibration of those seconds.
      tokens: `[b, n]` lengths of completions; -1 unknown.
      is_cut: `[b, n]` completions that filled their room.
      programs: texts of each problem.
    """

    label: str
    facts: dict[str, typing.Any]
    executions: list[Execution]
    outcome: Outcome
    groups: list[replay.ProblemGroup]
    gamma: AffineMap
    tokens: np.ndarray
    is_cut: np.ndarray
    programs: list[list[str]]


@dataclasses.dataclass(frozen=True, eq=False)
class Study:
    """Policies on one dataset.

    Attributes:
      problems: in the order of all arrays.
      policies: the first one is the baseline of comparisons.
      references: `[h, k]` runs of the references of each problem, in the baseline's pass.
      drifts: how each pass stood to the stored durations, by directory.
      taus: percentiles to report; 100 alone where there is no leaderboard.
      seed: of all resampling.
      resamples: of every bootstrap.
      runs: workdirs of training runs, for what their metrics say.
    """

    problems: list[records.StoredProblem]
    policies: list[PolicyRun]
    references: list[Execution]
    drifts: dict[str, leaderboards.DriftFit]
    taus: tuple[float, ...]
    seed: int = 0
    resamples: int = 2000
    runs: tuple[pathlib.Path, ...] = ()

    @property
    def baseline(self) -> PolicyRun:
        """The policy that the others are compared with."""
        return self.policies[0]

    @property
    def has_leaderboard(self) -> bool:
        """Whether any problem has references to rank against."""
        return any(problem.is_usable.any() for problem in self.problems)


def open_studies(
    directories: Sequence[pathlib.Path],
    *,
    leaderboard: str = "fresh",
    baseline: str = "",
    runs: Sequence[pathlib.Path] = (),
) -> list[Study]:
    """Read record directories and join those of equal problems into one study each.

    Args:
      directories: what evaluations wrote.
      leaderboard: a key of `leaderboards.LEADERBOARDS`.
      baseline: label of the policy that others are compared with; empty: the first.
      runs: workdirs of training runs.

    Returns:
      Studies in order of their first directory.

    Raises:
      UserError: for unreadable records or an unknown baseline.
    """
    by_content: dict[tuple[str, ...], list[tuple[pathlib.Path, records.Evaluation]]] = {}
    for directory in directories:
        evaluation = records.read_evaluation(directory)
        content = tuple(problem.sha256 for problem in evaluation.problems)
        by_content.setdefault(content, []).append((directory, evaluation))
    studies = [_study(members, leaderboard, tuple(runs)) for members in by_content.values()]
    return [_with_baseline(study, baseline) for study in studies] if baseline else studies


def _study(
    members: Sequence[tuple[pathlib.Path, records.Evaluation]], leaderboard: str, runs: tuple[pathlib.Path, ...]
) -> Study:
    problems = members[0][1].problems
    names = [name for _, evaluation in members for name in evaluation.facts["policies"]]
    policies, drifts = [], {}
    for directory, evaluation in members:
        references = records.executions_of(evaluation, records.REFERENCES)
        fresh_s = [replay.fresh_durations(p, own) for p, own in zip(problems, references, strict=True)]
        drift = replay.fit_drift(problems, fresh_s)
        drifts[str(directory)] = drift
        stored_s = [problem.duration_s for problem in problems]
        times = leaderboards.LEADERBOARDS[leaderboard](stored_s, fresh_s, drift, AffineMap())
        groups = replay.group_problems(problems, times.reference_s)
        for name in evaluation.facts["policies"]:
            label = name if names.count(name) == 1 else f"{_short(directory)}:{name}"
            policies.append(_policy(label, name, evaluation, groups, times.gamma))
    first = records.executions_of(members[0][1], records.REFERENCES)
    has_leaderboard = any(problem.is_usable.any() for problem in problems)
    taus = (100.0, 50.0, 30.0, 20.0, 10.0) if has_leaderboard else (100.0,)
    return Study(problems, policies, first, drifts, taus, runs=runs)


def _policy(
    label: str,
    name: str,
    evaluation: records.Evaluation,
    groups: list[replay.ProblemGroup],
    gamma: AffineMap,
) -> PolicyRun:
    executions = records.executions_of(evaluation, name)
    judged = replay.judge_groups([replay.ranking_environment(gamma)], groups, executions)
    rows = sorted((sample for sample in evaluation.samples if sample.policy == name), key=lambda sample: sample.sample)
    by_problem = {problem.id: [row for row in rows if row.problem_id == problem.id] for problem in evaluation.problems}
    return PolicyRun(
        label,
        evaluation.facts["policies"][name],
        executions,
        Outcome(*(part[0] for part in judged)),
        groups,
        gamma,
        np.array([[row.tokens for row in own] for own in by_problem.values()]),
        np.array([[row.is_cut for row in own] for own in by_problem.values()]),
        [[row.program for row in own] for own in by_problem.values()],
    )


def _with_baseline(study: Study, label: str) -> Study:
    known = [policy.label for policy in study.policies]
    if label not in known:
        raise UserError(f"--baseline = {label!r}: expected one of {', '.join(known)}")
    first = sorted(study.policies, key=lambda policy: policy.label != label)
    return dataclasses.replace(study, policies=first)


def _short(directory: pathlib.Path) -> str:
    parts = [part for part in directory.parts if part != "evaluation"]
    return parts[-1] if parts else str(directory)


def mean_seconds(study: Study, policy: PolicyRun) -> np.ndarray:
    """Average each sample's seconds over optimization tests; over all tests where a problem has none.

    Args:
      study: its problems say which tests count.
      policy: one of its policies.

    Returns:
      `[b, n]` seconds.
    """
    return np.stack([_mean_on(problem, own) for problem, own in zip(study.problems, policy.executions, strict=True)])


def reference_seconds(study: Study) -> list[np.ndarray]:
    """Average each reference's seconds, `[h]` of each problem; +inf where one did not succeed on every such test."""
    found = []
    for problem, runs in zip(study.problems, study.references, strict=True):
        on = _timed_tests(problem)
        is_whole = np.all(runs.status[:, on] == Status.SUCCESS, axis=1)
        found.append(np.where(is_whole, _mean_on(problem, runs), np.inf))
    return found


def is_passing(policy: PolicyRun) -> np.ndarray:
    """Mark the valid samples that are strictly correct, bool[b, n]."""
    return counts_at_tau(policy.outcome.c_strict, policy.outcome.q, 100.0) & policy.outcome.is_valid


def _timed_tests(problem: records.StoredProblem) -> np.ndarray:
    return problem.is_optimization if problem.is_optimization.any() else np.ones(len(problem.test_kind), bool)


def _mean_on(problem: records.StoredProblem, runs: Execution) -> np.ndarray:
    on = _timed_tests(problem)
    return np.asarray(runs.duration_s, float)[:, on].mean(axis=1)
