"""From what programs did to what they earn: pads executions, judges them, and computes each rollout's reward.

Pure; every problem is padded to the one shape that holds them all, so that judging compiles once.
"""

import functools
import typing
from collections.abc import Sequence

import jax
import numpy as np

from optimrl_jax import arrays, environment, rewards
from optimrl_jax.data import padding
from optimrl_jax.settings import Settings

if typing.TYPE_CHECKING:
    from jaxtyping import Bool, Float


class Run(typing.Protocol):
    """What judging needs of `execution.CandidateRun`."""

    status: np.ndarray
    duration_s: np.ndarray


class Judged(typing.NamedTuple):
    """What the rollouts of one problem earned, and what they were: in the order of `queue.Group`."""

    reward: "Float[np.ndarray, 'r']"
    is_valid: "Bool[np.ndarray, 'r']"
    is_correct: "Bool[np.ndarray, 'r']"
    is_fast: "Bool[np.ndarray, 'r']"


class Judge:
    """The environment and the reward of the settings, over problems padded once."""

    def __init__(self, records: Sequence[padding.Record], settings: Settings) -> None:
        self._k, h = padding.shape_of(records)
        self._tests = [padding.pad_tests(record, self._k) for record in records]
        self._references = [padding.pad_references(record, self._k, h) for record in records]
        self._environment = environment_of(settings)
        self._reward = functools.partial(
            rewards.reward,
            composition=settings.reward.composition,
            quality_map=settings.reward.quality_map,
            blend_weight=settings.reward.blend_weight,
        )
        self._judge = jax.jit(environment.judge)
        self.kinds = frozenset(arrays.TestKind)

    def __call__(self, problem: int, runs: Sequence[Run]) -> Judged:
        """Judges the programs of one problem, given by its index among the records."""
        status, duration_s = (np.stack([getattr(run, name) for run in runs]) for name in ("status", "duration_s"))
        execution = padding.pad_execution(status, duration_s, self._k)
        outcome = self._judge(self._environment, self._tests[problem], self._references[problem], execution)
        outcome = jax.tree.map(np.asarray, outcome)
        reward = np.asarray(self._reward(outcome), np.float32)
        is_correct = outcome.c_strict > 0
        return Judged(
            reward=reward,
            is_valid=outcome.is_valid & np.isfinite(reward),
            is_correct=is_correct,
            is_fast=is_correct & (outcome.g > 0),
        )


def environment_of(settings: Settings) -> environment.Environment:
    """The environment that the settings name, with its numbers."""
    numbers = vars(settings.environment) | {}
    return environment.build(numbers.pop("family"), **numbers)
