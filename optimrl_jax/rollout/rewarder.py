"""From what programs did to what they earn: pads executions, judges them, and computes each rollout's reward.

Pure; all problems are padded to one shape that holds any of them, so that judging compiles once.
"""

import contextlib
import dataclasses
import functools
import typing
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np
from jaxtyping import Bool, Float

from optimrl_jax import arrays, environment, rewards
from optimrl_jax.environment import padding
from optimrl_jax.environment.calibration import calibrated
from optimrl_jax.jobs.user_code import load_function, names_function
from optimrl_jax.settings import EnvironmentSettings, RewardSettings, Settings

# Compositions whose reward is decided by the first test that fails.
GATED = ("collapsed", "two_gate")
CORRECTNESS = "correctness_only"


class Run(typing.Protocol):
    """What judging reads of `execution.CandidateRun`."""

    @property
    def status(self) -> np.ndarray: ...

    @property
    def duration_s(self) -> np.ndarray: ...

    @property
    def drift(self) -> arrays.AffineMap: ...


class RewardedGroup(typing.NamedTuple):
    """What the rollouts of one problem earned and what they were; its fields follow `rollouts` in `groups.Group`.

    Attributes:
      reward: `[r]` float32.
      is_valid: `[r]`, False where a fault left nothing to judge or the reward is not finite.
      is_correct: `[r]` strict correctness.
      is_fast: `[r]` correct and more likely than not within every gate.
    """

    reward: Float[arrays.Array, " r"]
    is_valid: Bool[arrays.Array, " r"]
    is_correct: Bool[arrays.Array, " r"]
    is_fast: Bool[arrays.Array, " r"]


