"""From outcomes to one scalar for each rollout, and the whole way from arrays of an execution to it."""

import typing

from optimrl_jax import environment as environments
from optimrl_jax.arrays import CAP_S, Execution, Outcome, References, Tests
from optimrl_jax.rewards.compositions import COMPOSITIONS
from optimrl_jax.rewards.naive_duration import NAIVE_COMPOSITIONS, mean_duration, naive_reward
from optimrl_jax.rewards.quality_maps import QUALITY_MAPS

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Float


class Judged(typing.NamedTuple):
    """Rewards of `r` rollouts, [r] (multitask: [r, 2]), beside the outcome that they were composed from."""

    reward: "Float[Array, '*r']"
    outcome: Outcome


def signed(z: "Float[Array, '*r']") -> "Float[Array, '*r']":
    """2z - 1: from [0, 1] to reward units in [-1, 1]."""
    return 2 * z - 1


def reward(
    outcome: Outcome, composition: str, *, quality_map: str = "linear", blend_weight: float = 0.5
) -> "Float[Array, '*r']":
    """Rewards of `r` rollouts, [r] in [-1, 1] (multitask: [r, 2], the correctness and the optimization stream).

    `composition` names the form and whether it reads the gate g (`..._binary`) or the mapped quality of q
    (`..._graded`). Invalid rollouts get a number too: mask with `outcome.is_valid`. Raises ValueError for a name that
    does not exist.
    """
    _expect_one_of("composition", composition, COMPOSITIONS)
    _expect_one_of("quality_map", quality_map, QUALITY_MAPS)
    form, signal = COMPOSITIONS[composition]
    z = outcome.g if signal == "binary" else QUALITY_MAPS[quality_map](outcome.q)
    return form(signed(outcome.c), signed(outcome.c_strict), signed(z), blend_weight)


def judged(
    environment: environments.Environment,
    tests: Tests,
    references: References,
    execution: Execution,
    *,
    composition: str,
    quality_map: str = "linear",
    blend_weight: float = 0.5,
) -> Judged:
    """Judges `r` candidates of one problem and rewards them: the one call that a trainer needs.

    `composition` is one of `COMPOSITIONS`, or of `NAIVE_COMPOSITIONS`, which read the seconds instead of g and q. Mask
    with `outcome.is_valid`. Raises ValueError for a name that does not exist.
    """
    _expect_one_of("composition", composition, COMPOSITIONS | NAIVE_COMPOSITIONS)
    outcome = environments.judge(environment, tests, references, execution)
    if composition in COMPOSITIONS:
        shaped = reward(outcome, composition, quality_map=quality_map, blend_weight=blend_weight)
        return Judged(shaped, outcome)
    kinds, duration_map = NAIVE_COMPOSITIONS[composition]
    mean_s = mean_duration(tests, execution, kinds=kinds, limit_s=CAP_S)
    return Judged(naive_reward(outcome.c, mean_s, duration_map=duration_map), outcome)


def _expect_one_of(field: str, value: str, choices: typing.Iterable[str]) -> None:
    if value not in choices:
        raise ValueError(f"reward.{field} = {value!r}: expected one of {', '.join(choices)}")
