"""WR_b and WR_m by hand, and against a slow loop."""

import numpy as np
import pytest

from optimrl_jax.evaluation.win_rate import win_rate


def test_fastest_and_median_by_hand():
    """The policy's passing samples take 1, 5 and 6 s, the baseline's 2 and 3 s; the 0.1 s program is wrong."""
    own, own_passes = np.array([[0.1, 5.0, 1.0, 6.0]]), np.array([[False, True, True, True]])
    other, other_passes = np.array([[3.0, 2.0]]), np.array([[True, True]])
    assert win_rate(own, own_passes, other, other_passes, pick="fastest") == (1.0, 1, 0, 0, 0)
    assert win_rate(own, own_passes, other, other_passes, pick="median") == (0.0, 0, 1, 0, 0)


def test_draws_and_unsolved_problems_do_not_count():
    own = np.array([[1.0], [1.0], [1.0], [1.02]])
    other = np.array([[2.0], [1.0], [0.5], [1.0]])
    passes = np.array([[True], [True], [False], [True]])
    assert win_rate(own, passes, other, np.ones_like(passes), pick="fastest", draw_margin=0.05) == (1.0, 1, 0, 2, 1)
    nothing = win_rate(own, np.zeros_like(passes), other, passes, pick="fastest")
    assert np.isnan(nothing.rate)
    assert nothing[1:] == (0, 0, 0, 4)


@pytest.mark.parametrize("pick", ["fastest", "median"])
def test_random_ragged_batches_agree_with_a_loop(pick):
    draw = np.random.default_rng(0)
    sides = [(draw.integers(1, 9, (200, n)) / 4, draw.random((200, n)) < 0.4) for n in (5, 8)]
    wins = losses = draws = 0
    for problem in range(200):
        picked = []
        for seconds, passes in sides:
            own = sorted(seconds[problem][passes[problem]])
            picked.append(own[0 if pick == "fastest" else (len(own) - 1) // 2] if own else None)
        if None not in picked:
            wins += picked[0] < picked[1]
            losses += picked[0] > picked[1]
            draws += picked[0] == picked[1]
    found = win_rate(*sides[0], *sides[1], pick=pick)
    assert found == (wins / (wins + losses), wins, losses, draws, 200 - wins - losses - draws)
    swapped = win_rate(*sides[1], *sides[0], pick=pick)
    assert swapped.rate == pytest.approx(1 - found.rate)


def test_scaling_all_seconds_changes_nothing():
    draw = np.random.default_rng(1)
    own, other, passes = draw.random((40, 6)), draw.random((40, 6)), draw.random((40, 6)) < 0.7
    before = win_rate(own, passes, other, passes, pick="median", draw_margin=0.1)
    assert before == win_rate(own * 8, passes, other * 8, passes, pick="median", draw_margin=0.1)


def test_what_cannot_be_compared_is_refused():
    ones = np.ones((2, 3))
    with pytest.raises(ValueError, match="pick = 'best'"):
        win_rate(ones, ones, ones, ones, pick="best")
    with pytest.raises(ValueError, match="same problems"):
        win_rate(ones, ones, ones[:1], ones[:1], pick="median")
    with pytest.raises(ValueError, match="equal shapes"):
        win_rate(ones, ones[:, :2], ones, ones, pick="median")
