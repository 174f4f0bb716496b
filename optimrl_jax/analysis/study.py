"""Edge: what an analysis looks at, stored evaluations of one dataset, replayed once, with what is known of each policy.

First step of `analyze`: records of any number of directories become policies side by side on the same problems. Each
directory is ranked against the references of its own timing pass, so that seconds of two passes never meet.
"""

import dataclasses
import pathlib
import typing
from collections.abc import Iterable, Sequence

import numpy as np

from optimrl_jax.arrays import AffineMap, Execution, Outcome, Status
from optimrl_jax.evaluation import leaderboards, records, replay
from optimrl_jax.evaluation.scores import counts_at_tau
from optimrl_jax.jobs.errors import UserError

# Names of directories that say which job ran there, and not in which experiment.
JOB_FOLDERS = ("grpo", "sft")


@dataclasses.dataclass(frozen=True, eq=False)
class TimingRun:
    """One timing pass: a directory of records.

    Attributes:
      name: unique in the study.
      address: of the sandbox that measured; empty where the records do not say.
      references: `[h, k]` runs of the references of each problem.
      drift: how this pass stood to the stored durations.
    """

    name: str
    address: str
    references: list[Execution]
    drift: leaderboards.DriftFit


@dataclasses.dataclass(frozen=True, eq=False)
class PolicyRun:
    """One policy on the problems of a study.

    Attributes:
      label: unique in the study.
      name: what its records call it; policies of two passes may share it.
      timing: the pass that measured it: its seconds compare with those of this pass alone.
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
    name: str
    timing: TimingRun
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
      passes: every timing pass, in order of the records.
      taus: percentiles to report; 100 alone where there is no leaderboard.
      seed: of all resampling.
      resamples: of every bootstrap.
      runs: workdirs of training runs, for what their metrics say.
    """

    problems: list[records.StoredProblem]
    policies: list[PolicyRun]
    passes: tuple[TimingRun, ...]
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

    def rival_of(self, policy: PolicyRun) -> PolicyRun | None:
        """Find what a policy's seconds are compared with: the policy of the baseline's name in its own pass."""
        found = [p for p in self.policies if p.timing is policy.timing and p.name == self.baseline.name]
        return found[0] if found and found[0] is not policy else None

    @property
    def rivalries(self) -> list[tuple[PolicyRun, PolicyRun]]:
        """Every (policy, rival) whose seconds were measured in one pass."""
        return [(policy, rival) for policy in self.policies if (rival := self.rival_of(policy))]


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
        if not evaluation.problems or not evaluation.facts.get("policies"):
            raise UserError(f"{directory}: expected stored evaluation records (there are no samples in them)")
        content = tuple(problem.sha256 for problem in evaluation.problems)
        by_content.setdefault(content, []).append((directory, evaluation))
    studies = [_study(members, leaderboard, tuple(runs)) for members in by_content.values()]
    return [_with_baseline(study, baseline) for study in studies] if baseline else studies


def _study(
    members: Sequence[tuple[pathlib.Path, records.Evaluation]], leaderboard: str, runs: tuple[pathlib.Path, ...]
) -> Study:
    problems = members[0][1].problems
    names = [name for _, evaluation in members for name in evaluation.facts["policies"]]
    policies, passes = [], []
    for (_, evaluation), short in zip(members, _short_names([path for path, _ in members]), strict=True):
        references = records.executions_of(evaluation, records.REFERENCES)
        fresh_s = [replay.fresh_durations(p, own) for p, own in zip(problems, references, strict=True)]
        drift = replay.fit_drift(problems, fresh_s)
        passes.append(TimingRun(short, evaluation.facts.get("pass", {}).get("address", ""), references, drift))
        stored_s = [problem.duration_s for problem in problems]
        times = leaderboards.LEADERBOARDS[leaderboard](stored_s, fresh_s, drift, AffineMap())
        groups = replay.group_problems(problems, times.reference_s)
        for name in evaluation.facts["policies"]:
            label = name if names.count(name) == 1 else f"{short}:{name}"
            policies.append(_policy(label, name, passes[-1], evaluation, groups, times.gamma))
    has_leaderboard = any(problem.is_usable.any() for problem in problems)
    taus = (100.0, 50.0, 30.0, 20.0, 10.0) if has_leaderboard else (100.0,)
    return Study(problems, policies, tuple(passes), taus, runs=runs)


def _policy(
    label: str,
    name: str,
    timing: TimingRun,
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
        name,
        timing,
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


def run_labels(runs: Iterable[str | pathlib.PurePath]) -> dict[str, str]:
    """Name training runs by the ends of their paths, as long as they need to be to differ.

    A directory whose name says only which job ran there has the one above it in its name.

    Args:
      runs: workdirs.

    Returns:
      Names by the text of the path.
    """
    parts = {str(run): pathlib.PurePath(run).parts or (str(run),) for run in runs}
    labels = {}
    for run, own in parts.items():
        count = 2 if own[-1] in JOB_FOLDERS else 1
        while count < len(own) and [other[-count:] for other in parts.values()].count(own[-count:]) > 1:
            count += 1
        labels[run] = "/".join(own[-count:])
    return labels


def stated_difficulty(problem: records.StoredProblem) -> str:
    """Name the difficulty that a dataset states; "unknown" where it states none."""
    return str(problem.difficulty) if problem.difficulty else "unknown"


def _short_names(directories: Sequence[pathlib.Path]) -> list[str]:
    """Name each directory by its last part that says something, or by all of it where two would be called the same."""
    short = [next((part for part in reversed(path.parts) if part != "evaluation"), str(path)) for path in directories]
    return [name if short.count(name) == 1 else str(path) for name, path in zip(short, directories, strict=True)]


def mean_seconds(study: Study, policy: PolicyRun) -> np.ndarray:
    """Average each sample's seconds over optimization tests; over all tests where a problem has none.

    Args:
      study: its problems say which tests count.
      policy: one of its policies.

    Returns:
      `[b, n]` seconds.
    """
    return np.stack([_mean_on(problem, own) for problem, own in zip(study.problems, policy.executions, strict=True)])


def reference_seconds(study: Study, timing: TimingRun) -> list[np.ndarray]:
    """Average each reference's seconds in a pass.

    Args:
      study: its problems say which tests count.
      timing: one of its passes.

    Returns:
      `[h]` of each problem; +inf where a reference did not succeed on every such test.
    """
    found = []
    for problem, runs in zip(study.problems, timing.references, strict=True):
        on = timed_tests(problem)
        is_whole = np.all(runs.status[:, on] == Status.SUCCESS, axis=1)
        found.append(np.where(is_whole, _mean_on(problem, runs), np.inf))
    return found


def is_passing(policy: PolicyRun) -> np.ndarray:
    """Mark the valid samples that are strictly correct, bool[b, n]."""
    return counts_at_tau(policy.outcome.c_strict, policy.outcome.q, 100.0) & policy.outcome.is_valid


def timed_tests(problem: records.StoredProblem) -> np.ndarray:
    """Mark the tests whose seconds count, bool[k]: optimization tests, or all where a problem has none."""
    return problem.is_optimization if problem.is_optimization.any() else np.ones(len(problem.test_kind), bool)


def _mean_on(problem: records.StoredProblem, runs: Execution) -> np.ndarray:
    on = timed_tests(problem)
    return np.asarray(runs.duration_s, float)[:, on].mean(axis=1)
