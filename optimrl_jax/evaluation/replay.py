"""Replays stored executions through an environment: no model and no sandbox, only arrays (sec. 5).

Each problem's samples go through the same `environment.judge` that training uses; equal padded shapes share a compiled
program.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import numpy as np

from optimrl_jax import arrays, environment
from optimrl_jax.environment import padding
from optimrl_jax.evaluation import leaderboards


@dataclasses.dataclass(frozen=True, eq=False)
class ReplayedSamples:
    """Outcomes of one policy's samples, [b, n]: strict correctness, leaderboard percentile (0 best) and validity."""

    c_strict: np.ndarray
    q: np.ndarray
    is_valid: np.ndarray


_judge = jax.jit(environment.judge)


def fresh_durations(record: padding.Record, runs: arrays.Execution) -> np.ndarray:
    """Collect reference durations of this timing pass as [k, h]; nan where a reference neither succeeded nor timed out.

    `runs` is [h, k]: the references as candidates, in stored order.
    """
    is_measured = np.isin(runs.status, (arrays.Status.SUCCESS, arrays.Status.TIMEOUT)).T
    return np.where(is_measured & record.is_usable, runs.duration_s.T, np.nan)


def drift_of(records: Sequence[padding.Record], fresh_s: Sequence[np.ndarray]) -> leaderboards.DriftFit:
    """Fit the map from stored to fresh seconds over all optimization tests of all problems, timeouts left out."""
    stored, fresh = [np.zeros(0)], [np.zeros(0)]
    for record, fresh_of_problem in zip(records, fresh_s, strict=True):
        is_optimization = (np.asarray(record.test_kind) == arrays.TestKind.OPTIMIZATION)[:, None]
        is_pair = is_optimization & record.is_usable & np.isfinite(fresh_of_problem)
        is_pair &= (record.duration_s < arrays.CAP_S) & (np.nan_to_num(fresh_of_problem) < arrays.CAP_S)
        stored.append(record.duration_s[is_pair])
        fresh.append(fresh_of_problem[is_pair])
    return leaderboards.fit_drift(np.concatenate(stored).astype(float), np.concatenate(fresh).astype(float))


def replay(
    records: Sequence[padding.Record],
    samples: Mapping[int, arrays.Execution],
    *,
    env: environment.Environment,
    reference_s: Sequence[np.ndarray],
) -> ReplayedSamples:
    """Judge the executions [n, k] of each problem, `samples[index of problem]`, under `env`.

    `reference_s[index]` [k, h] is the leaderboard of the problem. All problems must have the same number of samples.
    """
    k, h = padding.shape_of(records)
    rows = []
    for index, record in enumerate(records):
        usable = padding.pad_references(record, k, h)
        board = np.where(record.is_usable, reference_s[index], 0).astype(np.float32)
        padded = np.zeros((k, h), np.float32)
        padded[: board.shape[0], : board.shape[1]] = board
        outcome = _judge(
            env,
            padding.pad_tests(record, k),
            usable._replace(duration_s=padded),
            padding.pad_execution(samples[index], k),
        )
        rows.append([np.asarray(part) for part in (outcome.c_strict, outcome.q, outcome.is_valid)])
    return ReplayedSamples(*(np.stack(column) for column in zip(*rows, strict=True)))
