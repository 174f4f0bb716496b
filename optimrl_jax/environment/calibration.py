"""Makes stored reference durations comparable with live ones: sanitize, calibrate, clamp. Candidates are left alone."""

import jax.numpy as jnp

from optimrl_jax.arrays import References
from optimrl_jax.environment.order import ordered

CAP_S = 10.0


def calibrated(references: References, *, alpha: float, beta_s: float) -> References:
    """min(10, max(0, Gamma(psi(d)))) with Gamma(d) = alpha * d + beta_s and psi(d) = d if d > 0 else 10 (paper L2985).

    Seconds in [0, 10] on usable cells; unusable cells become +inf, so that they sort last.
    """
    sanitized = jnp.where(references.duration_s > 0, references.duration_s, CAP_S)
    duration_s = jnp.clip(alpha * sanitized + beta_s, 0.0, CAP_S)
    return references._replace(duration_s=jnp.where(references.is_usable, duration_s, jnp.inf))


def percentile(ordered_s: jnp.ndarray, count: jnp.ndarray, percent: float) -> jnp.ndarray:
    """Percentile with linear interpolation of the first `count` values of each ascending row; +inf where count is 0."""
    last = jnp.maximum(count - 1, 0)
    position = jnp.asarray(percent, jnp.float32) / 100 * last
    below = jnp.floor(position).astype(jnp.int32)
    above = jnp.minimum(below + 1, last)
    low, high = (jnp.take_along_axis(ordered_s, index[..., None], axis=-1)[..., 0] for index in (below, above))
    value = jnp.where(above == below, low, low + (position - below) * (high - low))
    return jnp.where(count > 0, value, jnp.inf)


def aggregate_duration(references: References, aggregate: str) -> jnp.ndarray:
    """Mean or median reference duration of each test, [k] seconds; +inf where no reference is usable (L2990)."""
    usable = references.is_usable
    count = usable.sum(axis=-1)
    if aggregate == "median":
        return percentile(ordered(references.duration_s), count, 50.0)
    total = jnp.where(usable, references.duration_s, 0.0).sum(axis=-1)
    return jnp.where(count > 0, total / jnp.maximum(count, 1), jnp.inf)
