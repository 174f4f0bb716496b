"""Leaderboard positions against exact fractions, where float means would tie what differs or part what is equal."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from optimrl_jax.arrays import References
from optimrl_jax.environment import leaderboard, ranking

K, H, R = 7, 6, 4
QP = {ties: jax.jit(lambda *arrays, ties=ties: ranking.qp(*arrays, ties=ties)) for ties in ("first", "average")}


def pool_of(duration_s, is_usable):
    duration_s = np.where(is_usable, duration_s, np.inf).astype(np.float32)
    return References(duration_s, np.zeros_like(duration_s), np.asarray(is_usable))


def exact_position(duration_s, is_usable, candidate_s, *, ties):
    """References ahead of one candidate, by fractions."""

    def place(value, others):
        halves = sum(2 * (other < value) + (other == value and ties == "average") for other in others)
        return Fraction(int(halves), 2 * len(others))

    def mean(places):
        return sum(places, Fraction(0)) / max(1, len(places))

    tests = [t for t in range(len(is_usable)) if is_usable[t].any()]
    a = mean([place(candidate_s[t], duration_s[t][is_usable[t]]) for t in tests])
    ahead = 0
    for h in np.flatnonzero(is_usable.any(axis=0)):
        own = []
        for t in np.flatnonzero(is_usable[:, h]):
            others = np.delete(duration_s[t], h)[np.delete(is_usable[t], h)]
            own.append(place(duration_s[t, h], [*others, candidate_s[t]]))
        ahead += mean(own) < a
    return ahead


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["first", "average"]))
def test_positions_are_those_of_exact_fractions(seed, ties):
    draw = np.random.default_rng(seed)
    duration_s = draw.choice([0.25, 0.5, 1.0], size=(K, H))
    is_usable = draw.random((K, H)) < draw.choice([0.5, 0.8, 1.0])
    candidates_s = draw.choice([0.25, 0.5, 0.75, 1.0], size=(R, K))
    ranked = max(1, int(is_usable.any(axis=0).sum()))
    expected = [exact_position(duration_s, is_usable, one, ties=ties) / ranked for one in candidates_s]
    found = QP[ties](pool_of(duration_s, is_usable), candidates_s.astype(np.float32))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_candidate_equal_to_references_is_put_before_them_on_many_tests():
    """At 256 tests sums of float32 thirds and sevenths drift apart by their order; the twins must stay tied."""
    draw = np.random.default_rng(0)
    k, h = 256, 64
    duration_s = draw.lognormal(0, 1, (k, h)).astype(np.float32)
    duration_s[:, 32:] = duration_s[:, :1]
    is_usable = draw.random((k, h)) < 0.7
    is_usable[:, 32:] = True
    candidate_s = duration_s[:, :1].T.copy()
    ahead = exact_position(duration_s, is_usable, candidate_s[0], ties="first")
    found = jax.jit(lambda *arrays: ranking.qp(*arrays, ties="first"))(pool_of(duration_s, is_usable), candidate_s)
    assert round(float(found[0]) * h) == ahead


@pytest.mark.parametrize("behind_the_rival", [74, 76])
def test_means_closer_than_a_float32_can_tell_are_told_apart(behind_the_rival):
    """Candidate and twin differ by 1 / (149 x 150 x 511) = 9e-8, once to either side; the twin misses one test."""
    k, h, place = 150, 512, 200
    seconds = np.tile(np.arange(h, dtype=np.float64), (k, 1))
    twin, filler = h - 2, h - 1
    candidate_s = np.full(k, place - 0.5)
    candidate_s[1 : behind_the_rival + 1] += 1
    seconds[:, twin] = candidate_s + np.where(np.arange(k) <= 75, -0.25, 0.25)
    is_usable = np.ones((k, h), bool)
    is_usable[0, twin] = False
    is_usable[1:, filler] = False
    pool = pool_of(seconds, is_usable)
    found = jax.jit(lambda *arrays: ranking.qp(*arrays, ties="first"))(pool, candidate_s[None].astype(np.float32))

    faster = (pool.duration_s[:, None, :] < pool.duration_s[:, :, None]).sum(axis=2)
    total = np.where(is_usable, faster + (candidate_s[:, None] < pool.duration_s), 0).sum(axis=0)
    own_total = int((pool.duration_s < candidate_s[:, None]).sum())
    is_ahead = total * k < own_total * is_usable.sum(axis=0)
    assert is_ahead[twin] == (behind_the_rival == 74)
    assert round(float(found[0]) * h) == is_ahead.sum()


@pytest.mark.parametrize("ties", ["first", "average"])
def test_large_pools_need_no_quadratic_memory(ties):
    k, h, r = 150, 3185, 64
    arrays = [jax.ShapeDtypeStruct((k, h), jnp.float32)] * 2 + [jax.ShapeDtypeStruct((k, h), jnp.bool_)]
    compiled = QP[ties].lower(References(*arrays), jax.ShapeDtypeStruct((r, k), jnp.float32)).compile()
    # A comparison of all pairs would hold k h h = 1.5 GB of bytes; a few copies of the pool are 2 MB each.
    assert compiled.memory_analysis().temp_size_in_bytes < 40 * k * h


# Few distinct values, so that ties are everywhere; +inf marks unusable cells.
ROWS = npst.arrays(np.float32, (3, 6), elements=st.sampled_from([0.0, 0.5, 1.0, 2.0, np.inf]))
ordered, faster_and_tied = jax.jit(leaderboard.ordered), jax.jit(leaderboard.faster_and_tied)


@settings(max_examples=50, deadline=None)
@given(ROWS)
def test_rows_come_out_in_ascending_order(rows):
    np.testing.assert_array_equal(ordered(rows), np.sort(rows, axis=1))


@settings(max_examples=50, deadline=None)
@given(ROWS, ROWS)
def test_faster_and_tied_are_counted_test_by_test(pool, values):
    faster, tied = faster_and_tied(pool, values)
    np.testing.assert_array_equal(faster, (pool[:, None, :] < values[:, :, None]).sum(axis=2))
    np.testing.assert_array_equal(tied, (pool[:, None, :] == values[:, :, None]).sum(axis=2))


def test_mean_ranks_that_one_float32_would_tie_are_told_apart():
    """257 + 1/190 is behind 257 + 1/191 by 2.8e-5, less than the spacing of float32 there."""
    total, tests = np.array([190 * 257 + 1, 191 * 257 + 1], np.int32), np.array([190, 191], np.int32)
    assert np.float32(total[0]) / np.float32(190) == np.float32(total[1]) / np.float32(191)
    for form in (np.asarray, jnp.asarray):
        assert leaderboard.mean_rank_order(form(total), form(tests)).tolist() == [1, 0]


def test_equal_mean_ranks_keep_their_order_and_unranked_ones_come_last():
    order = leaderboard.mean_rank_order(np.array([[4, 0, 2, 1]]), np.array([[2, 0, 1, 3]]))
    assert order.tolist() == [[1, 3, 2, 0]]
