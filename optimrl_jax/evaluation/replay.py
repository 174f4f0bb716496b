"""Replays stored executions through environments: no model and no sandbox, only arrays (sec. 5, "Replayed evaluation").

Problems are grouped by padded shape, so that a whole evaluation under any number of environments compiles a few
programs. What is judged here went through the same `environment.judge` that training uses.
"""

import typing
from collections.abc import Sequence

import jax
import numpy as np

from optimrl_jax import environment
from optimrl_jax.arrays import CAP_S, AffineMap, Execution, Outcome, References, Status, TestKind, Tests
from optimrl_jax.environment import padding
from optimrl_jax.evaluation import leaderboards, records
from optimrl_jax.settings import Settings

MOST_SHAPES = 4


class ProblemGroup(typing.NamedTuple):
    """Problems of one padded shape.

    Attributes:
      index: int[g], their places among all problems.
      tests: `[g, k]`.
      references: `[g, k, h]`, seconds to rank against.
    """

    index: np.ndarray
    tests: Tests
    references: References


def group_problems(problems: Sequence[padding.Record], reference_s: Sequence[np.ndarray]) -> list[ProblemGroup]:
    """Pad problems to a few shapes and stack those of each.

    Args:
      problems: in the order of all results.
      reference_s: `[k, h]` seconds of each problem's leaderboard (`leaderboards`).

    Returns:
      At most `MOST_SHAPES` groups, in order of shape, that together hold every problem once.
    """
    sizes = [problem.duration_s.shape for problem in problems]
    shapes = padding.bounded_shapes(sizes, most=MOST_SHAPES) if sizes else []
    members: dict[padding.Size, list[int]] = {}
    for index, size in enumerate(sizes):
        members.setdefault(padding.shape_for(size, shapes), []).append(index)
    groups = []
    for (k, h), indices in sorted(members.items()):
        tests = [padding.pad_tests(problems[index], k) for index in indices]
        references = [_pad_board(problems[index], reference_s[index], k, h) for index in indices]
        groups.append(ProblemGroup(np.array(indices), _stack(tests), _stack(references)))
    return groups


def judge_groups(
    envs: Sequence[environment.Environment], groups: Sequence[ProblemGroup], executions: Sequence[Execution]
) -> Outcome:
    """Judge every problem's samples under every environment.

    Args:
      envs: of any families; equal structures are judged together.
      groups: all problems (`group_problems`).
      executions: `[n, k]` of each problem, at least one, with equally many samples `n` everywhere.

    Returns:
      NumPy arrays `[environments, problems, n]` in the order of the arguments.
    """
    b, n = len(executions), len(executions[0].status)
    parts = [np.zeros((len(envs), b, n), kind) for kind in (np.float32,) * 4 + (bool,)]
    for places, stacked in _stack_environments(envs):
        for group in groups:
            k = group.tests.mask.shape[1]
            padded = _stack([padding.pad_execution(executions[index], k) for index in group.index])
            judged = _judge_group(stacked, group.tests, group.references, padded)
            for part, values in zip(parts, judged, strict=True):
                part[np.ix_(places, group.index)] = np.swapaxes(np.asarray(values), 0, 1)
    return Outcome(*parts)


@jax.jit
def _judge_group(envs: environment.Environment, tests: Tests, references: References, execution: Execution) -> Outcome:
    """Compute outcomes `[g, environments, n]`; taking one problem at a time bounds the memory."""
    judge = jax.vmap(environment.judge, in_axes=(0, None, None, None))
    return jax.lax.map(lambda problem: judge(envs, *problem), (tests, references, execution))


def _stack_environments(
    envs: Sequence[environment.Environment],
) -> list[tuple[np.ndarray, environment.Environment]]:
    """Group environments by structure: (places, environments with stacked numbers) of each."""
    by_structure: dict[object, list[int]] = {}
    for place, env in enumerate(envs):
        by_structure.setdefault(jax.tree.structure(env), []).append(place)
    return [
        (np.array(places), jax.tree.map(lambda *numbers: np.array(numbers, np.float32), *(envs[p] for p in places)))
        for places in by_structure.values()
    ]


