"""The 17 ranking scores: by hand, against a plain version, and where they are undefined."""

import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from optimrl_jax import environment
from optimrl_jax.arrays import References

K, H, R = 12, 6, 3
SCORES = jax.jit(environment.ranking_metrics)


def pool_of(duration_s, is_usable):
    duration_s = np.where(is_usable, duration_s, np.inf).astype(np.float32)
    return References(duration_s, np.zeros_like(duration_s), np.asarray(is_usable))


def padded(values, fill):
    result = np.full((K, H), fill, np.asarray(values).dtype)
    result[: len(values), : len(values[0])] = values
    return result


def score(candidate_s, pool_s):
    """Scores of one candidate on a full pool [k, h]."""
    k = len(candidate_s)
    is_measured = np.arange(K) < k
    row = np.zeros(K, np.float32)
    row[:k] = candidate_s
    usable = padded(np.ones(np.shape(pool_s), bool), False)
    found = SCORES(pool_of(padded(np.asarray(pool_s, np.float32), 0), usable), row[None], is_measured=is_measured[None])
    return {name: float(value[0]) for name, value in found.items()}


def plain_scores(duration_s, is_usable, candidate_s, is_measured):
    """The paper's sentences, one candidate at a time."""
    tests = [t for t in range(len(candidate_s)) if is_measured[t] and is_usable[t].any()]
    pools = {t: duration_s[t][is_usable[t]] for t in tests}

    def pi(value, others):
        if not len(others) or math.isnan(value):
            return math.nan
        rank = stats.rankdata([*others, value])[-1]
        return 100 * (rank - 1) / len(others)

    percentiles = np.array([pi(candidate_s[t], pools[t]) for t in tests])
    if not tests:
        return dict.fromkeys(environment.METRICS, math.nan)
    found = {
        "mean_percentile": percentiles.mean(),
        "median_percentile": np.median(percentiles),
        "trimmed_mean_percentile": math.nan,
        "log_mean_percentile": np.mean([pi(math.log(candidate_s[t]), np.log(pools[t])) for t in tests]),
        "top_25_share": 100 * np.mean(percentiles < 25),
        "top_50_share": 100 * np.mean(percentiles < 50),
        "mean_win_rate": np.mean([candidate_s[t] < pools[t].mean() for t in tests]),
        "median_win_rate": np.mean([candidate_s[t] < np.median(pools[t]) for t in tests]),
    }
    if len(tests) >= 5:
        cut = max(1, len(tests) // 10)
        found["trimmed_mean_percentile"] = np.sort(percentiles)[cut:-cut].mean()
    of_reference = [([t for t in tests if is_usable[t][h]], duration_s[:, h]) for h in range(duration_s.shape[1])]
    totals = [sum(seconds[t] for t in own) for own, seconds in of_reference if own]
    found["total_duration"] = pi(sum(candidate_s[t] for t in tests), np.array(totals))
    hard = {t: np.median(pools[t]) for t in tests}
    for name, fit in (("slope_with_intercept", with_intercept), ("slope_without_intercept", through_origin)):
        slopes = [fit([hard[t] for t in own], [seconds[t] for t in own]) for own, seconds in of_reference]
        own = fit([hard[t] for t in tests], [candidate_s[t] for t in tests])
        found[name] = between(own, np.array([slope for slope in slopes if not math.isnan(slope)]))
    by_difficulty = sorted(range(len(tests)), key=lambda i: (pools[tests[i]].mean(), i))
    for dropped, low, high in (("easiest_10", 0.1, 0), ("hardest_25", 0, 0.25), ("hardest_50", 0, 0.5)):
        first = max(1, int(low * len(tests))) if low else 0
        last = len(tests) - (max(1, int(high * len(tests))) if high else 0)
        kept = percentiles[by_difficulty[first:last]] if len(tests) >= 5 else np.array([math.nan])
        found[f"mean_percentile_without_{dropped}"] = kept.mean()
        found[f"median_percentile_without_{dropped}"] = np.median(kept)
    return found


def between(own, slopes):
    """Slopes of equal programs may differ in their last digit: one as near as that counts as faster or as slower."""
    if math.isnan(own) or not len(slopes):
        return math.nan, math.nan
    near = np.isclose(slopes, own, rtol=1e-4, atol=1e-5)
    sure = (slopes < own) & ~near
    return 100 * sure.mean(), 100 * (sure | near).mean()


def with_intercept(x, y):
    if len(set(x)) < 2:
        return math.nan
    return float(np.polyfit(x, y, 1)[0])


def through_origin(x, y):
    return float(np.dot(x, y) / np.dot(x, x)) if len(x) else math.nan


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, K), st.integers(1, H))
def test_every_score_is_the_papers(seed, k, h):
    draw = np.random.default_rng(seed)
    # Powers of two are exact in sums, products and means of both versions, so that ties agree.
    seconds = 2.0 ** draw.integers(-3, 4, size=(k, h))
    is_usable = draw.random((k, h)) < 0.8
    candidates_s = 2.0 ** draw.integers(-3, 4, size=(R, k)) * draw.choice([1.0, 1.37], size=(R, 1))
    is_measured = draw.random((R, k)) < 0.9
    wide = np.zeros((2, R, K), np.float32)
    wide[0, :, :k], wide[1, :, :k] = candidates_s, is_measured
    pool = pool_of(padded(seconds.astype(np.float32), 0), padded(is_usable, False))
    found = SCORES(pool, wide[0], is_measured=wide[1] > 0)
    for row in range(R):
        expected = plain_scores(seconds, is_usable, candidates_s[row], is_measured[row])
        for name, value in expected.items():
            if name.startswith("slope") and np.isfinite(value).all():
                assert value[0] - 2e-3 <= float(found[name][row]) <= value[1] + 2e-3, name
            else:
                assert float(found[name][row]) == pytest.approx(float(np.max(value)), abs=2e-3, nan_ok=True), name


