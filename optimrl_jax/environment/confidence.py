"""Rewards that know how uncertain seconds are: stored deviations become probabilities (App. C.12, "Storing standard
deviation estimates").

Every measured duration, of candidates and references alike, is drawn anew around its value and judged again; a gate
then reads as the probability of passing it (for a leaderboard: of being under p_tau) and q as the expected position.
Comparisons that the clock cannot decide are thereby softened, those that it can stay as they were.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Float

from optimrl_jax.arrays import CAP_S, Array, Execution, Outcome, References, Status

JudgeOnce = Callable[[References, Execution], Outcome]

# One fixed stream: equal programs earn equal rewards, and a replayed step earns what it did at first.
SEED = 0
SHORTEST_S = 1e-6


def coefficient_of_variation(references: References) -> Float[Array, " k"]:
    """Pool the coefficient of variation of each test over its references: summed deviations over summed durations.

    Recorded timeouts do not count: the cap has no deviation.

    Args:
      references: `[k, h]` stored seconds and standard deviations.

    Returns:
      `[k]` shares; 0 where no reference of the test was timed.
    """
    is_timed = references.is_usable & (references.duration_s > 0) & (references.duration_s < CAP_S)
    std_s, duration_s = (
        jnp.where(is_timed, part, 0.0).sum(axis=-1) for part in (references.std_s, references.duration_s)
    )
    return std_s / jnp.maximum(duration_s, SHORTEST_S)


def noise_share(references: References) -> Float[Array, " k"]:
    """Say how much of the spread of a test's references is noise of the clock: mean variance of one over that of all.

    A test whose references differ by no more than their own deviations cannot rank anything (App. C.12).

    Args:
      references: `[k, h]` seconds and standard deviations; recorded timeouts do not count.

    Returns:
      `[k]` in [0, 1]; 0 where fewer than two references were timed or none has a deviation.
    """
    is_timed = references.is_usable & (references.duration_s > 0) & (references.duration_s < CAP_S)
    count = is_timed.sum(axis=-1)
    seconds = jnp.where(is_timed, references.duration_s, 0.0)
    centred = jnp.where(is_timed, seconds - (seconds.sum(axis=-1) / jnp.maximum(count, 1))[..., None], 0.0)
    own = jnp.where(is_timed, references.std_s, 0.0)
    noise, spread = ((part**2).sum(axis=-1) for part in (own, centred))
    return jnp.where((count > 1) & (noise > 0), jnp.minimum(1.0, noise / jnp.maximum(spread, SHORTEST_S**2)), 0.0)


def with_margin(limit_s: Float[Array, " k"], references: References, margin: float) -> Float[Array, " k"]:
    """Lengthen limits by `margin` standard deviations of a run that takes as long as the limit (App. C.12).

    Args:
      limit_s: `[k]` seconds; +inf and nan stay.
      references: `[k, h]` whose pooled coefficient of variation says how noisy each test is.
      margin: number of standard deviations; 0 changes nothing.
    """
    return limit_s * (1 + margin * coefficient_of_variation(references))


def redraw(references: References, execution: Execution, key: Array) -> tuple[References, Execution]:
    """Draw what the same programs might have measured: every duration with a normal error of its own deviation.

    References have their stored `std_s`; a candidate, which ran once, gets the coefficient of variation of the test.
    Timeouts, missing durations and statuses stay as they are; durations stay positive and at most at the cap.

    Args:
      references: `[k, h]` stored seconds and standard deviations.
      execution: `[r, k]` measured statuses and seconds.
      key: of the draw; the same key draws the same errors.

    Returns:
      References and execution of the same shapes, with new seconds.
    """
    of_references, of_candidates = jax.random.split(key)
    is_measured = (execution.status == Status.SUCCESS) | (execution.status == Status.FAILURE)
    own_std_s = jnp.where(is_measured, coefficient_of_variation(references) * execution.duration_s, 0.0)
    return (
        references._replace(duration_s=_with_error(references.duration_s, references.std_s, of_references)),
        execution._replace(duration_s=_with_error(execution.duration_s, own_std_s, of_candidates)),
    )


def redrawn_outcomes(
    judge: JudgeOnce, references: References, execution: Execution, *, key: Array, draws: int
) -> Outcome:
    """Judge `draws` redrawn measurements, for spreads and quantiles.

    Args:
      judge: judges one pair of references and execution.
      references: `[k, h]` stored seconds and standard deviations.
      execution: `[r, k]` measured statuses and seconds.
      key: of all draws.
      draws: number of redrawn measurements.

    Returns:
      One outcome whose fields are `[draws, r]`.
    """
    judge_draw = jax.vmap(lambda draw_key: judge(*redraw(references, execution, draw_key)))
    return judge_draw(jax.random.split(key, draws))


def average_outcomes(judge: JudgeOnce, references: References, execution: Execution, *, draws: int) -> Outcome:
    """Average the outcomes of `draws` redrawn measurements: g is the probability of passing, q the expected position.

    The standard error of a probability is at most 1 / (2 sqrt(draws)). Without stored deviations the outcome is the
    plain one; c, c_strict and is_valid do not depend on the redrawn seconds. The stream is fixed (`SEED`): equal
    measurements always get equal outcomes.

    Args:
      judge: judges one pair of references and execution.
      references: `[k, h]` stored seconds and standard deviations.
      execution: `[r, k]` measured statuses and seconds.
      draws: number of redrawn measurements, at least 1.

    Returns:
      One outcome, each field `[r]`.
    """
    found = redrawn_outcomes(judge, references, execution, key=jax.random.key(SEED), draws=draws)
    return Outcome(found.c[0], found.c_strict[0], found.g.mean(axis=0), found.q.mean(axis=0), found.is_valid[0])


def _with_error(duration_s: Array, std_s: Array, key: Array) -> Array:
    noisy_s = duration_s + std_s * jax.random.normal(key, jnp.shape(duration_s))
    is_timed = (jnp.asarray(duration_s) > 0) & (jnp.asarray(duration_s) < CAP_S)
    return jnp.where(is_timed, jnp.clip(noisy_s, SHORTEST_S, CAP_S), duration_s)
