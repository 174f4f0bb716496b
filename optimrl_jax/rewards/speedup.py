"""Rewards of other papers that read seconds as a speed-up over human programs (App. D.6, Table 44).

Each has a part for correctness and one that grows with how much faster a program is than the human median, up to a
fourfold speed-up; all are brought to [-1, 1], as every reward here. Pure functions of arrays.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Float

from optimrl_jax.arrays import CAP_S, Array, Execution, Outcome, References, Status, TestKind, Tests

MOST_SPEEDUP = 4.0
# A rung for each way to fail, worst first; HPC online RL orders failures likewise, with rungs of its own.
NOTHING_RAN, FAILED, TIMED_OUT = -1.0, -0.75, -0.5
# Weights of format, correctness and efficiency in the additive blend.
BLEND_WEIGHTS = (0.2, 0.3, 0.5)
BUCKETS = (1.0, 1.25, 1.5, 2.0, 3.0, MOST_SPEEDUP)

SpeedupReward = Callable[[Outcome, Execution, Float[Array, "*r"]], Float[Array, "*r"]]


def speedup_over_median(tests: Tests, references: References, execution: Execution) -> Float[Array, " r"]:
    """Divide the seconds of the human median by a program's, over optimization tests.

    Args:
      tests: `[k]`.
      references: `[k, h]` calibrated, +inf where unusable.
      execution: `[r, k]`; a test without seconds of its own counts as the cap of 10 s.

    Returns:
      `[r]` above 1 where faster; 1 where no optimization test has a usable reference.
    """
    is_used = tests.mask & (tests.kind == TestKind.OPTIMIZATION) & references.is_usable.any(axis=-1)
    median_s = jnp.nanmedian(jnp.where(references.is_usable, references.duration_s, jnp.nan), axis=-1)
    is_measured = (execution.status == Status.SUCCESS) & (execution.duration_s > 0)
    own_s = jnp.where(is_measured, execution.duration_s, CAP_S)
    before_s, after_s = (jnp.where(is_used, seconds, 0.0).sum(axis=-1) for seconds in (median_s, own_s))
    return jnp.where(is_used.any(), before_s / jnp.where(after_s > 0, after_s, 1.0), 1.0)


def relative_speedup(outcome: Outcome, execution: Execution, speedup: Float[Array, "*r"]) -> Float[Array, "*r"]:
    """Reward the gain over the median, s - 1, and -1 where wrong (Performance-Aligned LLMs); capped, gains over 3."""
    gain = jnp.minimum(speedup, MOST_SPEEDUP) - 1
    return jnp.where(outcome.c_strict > 0, jnp.where(gain > 0, gain / (MOST_SPEEDUP - 1), gain), -1.0)


def gated_speedup(outcome: Outcome, execution: Execution, speedup: Float[Array, "*r"]) -> Float[Array, "*r"]:
    """Reward the speed-up where every test passes, else 0 (SuperCoder); capped, over 4."""
    return jnp.where(outcome.c_strict > 0, jnp.minimum(speedup, MOST_SPEEDUP) / MOST_SPEEDUP, 0.0)


def status_ladder(outcome: Outcome, execution: Execution, speedup: Float[Array, "*r"]) -> Float[Array, "*r"]:
    """Penalize failures by rungs, the worse the lower, and reward speed on success (HPC online RL)."""
    status = jnp.asarray(execution.status)
    has_run = (status == Status.SUCCESS).any(axis=-1)
    has_failed = (status == Status.FAILURE).any(axis=-1)
    failure = jnp.where(has_failed, jnp.where(has_run, FAILED, NOTHING_RAN), TIMED_OUT)
    return jnp.where(outcome.c_strict > 0, jnp.minimum(speedup, MOST_SPEEDUP) / MOST_SPEEDUP, failure)


def additive_blend(outcome: Outcome, execution: Execution, speedup: Float[Array, "*r"]) -> Float[Array, "*r"]:
    """Blend format, correctness and efficiency; efficiency counts for correct programs alone (Afterburner).

    Format is whether any test ran to an end, correctness is signed, efficiency tanh of the logarithm of the speed-up.
    """
    format_part = jnp.where((jnp.asarray(execution.status) == Status.SUCCESS).any(axis=-1), 1.0, -1.0)
    correct = jnp.asarray(outcome.c) * 2 - 1
    efficiency = jnp.where(outcome.c > 0, jnp.tanh(jnp.log(jnp.maximum(speedup, 1e-6))), 0.0)
    weights = BLEND_WEIGHTS
    return weights[0] * format_part + weights[1] * correct + weights[2] * efficiency


def bucketed_speedup(outcome: Outcome, execution: Execution, speedup: Float[Array, "*r"]) -> Float[Array, "*r"]:
    """Reward the bucket of the speed-up, in equal steps from 0 to 1, and -1 where wrong (labels as in MaxCode)."""
    bucket = (jnp.asarray(speedup)[..., None] >= jnp.asarray(BUCKETS)).sum(axis=-1)
    return jnp.where(outcome.c_strict > 0, bucket / len(BUCKETS), -1.0)


SPEEDUP_COMPOSITIONS: dict[str, SpeedupReward] = {
    "relative_speedup": relative_speedup,
    "gated_speedup": gated_speedup,
    "status_ladder": status_ladder,
    "additive_blend": additive_blend,
    "bucketed_speedup": bucketed_speedup,
}