class Rewarder:
    """The environment and the reward of the settings, applied to padded problems.

    Args:
      records: the problems, by whose index programs are judged.
      settings: environment, reward, seed and injected noise.

    Attributes:
      kinds: kinds of tests that the environment judges.
      uses_own_limits: whether a problem's own time limit caps its runs.
      stops_early: whether the first failed test already decides the reward, see `can_stop_early`.
      reads_references: whether stored seconds of references are read, and so have to be those of the live clock.

    Raises:
      ValueError: for the unknown name of an environment, a service state or a reward.
    """

    def __init__(self, records: Sequence[padding.Record], settings: Settings) -> None:
        self._k, h = padding.shape_of(records)
        self._tests = [padding.pad_tests(record, self._k) for record in records]
        self._references = [padding.pad_references(record, self._k, h) for record in records]
        chosen, own = _resolved_environment(settings.environment)
        self._environment = environment.build(**vars(chosen))
        limit_s = min(settings.sandbox.limit_s, arrays.CAP_S)
        arguments = {**_resolved(settings.reward), "limit_s": limit_s, **own}
        reward = functools.partial(rewards.judge_and_reward, **arguments)
        self._judged = jax.jit(lambda *problem: _judged(reward(*problem)))
        self._variance = _variance_of(reward, settings.reward.reliability_draws)
        self._replayed = _replayed_by(**arguments)
        self._seed, self._noise = settings.seed, settings.noise
        self._service = environment.service_named(settings.noise.service)
        self._under_state = jax.jit(environment.under_state)
        nothing = arrays.Execution(np.zeros((1, self._k), np.int32), np.zeros((1, self._k), np.float32))
        # Traced once without running, so that an unknown name is refused here and not after the first rollouts.
        problem = self._tests[0], self._references[0], nothing
        with _blaming_functions_of(settings):
            jax.eval_shape(self._judged, self._environment, *problem)
        family = environment.family_named(chosen.family)
        self.kinds = family.kinds
        self.uses_own_limits = family.uses_own_limits
        judges_noisy_tests = chosen.most_noise >= 1
        self.stops_early = not own and judges_noisy_tests and can_stop_early(family, settings.reward.composition)
        # A reward of the user's own sees outcomes alone, and stored deviations (`most_noise`, `limit_margin`) count as
        # shares of their seconds: neither depends on the clock of references.
        is_speedup = settings.reward.composition in rewards.SPEEDUP_COMPOSITIONS
        self.reads_references = bool(own) or family.reads_references or is_speedup

    def __call__(self, problem: int, runs: Sequence[Run], *, stream: int, batch: int) -> RewardedGroup:
        """Judge the programs of one problem and compute what each earns.

        Args:
          problem: index of the problem among the records.
          runs: `[r]` executions, at least one.
          stream: 0 or 1, the correctness or the optimization reward of multitask compositions; others ignore it.
          batch: number of the batch of rollouts; picks the random stream of injected timing noise.

        Returns:
          `[r]` rewards and flags (NumPy), in the order of `runs`.
        """
        execution = padding.pad_execution(arrays.Execution.stack(runs), self._k)
        tests, references = self._tests[problem], self._references[problem]
        execution = self._as_served(tests, execution, batch=batch, problem=problem)
        maps = [run.drift for run in runs]
        judged = self._of_runs(self._judged, maps, tests, references, execution)
        of_stream = _stream(judged.reward, stream).astype(np.float32)
        is_valid = judged.is_valid & np.isfinite(of_stream)
        if self._variance is not None:
            variance = _stream(self._of_runs(self._variance, maps, tests, references, execution), stream)
            of_stream = rewards.weigh_by_reliability(of_stream, variance, is_valid)
        return judged._replace(reward=of_stream, is_valid=is_valid)

    def replay(
        self,
        problem: int,
        runs: Sequence[Run],
        *,
        state: environment.ServiceState,
        draws: int,
        batch: int,
        stream: int = 1,
    ) -> rewards.ReplayedRewards:
        """Reward stored programs as if the service had been in `state`, without the noise and weights of the settings.

        The drift of each run stays as recorded, whatever a reference that is timed again had shown in that state.

        Args:
          problem: index of the problem among the records.
          runs: `[r]` executions as recorded.
          state: of the service.
          draws: independent replays.
          batch: number of the batch of rollouts; picks the random stream.
          stream: of multitask compositions.

        Returns:
          Rewards and validity, `[draws, r]` (NumPy).
        """
        execution = padding.pad_execution(arrays.Execution.stack(runs), self._k)
        keys = jax.random.split(arrays.stream_key(self._seed, "service replay", batch, problem), draws)
        tests, references = self._tests[problem], self._references[problem]
        maps = [run.drift for run in runs]
        reward, is_valid = self._of_runs(self._replayed, maps, tests, references, execution, state, keys)
        return rewards.ReplayedRewards((reward[..., stream] if reward.ndim == 3 else reward).T, is_valid.T)

    def _of_runs(
        self, judge: Callable[..., typing.Any], maps: Sequence[arrays.AffineMap], *problem: typing.Any
    ) -> typing.Any:
        """Judge all runs under every drift among them, and keep of each run what its own drift gives."""
        found = {
            drift: jax.tree.map(np.asarray, judge(self._under_drift(drift), *problem)) for drift in dict.fromkeys(maps)
        }
        rows = [jax.tree.map(lambda column, n=n: column[n], found[drift]) for n, drift in enumerate(maps)]
        return jax.tree.map(lambda *column: np.stack(column), *rows)

    def _under_drift(self, drift: arrays.AffineMap) -> environment.Environment:
        """Compose the environment's calibration with a drift of the service."""
        gamma = drift.after(arrays.AffineMap(self._environment.alpha, self._environment.beta_s))
        return dataclasses.replace(self._environment, alpha=gamma.slope, beta_s=gamma.offset_s)

    def _as_served(
        self, tests: arrays.Tests, execution: arrays.Execution, *, batch: int, problem: int
    ) -> arrays.Execution:
        """Return the execution as the injected state of the service would have reported it."""
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
    """Tell whether the first failed test decides the reward, so that programs that fail cost one test and not all.

    That is so where every executed test counts and c_strict gates everything, or where nothing but c is rewarded and no
    other tests are executed.
    """
    if composition == CORRECTNESS:
        return family.kinds == family.correctness
    judges_every_test = family.filter == "none" and family.limit in ("none", "absolute")
    return judges_every_test and composition in rewards.COMPOSITIONS and composition.startswith(GATED)