def test_seventeen_scores_four_of_them_better_when_higher():
    assert len(environment.METRICS) == 17
    higher = {name for name, metric in environment.METRICS.items() if metric.is_higher_better}
    assert higher == {"top_25_share", "top_50_share", "mean_win_rate", "median_win_rate"}


def test_scores_by_hand():
    """References take 1, 2, 3, 4 s times the test's number; the candidate 1.5 s times it: second of five everywhere."""
    pool = np.outer(np.arange(1, 6), [1, 2, 3, 4])
    found = score(1.5 * np.arange(1, 6), pool)
    assert found["mean_percentile"] == found["median_percentile"] == found["trimmed_mean_percentile"] == 25
    assert found["log_mean_percentile"] == 25
    assert (found["top_25_share"], found["top_50_share"]) == (0, 100)
    assert found["total_duration"] == 25
    assert found["slope_with_intercept"] == found["slope_without_intercept"] == 25
    assert found["mean_win_rate"] == found["median_win_rate"] == 1


def test_filters_drop_the_easiest_or_the_hardest_tests():
    """Places 0, 25, 50, 75, 100 on ever harder tests: one is dropped at 10 % and 25 % of five, two at 50 %."""
    pool = np.outer(np.arange(1, 6), [1, 2, 3, 4])
    candidate = np.arange(1, 6) * np.array([0.5, 1.5, 2.5, 3.5, 4.5])
    found = score(candidate, pool)
    assert found["mean_percentile_without_easiest_10"] == pytest.approx(62.5)
    assert found["mean_percentile_without_hardest_25"] == pytest.approx(37.5)
    assert found["median_percentile_without_hardest_50"] == pytest.approx(25)


def test_trimmed_and_filtered_scores_need_five_tests():
    found = score([1.5] * 4, [[1, 2, 3, 4]] * 4)
    undefined = {name for name, value in found.items() if math.isnan(value)}
    assert undefined == {name for name in found if "trimmed" in name or "without_e" in name or "without_h" in name} | {
        "slope_with_intercept"
    }


def test_nothing_is_defined_without_tests():
    found = SCORES(
        pool_of(np.ones((K, H)), np.zeros((K, H), bool)), np.ones((R, K), np.float32), is_measured=np.ones((R, K), bool)
    )
    assert all(np.isnan(value).all() for value in found.values())
