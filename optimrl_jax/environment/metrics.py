"""The 17 ranking scores of the screening study: seconds of one candidate -> one number (App. D.3).

Percentiles run from 0, fastest, to 100, slowest, with average ranks for ties. A score that needs more tests than there
are is nan. References hold +inf where unusable, as `calibrated` leaves them.
"""

import dataclasses
import functools
import typing
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from optimrl_jax.arrays import Array, References
from optimrl_jax.environment.calibration import percentile
from optimrl_jax.environment.leaderboard import ordered
from optimrl_jax.environment.ranking import per_test_percentile

# Trimming and filtering remove at least one test and are defined from this many on (App. D.3).
FEWEST_TESTS = 5


class MeasuredCandidate(typing.NamedTuple):
    """One candidate beside its references on the tests T that both have seconds for.

    Attributes:
      duration_s: `[k]` the candidate's seconds.
      is_used: `[k]` tests in T.
      percentile: `[k]` places in 0..100, average ties.
      references: `[k, h]` calibrated, +inf where unusable.
      difficulty_s: `[k]` median stored seconds w_t.
    """

    duration_s: Float[Array, " k"]
    is_used: Bool[Array, " k"]
    percentile: Float[Array, " k"]
    references: References
    difficulty_s: Float[Array, " k"]


@dataclasses.dataclass(frozen=True)
class Metric:
    """A score and its direction.

    Attributes:
      score: maps one candidate to one number; nan where it is undefined.
      is_higher_better: False for percentiles and seconds, where smaller is faster.
    """

    score: Callable[[MeasuredCandidate], Array]
    is_higher_better: bool = False


def ranking_metrics(
    references: References,
    duration_s: Float[Array, "r k"],
    *,
    is_measured: Bool[Array, "r k"],
    stored_s: Float[Array, "k h"] | None = None,
) -> dict[str, Float[Array, " r"]]:
    """Compute every score of `METRICS` for each candidate (App. D.3).

    Args:
      references: `[k, h]` the calibrated pool of the optimization tests, +inf where unusable.
      duration_s: `[r, k]` seconds of the candidates.
      is_measured: `[r, k]` marks their usable durations.
      stored_s: `[k, h]` durations before calibration, whose median is the difficulty w_t of the slopes; None takes the
        pool itself.

    Returns:
      `[r]` for each name; nan where a score is undefined.
    """
    pool_s = references.duration_s if stored_s is None else jnp.where(references.is_usable, stored_s, jnp.inf)
    difficulty_s = percentile(ordered(pool_s), references.is_usable.sum(axis=-1), 50.0)
    percentiles = 100 * per_test_percentile(references, jnp.asarray(duration_s), ties="average")

    def scores(own_s: Array, is_own: Array, of_tests: Array) -> dict[str, Array]:
        is_used = is_own & references.is_usable.any(axis=-1)
        measured = MeasuredCandidate(own_s, is_used, of_tests, references, difficulty_s)
        return {name: metric.score(measured) for name, metric in METRICS.items()}

    return jax.vmap(scores)(jnp.asarray(duration_s), jnp.asarray(is_measured), percentiles)


def percentile_among(value: Array, others: Array, *, is_member: Array) -> Array:
    """Rank a value inserted among others: Pi(z, A) in 0..100 with average ties (App. D.3).

    Args:
      value: the candidate's, without axes.
      others: `[h]` values of the references.
      is_member: `[h]` marks those that count.

    Returns:
      The percentile, 0 best; nan where nothing counts or the value is not finite.
    """
    faster = (is_member & (others < value)).sum()
    tied = (is_member & (others == value)).sum()
    return jnp.where(is_member.any() & jnp.isfinite(value), 100 * (faster + tied / 2) / is_member.sum(), jnp.nan)


def masked_mean(values: Array, is_used: Array) -> Array:
    """Average where used; nan where nothing is."""
    return jnp.where(is_used, values, 0.0).sum() / jnp.where(is_used.any(), is_used.sum(), jnp.nan)


def masked_median(values: Array, is_used: Array) -> Array:
    """Take the median where used; nan where nothing is."""
    return jnp.nanmedian(jnp.where(is_used, values, jnp.nan))


def summarize_percentiles(measured: MeasuredCandidate, *, summary: Callable) -> Array:
    """Summarize per-test percentiles by their mean or median."""
    return summary(measured.percentile, measured.is_used)