def _stream(values: np.ndarray, stream: int) -> np.ndarray:
    """Take one stream of multitask values `[r, 2]`; others `[r]` have one."""
    return values[:, stream] if values.ndim == 2 else values


@functools.lru_cache(maxsize=32)
def _replayed_by(**arguments: typing.Any) -> Callable[..., tuple[arrays.Array, arrays.Array]]:
    """Build the compiled replay of executions under a state of the service; its numbers are traced.

    Runs that differ in nothing but numbers share it: to compile it takes longer than to replay a run.

    Args:
      arguments: of `rewards.judge_and_reward`, all but the problem.

    Returns:
      A function to rewards and validity, `[r, draws]`; multitask compositions have two streams, `[r, draws, 2]`.
    """
    reward = functools.partial(rewards.judge_and_reward, **arguments)

    def replayed(
        env: environment.Environment,
        tests: arrays.Tests,
        references: arrays.References,
        execution: arrays.Execution,
        state: environment.ServiceState,
        keys: arrays.Array,
    ) -> tuple[arrays.Array, arrays.Array]:
        def one(key: arrays.Array) -> tuple[arrays.Array, arrays.Array]:
            served = environment.under_state(state, tests, execution, key=key)
            found = reward(env, tests, references, served)
            return found.reward, found.outcome.is_valid

        return jax.vmap(one, out_axes=1)(keys)

    return jax.jit(replayed)


def _variance_of(reward: Callable[..., rewards.RewardedOutcome], draws: int) -> Callable[..., arrays.Array] | None:
    """Build the compiled variance of rewards over redrawn measurements; None without draws."""
    if draws == 0:
        return None

    def variance(
        env: environment.Environment, tests: arrays.Tests, references: arrays.References, execution: arrays.Execution
    ) -> arrays.Array:
        def redrawn(noisy: arrays.References, measured: arrays.Execution) -> arrays.Array:
            return reward(env, tests, noisy, measured).reward

        return rewards.reward_variance(redrawn, references, execution, draws=draws)

    return jax.jit(variance)


def _resolved(chosen: RewardSettings) -> dict[str, typing.Any]:
    """Build the arguments of `rewards.judge_and_reward`, with the user's own functions in place of their names."""
    values = {name: value for name, value in vars(chosen).items() if name != "reliability_draws"}
    for name in ("composition", "quality_map"):
        if names_function(values[name]):
            values[name] = load_function(values[name], f"reward.{name}")
    return values


def _resolved_environment(chosen: EnvironmentSettings) -> tuple[EnvironmentSettings, dict[str, typing.Any]]:
    """Return the environment to build, and what `rewards.judge_and_reward` is told of one of the user's own.

    That one sees every test, like `mc_mo`, and the references as the calibration has brought them to the live clock.
    """
    if not names_function(chosen.family):
        return chosen, {}
    function = load_function(chosen.family, "environment.family")

    def judge(
        env: environment.Environment, tests: arrays.Tests, references: arrays.References, execution: arrays.Execution
    ) -> arrays.Outcome:
        return function(tests, calibrated(references, alpha=env.alpha, beta_s=env.beta_s), execution)

    return dataclasses.replace(chosen, family="mc_mo"), {"judge": judge}


@contextlib.contextmanager
def _blaming_functions_of(settings: Settings) -> Iterator[None]:
    """Report what a function of the user's own raises as a ValueError that names the settings at fault."""
    names = {
        "environment.family": settings.environment.family,
        "reward.composition": settings.reward.composition,
        "reward.quality_map": settings.reward.quality_map,
    }
    own = [f"{field} = {name!r}" for field, name in names.items() if names_function(name)]
    try:
        yield
    # Whatever the user's function raises is the user's to fix.
    except Exception as error:
        if not own:
            raise
        raise ValueError(f"{', '.join(own)}: {type(error).__name__}: {error}") from error


def _judged(found: rewards.RewardedOutcome) -> RewardedGroup:
    outcome = found.outcome
    is_correct = outcome.c_strict > 0
    # Where outcomes are averaged over noise draws, g is a probability: above one half counts as fast.
    return RewardedGroup(found.reward, outcome.is_valid, is_correct, is_correct & (outcome.g > 0.5))
