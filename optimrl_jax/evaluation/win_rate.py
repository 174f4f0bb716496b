"""Speed win rates between two policies on the same problems: WR_b and WR_m (Table 5). Pure NumPy."""

import typing

import numpy as np

PICKS = {"fastest": lambda passing: 0, "median": lambda passing: (passing - 1) // 2}


class WinRate(typing.NamedTuple):
    """Result of a comparison of two policies.

    Attributes:
      rate: wins / (wins + losses); nan where nothing was decided.
      wins: problems on which the policy's pick is faster.
      losses: those on which the baseline's is.
      draws: those within the margin.
      filtered: problems that are not compared, because one side solves none of its samples.
    """

    rate: float
    wins: int
    losses: int
    draws: int
    filtered: int


def win_rate(
    seconds: np.ndarray,
    is_passing: np.ndarray,
    baseline_seconds: np.ndarray,
    baseline_is_passing: np.ndarray,
    *,
    pick: str,
    draw_margin: float = 0.0,
) -> WinRate:
    """Count how often the policy's picked sample is faster than the baseline's, over problems that both solve.

    Args:
      seconds: `[b, n]` one number for each sample, such as its mean over tests.
      is_passing: `[b, n]` samples that count.
      baseline_seconds: `[b, m]` of the baseline, on the same problems.
      baseline_is_passing: `[b, m]`.
      pick: "fastest" (WR_b), or "median" (WR_m: the passing sample in the middle of the order of speed, the faster one
        of two).
      draw_margin: problems whose two picks differ by at most this share of the slower one are draws.

    Raises:
      ValueError: for another pick or a shape that does not fit.
    """
    if pick not in PICKS:
        raise ValueError(f"pick = {pick!r}: expected one of {', '.join(PICKS)}")
    if len(seconds) != len(baseline_seconds):
        raise ValueError(f"{len(seconds)} and {len(baseline_seconds)} problems: expected the same problems")
    own = _picked(seconds, is_passing, pick)
    other = _picked(baseline_seconds, baseline_is_passing, pick)
    both = np.isfinite(own) & np.isfinite(other)
    own, other = own[both], other[both]
    is_draw = np.abs(own - other) <= draw_margin * np.maximum(own, other)
    wins, losses = int(((own < other) & ~is_draw).sum()), int(((own > other) & ~is_draw).sum())
    rate = wins / (wins + losses) if wins + losses else float("nan")
    return WinRate(rate, wins, losses, int(is_draw.sum()), int((~both).sum()))


def _picked(seconds: np.ndarray, is_passing: np.ndarray, pick: str) -> np.ndarray:
    """Find the seconds of the picked passing sample of each problem, `[b]`; +inf where none passes."""
    seconds, is_passing = np.asarray(seconds, float), np.asarray(is_passing, bool)
    if seconds.shape != is_passing.shape or seconds.ndim != 2:
        raise ValueError(f"seconds {seconds.shape}, is_passing {is_passing.shape}: expected two equal shapes [b, n]")
    ordered = np.sort(np.where(is_passing, seconds, np.inf), axis=1)
    place = PICKS[pick](np.maximum(is_passing.sum(axis=1), 1))
    return np.take_along_axis(ordered, np.broadcast_to(place, (len(seconds),))[:, None], axis=1)[:, 0]