def trimmed_mean(measured: MeasuredCandidate) -> Array:
    """Average percentiles without the max(1, floor(|T|/10)) lowest and highest."""
    tests = measured.is_used.sum()
    cut = jnp.maximum(1, tests // 10)
    place = _places(measured.percentile, measured.is_used)
    kept = measured.is_used & (place >= cut) & (place < tests - cut)
    return jnp.where(tests >= FEWEST_TESTS, masked_mean(measured.percentile, kept), jnp.nan)


def log_mean(measured: MeasuredCandidate) -> Array:
    """Average percentiles of log-durations.

    Ranks keep their order under the logarithm: this is the mean percentile over tests with a positive duration.
    """
    return masked_mean(measured.percentile, measured.is_used & (measured.duration_s > 0))


def top_share(measured: MeasuredCandidate, *, percent: float) -> Array:
    """Measure the percentage of tests on which the candidate lands below that percentile: higher is better."""
    return 100 * masked_mean(measured.percentile < percent, measured.is_used)


def total_duration(measured: MeasuredCandidate) -> Array:
    """Rank the candidate's total seconds among the totals of references, each over its usable tests of T."""
    usable, duration_s = _on_used_tests(measured)
    totals_s = duration_s.sum(axis=0)
    own_s = jnp.where(measured.is_used, measured.duration_s, 0.0).sum()
    return percentile_among(own_s, totals_s, is_member=jnp.any(usable, axis=0))


def slope(measured: MeasuredCandidate, *, has_intercept: bool) -> Array:
    """Rank the least-squares slope of seconds over difficulty among the slopes of the references (App. D.3).

    A slope needs difficulties that differ (with an intercept) or one that is positive (without); nan otherwise.

    Args:
      measured: one candidate.
      has_intercept: fit a + b w instead of b w.
    """
    usable, duration_s = _on_used_tests(measured)
    fit = functools.partial(_slope, difficulty_s=measured.difficulty_s, has_intercept=has_intercept)
    own = fit(jnp.where(measured.is_used, measured.duration_s, 0.0), measured.is_used)
    slopes = jax.vmap(fit, in_axes=(1, 1))(duration_s, usable)
    return percentile_among(own, slopes, is_member=jnp.isfinite(slopes))


def reference_win_share(measured: MeasuredCandidate, *, summary: Callable) -> Array:
    """Measure the share of tests, in [0, 1], on which the candidate beats the mean or median reference."""
    bar_s = jax.vmap(summary)(measured.references.duration_s, measured.references.is_usable)
    return masked_mean(measured.duration_s < bar_s, measured.is_used)


def without_tests(measured: MeasuredCandidate, *, easiest: float, hardest: float, summary: Callable) -> Array:
    """Summarize percentiles without a share of the easiest or hardest tests, by mean reference seconds.

    Args:
      measured: one candidate.
      easiest: share of tests dropped at the fast end, in [0, 1); at least one test where it is not 0.
      hardest: likewise at the slow end.
      summary: `masked_mean` or `masked_median`.

    Returns:
      A percentile in 0..100; nan with fewer than `FEWEST_TESTS` tests.
    """
    tests = measured.is_used.sum()
    mean_s = jax.vmap(masked_mean)(measured.references.duration_s, measured.references.is_usable)
    place = _places(mean_s, measured.is_used)
    dropped_low, dropped_high = (
        jnp.maximum(1, jnp.floor(share * tests + 1e-4)) if share else 0 for share in (easiest, hardest)
    )
    kept = measured.is_used & (place >= dropped_low) & (place < tests - dropped_high)
    return jnp.where(tests >= FEWEST_TESTS, summary(measured.percentile, kept), jnp.nan)


def _places(values: Array, is_used: Array) -> Array:
    """Rank the used tests in ascending order, earlier tests first among equals; unused ones come last."""
    return jnp.argsort(jnp.argsort(jnp.where(is_used, values, jnp.inf), stable=True))


def _on_used_tests(measured: MeasuredCandidate) -> tuple[Array, Array]:
    usable = measured.references.is_usable & measured.is_used[:, None]
    return usable, jnp.where(usable, measured.references.duration_s, 0.0)


def _slope(duration_s: Array, is_used: Array, *, difficulty_s: Array, has_intercept: bool) -> Array:
    """Fit the least-squares slope over the used tests; nan where it is not determined."""
    difficulty_s = jnp.where(is_used, difficulty_s, 0.0)
    if has_intercept:
        difficulty_s = jnp.where(is_used, difficulty_s - masked_mean(difficulty_s, is_used), 0.0)
        duration_s = jnp.where(is_used, duration_s - masked_mean(duration_s, is_used), 0.0)
    spread = (difficulty_s**2).sum()
    return (difficulty_s * duration_s).sum() / jnp.where(spread > 1e-12, spread, jnp.nan)


SUMMARIES = {"mean": masked_mean, "median": masked_median}
FILTERED = {"without_easiest_10": (0.1, 0.0), "without_hardest_25": (0.0, 0.25), "without_hardest_50": (0.0, 0.5)}

METRICS: dict[str, Metric] = {
    "mean_percentile": Metric(functools.partial(summarize_percentiles, summary=masked_mean)),
    "median_percentile": Metric(functools.partial(summarize_percentiles, summary=masked_median)),
    "trimmed_mean_percentile": Metric(trimmed_mean),
    "log_mean_percentile": Metric(log_mean),
    "top_25_share": Metric(functools.partial(top_share, percent=25.0), is_higher_better=True),
    "top_50_share": Metric(functools.partial(top_share, percent=50.0), is_higher_better=True),
    "total_duration": Metric(total_duration),
    "slope_with_intercept": Metric(functools.partial(slope, has_intercept=True)),
    "slope_without_intercept": Metric(functools.partial(slope, has_intercept=False)),
    "mean_win_rate": Metric(functools.partial(reference_win_share, summary=masked_mean), is_higher_better=True),
    "median_win_rate": Metric(functools.partial(reference_win_share, summary=masked_median), is_higher_better=True),
} | {
    f"{name}_percentile_{dropped}": Metric(
        functools.partial(without_tests, easiest=easiest, hardest=hardest, summary=summary)
    )
    for name, summary in SUMMARIES.items()
    for dropped, (easiest, hardest) in FILTERED.items()
}
