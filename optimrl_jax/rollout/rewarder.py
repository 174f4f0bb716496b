"""From what programs did to what they earn: pads executions, judges them, and computes each rollout's reward.

Pure; every problem is padded to the one shape that holds them all, so that judging compiles once.
"""

import dataclasses
import functools
import typing
from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Bool, Float

from optimrl_jax import arrays, environment, rewards
from optimrl_jax.environment import padding
from optimrl_jax.jobs.user_code import load_function, names_function
from optimrl_jax.settings import RewardSettings, Settings

# Compositions whose reward is decided by the first test that fails.
GATED = ("collapsed", "two_gate")


class Run(typing.Protocol):
    """What judging needs of `execution.CandidateRun`."""

    @property
    def status(self) -> np.ndarray: ...

    @property
    def duration_s(self) -> np.ndarray: ...

    @property
    def drift(self) -> arrays.AffineMap: ...


class RewardedGroup(typing.NamedTuple):
    """What the rollouts of one problem earned, and what they were: in the order of `queue.Group`."""

    reward: Float[arrays.Array, " r"]
    is_valid: Bool[arrays.Array, " r"]
    is_correct: Bool[arrays.Array, " r"]
    is_fast: Bool[arrays.Array, " r"]


class Rewarder:
    """The environment and the reward of the settings over padded problems; raises ValueError for unknown names."""

    def __init__(self, records: Sequence[padding.Record], settings: Settings) -> None:
        self._k, h = padding.shape_of(records)
        self._tests = [padding.pad_tests(record, self._k) for record in records]
        self._references = [padding.pad_references(record, self._k, h) for record in records]
        self._environment = environment.build(**vars(settings.environment))
        reward = functools.partial(rewards.judge_and_reward, **_resolved(settings.reward))
        self._judged = jax.jit(lambda *problem: _judged(reward(*problem)))
        self._seed, self._noise = settings.seed, settings.noise
        self._service = environment.service_named(settings.noise.service)
        self._under_state = jax.jit(environment.under_state)
        nothing = arrays.Execution(np.zeros((1, self._k), np.int32), np.zeros((1, self._k), np.float32))
        # Traced once without running, so that an unknown name is refused here and not after the first rollouts.
        jax.eval_shape(self._judged, self._environment, self._tests[0], self._references[0], nothing)
        family = environment.family_named(settings.environment.family)
        self.kinds = family.kinds
        self.uses_own_limits = family.uses_own_limits
        self.stops_early = can_stop_early(family, settings.reward.composition)

    def __call__(self, problem: int, runs: Sequence[Run], *, stream: int, batch: int) -> RewardedGroup:
        """Judges the programs of one problem, given by its index among the records.

        `stream` 0 or 1 chooses between the correctness and the optimization reward of multitask compositions; `batch`
        numbers the rollouts and picks the random stream of injected timing noise.
        """
        execution = padding.pad_execution(arrays.Execution.stack(runs), self._k)
        tests, references = self._tests[problem], self._references[problem]
        execution = self._as_served(tests, execution, batch=batch, problem=problem)
        maps = [run.drift for run in runs]
        found = {
            drift: jax.tree.map(np.asarray, self._judged(self._under_drift(drift), tests, references, execution))
            for drift in dict.fromkeys(maps)
        }
        rows = [jax.tree.map(lambda column, n=n: column[n], found[drift]) for n, drift in enumerate(maps)]
        judged = jax.tree.map(lambda *column: np.stack(column), *rows)
        of_stream = judged.reward[:, stream] if judged.reward.ndim == 2 else judged.reward
        return judged._replace(reward=of_stream.astype(np.float32), is_valid=judged.is_valid & np.isfinite(of_stream))

    def _under_drift(self, drift: arrays.AffineMap) -> environment.Environment:
        """The environment whose calibration also takes a drift of the service into account."""
        gamma = drift.after(arrays.AffineMap(self._environment.alpha, self._environment.beta_s))
        return dataclasses.replace(self._environment, alpha=gamma.slope, beta_s=gamma.offset_s)

    def _as_served(
        self, tests: arrays.Tests, execution: arrays.Execution, *, batch: int, problem: int
    ) -> arrays.Execution:
        """The execution as the injected state of the service would have returned it."""
        if self._noise.service == "healthy":
            return execution
        windows = arrays.stream_key(self._seed, "service windows")
        share, batches = self._noise.burst_share, self._noise.burst_batches
        if not environment.is_burst(batch, key=windows, share=share, steps=batches):
            return execution
        return self._under_state(
            self._service, tests, execution, key=arrays.stream_key(self._seed, "service noise", batch, problem)
        )


def can_stop_early(family: environment.Family, composition: str) -> bool:
    """True where the first failed test already decides the reward: every executed test counts, and c_strict gates all.

    Programs that fail then cost one test instead of all of them.
    """
    judges_every_test = family.filter == "none" and family.limit in ("none", "absolute")
    return judges_every_test and composition in rewards.COMPOSITIONS and composition.startswith(GATED)


def _resolved(chosen: RewardSettings) -> dict[str, typing.Any]:
    """The arguments of `rewards.reward`, the user's own functions in place of their names."""
    values = dict(vars(chosen))
    for name in ("composition", "quality_map"):
        if names_function(values[name]):
            values[name] = load_function(values[name], f"reward.{name}")
    return values


def _judged(found: rewards.RewardedOutcome) -> RewardedGroup:
    outcome = found.outcome
    is_correct = outcome.c_strict > 0
    # With noise drawn anew, g is a probability: more likely in than out counts as fast.
    return RewardedGroup(found.reward, outcome.is_valid, is_correct, is_correct & (outcome.g > 0.5))