def _pad_board(problem: padding.Record, reference_s: np.ndarray, k: int, h: int) -> References:
    board_s = np.where(problem.is_usable, reference_s, 0).astype(np.float32)
    return padding.pad_references(problem, k, h)._replace(duration_s=padding.pad_array(board_s, (k, h)))


def _stack(parts: Sequence[typing.Any]) -> typing.Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *parts)


def fresh_durations(problem: padding.Record, runs: Execution) -> np.ndarray:
    """Collect the reference durations of this timing pass.

    Args:
      problem: with `h` references on `k` tests.
      runs: `[h, k]` the references as candidates, in stored order.

    Returns:
      `[k, h]` seconds; nan where a reference neither succeeded nor timed out, or its stored cell is unusable.
    """
    is_measured = np.isin(runs.status, (Status.SUCCESS, Status.TIMEOUT)).T
    return np.where(is_measured & problem.is_usable, runs.duration_s.T, np.nan)


def fit_drift(problems: Sequence[padding.Record], fresh_s: Sequence[np.ndarray]) -> leaderboards.DriftFit:
    """Fit the map from stored to fresh seconds over all optimization tests of all problems, timeouts left out.

    Args:
      problems: with their stored durations.
      fresh_s: `[k, h]` seconds of each problem (`fresh_durations`).
    """
    stored, fresh = [np.zeros(0)], [np.zeros(0)]
    for problem, fresh_of_problem in zip(problems, fresh_s, strict=True):
        is_optimization = (np.asarray(problem.test_kind) == TestKind.OPTIMIZATION)[:, None]
        is_pair = is_optimization & problem.is_usable & np.isfinite(fresh_of_problem)
        is_pair &= (problem.duration_s < CAP_S) & (np.nan_to_num(fresh_of_problem) < CAP_S)
        stored.append(problem.duration_s[is_pair])
        fresh.append(fresh_of_problem[is_pair])
    return leaderboards.fit_affine(np.concatenate(stored).astype(float), np.concatenate(fresh).astype(float))


def ranking_environment(gamma: AffineMap, *, ties: str = "first") -> environment.Environment:
    """Build the environment whose q is the paper's p_tau: exact leaderboard percentile under a calibration.

    Args:
      gamma: calibration of the reference seconds.
      ties: "first" or "average".
    """
    return environment.build("qp_ranked", ties=ties, alpha=gamma.slope, beta_s=gamma.offset_s)


def reference_times(
    evaluation: records.Evaluation, settings: Settings
) -> tuple[leaderboards.ReferenceTimes, leaderboards.DriftFit]:
    """Choose the reference durations to rank against, and fit how this timing pass relates to the stored ones.

    Args:
      evaluation: with the runs of the references.
      settings: the leaderboard and the configured calibration.
    """
    runs = records.executions_of(evaluation, records.REFERENCES)
    fresh_s = [fresh_durations(p, of_problem) for p, of_problem in zip(evaluation.problems, runs, strict=True)]
    drift = fit_drift(evaluation.problems, fresh_s)
    gamma = AffineMap(settings.environment.alpha, settings.environment.beta_s)
    choose = leaderboards.LEADERBOARDS[settings.evaluation.leaderboard]
    return choose([problem.duration_s for problem in evaluation.problems], fresh_s, drift, gamma), drift


def replay_policies(
    evaluation: records.Evaluation, times: leaderboards.ReferenceTimes, *, ties: str
) -> dict[str, Outcome]:
    """Judge every policy's samples against the leaderboard.

    Args:
      evaluation: stored problems and samples.
      times: what to rank against.
      ties: "first" or "average".

    Returns:
      Outcomes `[problems, samples]` by policy.
    """
    groups = group_problems(evaluation.problems, times.reference_s)
    env = ranking_environment(times.gamma, ties=ties)
    outcomes = {}
    for name in evaluation.facts["policies"]:
        judged = judge_groups([env], groups, records.executions_of(evaluation, name))
        outcomes[name] = Outcome(*(part[0] for part in judged))
    return outcomes
