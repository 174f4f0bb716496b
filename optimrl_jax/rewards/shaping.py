"""From outcomes to one scalar for each rollout, and the whole way from arrays of an execution to it.

The last step before advantages. Nothing here knows of policies, groups or steps: a reward depends on one program alone.
"""

import typing
from collections.abc import Callable, Iterable

from jaxtyping import Float

from optimrl_jax import environment as environments
from optimrl_jax.arrays import CAP_S, Array, Execution, Outcome, References, TestKind, Tests
from optimrl_jax.environment.calibration import calibrated
from optimrl_jax.rewards.compositions import COMPOSITIONS
from optimrl_jax.rewards.naive_duration import NAIVE_COMPOSITIONS, mean_duration, naive_reward
from optimrl_jax.rewards.quality_maps import QUALITY_MAPS
from optimrl_jax.rewards.speedup import SPEEDUP_COMPOSITIONS, speedup_over_median

# Compositions that read the seconds besides the outcome, with the kinds of tests that they need.
TIMED_COMPOSITIONS: dict[str, frozenset[TestKind]] = {
    **{name: kinds for name, (kinds, _) in NAIVE_COMPOSITIONS.items()},
    **dict.fromkeys(SPEEDUP_COMPOSITIONS, frozenset({TestKind.OPTIMIZATION})),
}
Composition = Callable[[Outcome], Float[Array, "*r"]]
QualityMap = Callable[[Float[Array, "*r"]], Float[Array, "*r"]]
Judge = Callable[[environments.Environment, Tests, References, Execution], Outcome]


class RewardedOutcome(typing.NamedTuple):
    """Rewards beside the outcome that they were composed from.

    Attributes:
      reward: `[*r]` in [-1, 1]; multitask compositions have two streams, `[*r, 2]`.
      outcome: fields `[*r]`; mask with `outcome.is_valid`.
    """

    reward: Float[Array, "*r"]
    outcome: Outcome


def signed(z: Float[Array, "*r"]) -> Float[Array, "*r"]:
    """Map credit in [0, 1] to reward units in [-1, 1]: 2z - 1."""
    return 2 * z - 1


def reward(
    outcome: Outcome,
    composition: str | Composition,
    *,
    quality_map: str | QualityMap = "linear",
    blend_weight: float = 0.5,
) -> Float[Array, "*r"]:
    """Compose rewards from outcomes (App. D.4, Table 41).

    Invalid rollouts get a number too: mask with `outcome.is_valid`.

    Args:
      outcome: fields `[*r]`.
      composition: a key of `COMPOSITIONS`: the form, and whether it reads the gate g (`..._binary`) or the mapped
        quality of q (`..._graded`); or a function of the outcome.
      quality_map: a key of `QUALITY_MAPS`, or a function of q; only graded compositions read it.
      blend_weight: lambda, the weight of correctness in [0, 1]; only blends read it.

    Returns:
      `[*r]` in [-1, 1]; for multitask `[*r, 2]`, the correctness and the optimization stream.

    Raises:
      ValueError: for an unknown name, listing the choices.
    """
    if callable(composition):
        return composition(outcome)
    _expect_one_of("composition", composition, COMPOSITIONS)
    if not callable(quality_map):
        _expect_one_of("quality_map", quality_map, QUALITY_MAPS)
        quality_map = QUALITY_MAPS[quality_map]
    form, signal = COMPOSITIONS[composition]
    z = outcome.g if signal == "binary" else quality_map(outcome.q)
    return form(signed(outcome.c), signed(outcome.c_strict), signed(z), blend_weight)


def judge_and_reward(
    environment: environments.Environment,
    tests: Tests,
    references: References,
    execution: Execution,
    *,
    composition: str | Composition,
    quality_map: str | QualityMap = "linear",
    blend_weight: float = 0.5,
    limit_s: float = CAP_S,
    judge: Judge = environments.judge,
) -> RewardedOutcome:
    """Judge `r` candidates of one problem and reward them: the one call that a trainer needs.

    Args:
      environment: made by `environment.build`.
      tests: `[k]`.
      references: `[k, h]`.
      execution: `[r, k]`.
      composition: as in `reward`, or a key of `NAIVE_COMPOSITIONS` or `SPEEDUP_COMPOSITIONS`, which read the seconds
        instead of g and q.
      quality_map: as in `reward`.
      blend_weight: as in `reward`.
      limit_s: effective time limit of a run, which naive compositions count timeouts and missing seconds as (App. D.5).
      judge: (environment, tests, references, execution) -> outcome, for an environment that `build` does not know.

    Returns:
      Rewards and outcome of each candidate.

    Raises:
      ValueError: for an unknown name, or a composition that needs tests which the environment's family does not run.
    """
    if not callable(composition):
        _expect_one_of("composition", composition, COMPOSITIONS | TIMED_COMPOSITIONS)
    outcome = judge(environment, tests, references, execution)
    if callable(composition) or composition in COMPOSITIONS:
        shaped = reward(outcome, composition, quality_map=quality_map, blend_weight=blend_weight)
        return RewardedOutcome(shaped, outcome)
    family = environments.family_named(environment.family)
    if not TIMED_COMPOSITIONS[composition] <= family.kinds:
        raise ValueError(
            f"reward.composition = {composition!r}: expected a family that runs those tests, not {family.name!r}"
        )
    if composition in SPEEDUP_COMPOSITIONS:
        pool = calibrated(references, alpha=environment.alpha, beta_s=environment.beta_s)
        speedup = speedup_over_median(tests, pool, execution)
        return RewardedOutcome(SPEEDUP_COMPOSITIONS[composition](outcome, execution, speedup), outcome)
    kinds, duration_map = NAIVE_COMPOSITIONS[composition]
    mean_s = mean_duration(tests, execution, kinds=kinds, limit_s=limit_s)
    return RewardedOutcome(naive_reward(outcome.c, mean_s, duration_map=duration_map), outcome)


def _expect_one_of(field: str, value: str, choices: Iterable[str]) -> None:
    if value not in choices:
        raise ValueError(f"reward.{field} = {value!r}: expected one of {', '.join(choices)}")
