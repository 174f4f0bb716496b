"""Makes stored reference durations comparable with live ones: sanitize, calibrate, clamp.

First step of every environment, before filters, limits and rankings read a reference. Candidates are never transformed:
they are measured on the live service, whose clock is the scale that references are brought to.
"""

from jaxtyping import Float, Int

from optimrl_jax.arrays import CAP_S, Array, References, array_module
from optimrl_jax.environment.leaderboard import ordered

# Keeps a hair of float32 from turning 30 % of 10 into 2 or 4: less than the steps in which percents of a number grow.
ROUNDING = 1e-4


def calibrated(references: References, *, alpha: float, beta_s: float) -> References:
    """Bring stored durations to the live scale: min(10, max(0, Gamma(psi(d)))).

    Gamma(d) = alpha * d + beta_s, and psi(d) = d if d > 0, else the cap of 10 s (App. D.2). A recorded timeout
    is a duration like any other here: it becomes 10 * alpha + beta_s, clamped.

    Args:
      references: `[*b, k, h]` stored seconds with their mask.
      alpha: slope of Gamma, without unit.
      beta_s: offset of Gamma, seconds.

    Returns:
      The references with seconds in [0, 10] in usable cells and +inf in all others, so that those sort last, and their
      deviations times alpha; NumPy in, NumPy out, and JAX likewise.
    """
    xp = array_module(references.duration_s, references.is_usable, alpha, beta_s)
    sanitized = xp.where(references.duration_s > 0, references.duration_s, xp.float32(CAP_S))
    duration_s = xp.clip(alpha * sanitized + beta_s, 0.0, CAP_S)
    duration_s = xp.where(references.is_usable, duration_s, xp.float32(xp.inf))
    return references._replace(duration_s=duration_s, std_s=alpha * references.std_s)


def percentile(
    ordered_s: Float[Array, "*#k h"], count: Int[Array, "*#k"], percent: float | Float[Array, "*#k"]
) -> Float[Array, "*k"]:
    """Interpolate a percentile linearly among the first `count` values of each ascending row.

    A percentile that falls on a value is exactly that value, however the arithmetic rounds: a program that is compared
    with its own seconds must not miss them by a rounding.

    Args:
      ordered_s: `[*k, h]` seconds in ascending order, unusable cells (+inf) last.
      count: `[*k]` usable cells of each row.
      percent: from 0 (the smallest value) to 100 (the largest); several broadcast against the rows.

    Returns:
      `[*k]` seconds; +inf where count is 0. NumPy in, NumPy out, and JAX likewise.
    """
    xp = array_module(ordered_s, count, percent)
    last = xp.maximum(count - 1, 0).astype(xp.int32)
    position = xp.asarray(percent, xp.float32) * last.astype(xp.float32) / 100
    whole = xp.round(position)
    position = xp.where(xp.abs(position - whole) < ROUNDING, whole, position)
    below = xp.floor(position).astype(xp.int32)
    above = xp.minimum(below + 1, last)
    low, high = (xp.take_along_axis(ordered_s, index[..., None], axis=-1)[..., 0] for index in (below, above))
    # Equal neighbours are taken as they are: high - low would be nan between two cells of +inf.
    is_between = above != below
    step_s = xp.where(is_between, high, 0) - xp.where(is_between, low, 0)
    value = low + (position - below.astype(xp.float32)) * step_s
    return xp.where(count > 0, value, xp.float32(xp.inf))


def aggregate_duration(references: References, aggregate: str) -> Float[Array, "*k"]:
    """Aggregate the references of each test: A(D_t) of the duration filters (App. D.2).

    Args:
      references: `[*k, h]` calibrated, +inf where unusable.
      aggregate: "mean" or "median".

    Returns:
      `[*k]` seconds; +inf where no reference is usable. A mean of NumPy arrays is one, of JAX arrays likewise.
    """
    usable = references.is_usable
    count = usable.sum(axis=-1)
    if aggregate == "median":
        return percentile(ordered(references.duration_s), count, 50.0)
    xp = array_module(usable, references.duration_s)
    total = xp.where(usable, references.duration_s, xp.float32(0)).sum(axis=-1)
    return xp.where(count > 0, total / xp.maximum(count, 1).astype(xp.float32), xp.float32(xp.inf))
