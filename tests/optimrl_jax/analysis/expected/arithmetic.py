"""Places, scores and means of planted records, one program at a time: nothing here comes from the package's functions.

A pass is read from the planted samples. `seconds` and `status` are `[n, tests]` of the programs of one problem, boards
`[references, tests]`; the first test is the correctness test.
"""

import functools
import itertools
import math
import typing

import numpy as np

from optimrl_jax.arrays import Status
from tests.optimrl_jax.analysis import planted, planted_page

NAN = float("nan")
PROBLEMS = range(planted.PROBLEMS)
TIMED = slice(1, None)


class Programs(typing.NamedTuple):
    """What programs of one problem did."""

    status: np.ndarray
    seconds: np.ndarray

    @property
    def is_valid(self):
        return ~(self.status == Status.FAULT).any(axis=1)

    @property
    def is_right(self):
        return (self.status == Status.SUCCESS).all(axis=1)

    @property
    def mean_s(self):
        return self.seconds[:, TIMED].mean(axis=1)

    @property
    def cells(self):
        """Seconds on optimization tests; nan where a program did not succeed."""
        return np.where(self.status == Status.SUCCESS, self.seconds, NAN)[:, TIMED]


@functools.cache
def programs(seed, policy, b):
    found = [s for s in planted_page.evaluation(seed).samples if (s.policy, s.problem_id) == (policy, f"twin/p{b}")]
    return Programs(np.stack([s.status for s in found]), np.stack([s.duration_s for s in found]).astype(float))


def references(seed, b):
    return programs(seed, "references", b)


def labelled():
    """(label, seed, name) of every policy of the page."""
    return [(label, *_parts(label)) for label in planted_page.LABELS]


def _parts(label):
    seed, name = label.split(":")
    return int(seed[-1]), name


def stored_s(b):
    return np.float32(np.outer(np.arange(1, 5), planted.UNITS_S[b] * planted.WEIGHTS)).astype(float)


@functools.cache
def drift(seed):
    """Slope and offset of the line through all (stored, fresh) seconds of optimization tests, and the pairs."""
    pairs = [
        (x, y)
        for b in PROBLEMS
        for x, y in zip(stored_s(b)[:, TIMED].ravel(), references(seed, b).cells.ravel(), strict=True)
        if np.isfinite(y)
    ]
    x, y = np.array(pairs).T
    slope = np.sum((x - x.mean()) * (y - y.mean())) / np.sum((x - x.mean()) ** 2)
    return slope, y.mean() - slope * x.mean(), x, y


@functools.cache
def board(seed, b):
    """The seconds that candidates are ranked against: those of the pass; a timeout is 10 s; a gap is stored, mapped."""
    own = references(seed, b)
    slope, offset_s, *_ = drift(seed)
    return np.where(own.status == Status.NOT_RUN, slope * stored_s(b) + offset_s, own.seconds)[:, TIMED]


def mean_places(rows, board_s):
    """a(y) of each row: mean share of the references that are strictly faster."""
    return (board_s < rows[:, None]).mean(axis=(1, 2))


def leaderboard_places(rows, board_s):
    """q_QP of each row: the share of references whose places are better once the row stands in every list."""
    ahead = (board_s < rows[:, None]).sum(axis=(1, 2))
    among_references = np.array([np.sum(board_s < own) for own in board_s])
    of_references = among_references + (rows[:, None] < board_s).sum(axis=2)
    return (of_references < ahead[:, None]).mean(axis=1)


@functools.cache
def places(seed, policy, b):
    """q of every program."""
    return leaderboard_places(programs(seed, policy, b).seconds[:, TIMED], board(seed, b))


def pass_at(is_passing, is_valid, k):
    """1 - C(n - m, k) / C(n, k); nan with fewer than k valid samples."""
    n, m = int(is_valid.sum()), int((is_passing & is_valid).sum())
    return 1 - math.comb(n - m, k) / math.comb(n, k) if n >= k else NAN


def scores(seed, policy, tau, k=1):
    """pass@k at p_tau of each problem."""
    found = []
    for b in PROBLEMS:
        own = programs(seed, policy, b)
        counts = own.is_right & ((tau == 100) | (places(seed, policy, b) <= tau / 100 + 1e-6))
        found.append(pass_at(counts, own.is_valid, k))
    return np.array(found)


def percent(values):
    """Mean of what is known, in percent."""
    known = np.asarray(values, float)[np.isfinite(values)]
    return 100 * float(known.mean()) if known.size else NAN


def interval(values):
    """2.5 % and 97.5 % quantile of the mean of `n` draws of `n` values, over all draws there are, in percent."""
    known = np.asarray(values)[np.isfinite(values)]
    if not known.size:
        return NAN, NAN
    means = np.sort([np.mean(draw) for draw in itertools.product(known, repeat=len(known))])
    return tuple(100 * np.quantile(means, (0.025, 0.975)))


def correlation(left, right):
    """Pearson's; nan where one side does not vary."""
    left, right = np.asarray(left, float), np.asarray(right, float)
    if left.size < 2 or np.ptp(left) == 0 or np.ptp(right) == 0:
        return NAN
    left, right = left - left.mean(), right - right.mean()
    return float(left @ right / math.sqrt((left @ left) * (right @ right)))


def rank_correlation(left, right):
    """Spearman's: Pearson's of average ranks."""
    return correlation(_ranks(left), _ranks(right))


def _ranks(values):
    values = np.asarray(values, float)
    return np.array([np.sum(values < v) + np.sum(values == v) / 2 for v in values])


def mean_or_nan(values):
    known = [v for v in values if np.isfinite(v)]
    return float(np.mean(known)) if known else NAN
