"""When can noisy seconds tell which of two correct programs is faster? The noise study of App. A.

Pairs of synthetic solutions, B truly faster than A, are observed under multiplicative and additive noise, and two
success metrics decide who won: a timeout, which hinges on one boundary, and a win rate, which counts tests. Pure NumPy;
every figure is a Monte-Carlo estimate with its seed.
"""

import dataclasses
import typing
from collections.abc import Sequence

import numpy as np

GAP = 0.2
TEST_SPREAD = 0.15


@dataclasses.dataclass(frozen=True)
class Regime:
    """Test suites of one kind (App. A.3); base durations are log-normal, exp(N(mu, sigma^2)) seconds.

    Attributes:
      name: as figures show it.
      tests: of one suite.
      mu: mean of the logarithm of seconds.
      sigma: its standard deviation.
    """

    name: str
    tests: int
    mu: float
    sigma: float


REGIMES = {
    "lcb": Regime("LCB-like", tests=35, mu=-2.3, sigma=0.5),
    "dmc": Regime("DMC-Optim-like", tests=122, mu=1.0, sigma=0.5),
}


class Noise(typing.NamedTuple):
    """Measurement noise d_obs = d_true (1 + e_mult) + e_add (Eq. 2).

    Attributes:
      multiplicative: standard deviation of e_mult, without unit.
      additive_s: standard deviation of e_add, seconds.
    """

    multiplicative: float = 0.0
    additive_s: float = 0.0


class ObservedPairs(typing.NamedTuple):
    """Seconds of both solutions in each trial and test.

    Attributes:
      slower_s: `[trials, n]` observed seconds of solution A.
      faster_s: `[trials, n]` observed seconds of solution B.
      slower_true_s: `[trials, n]` true seconds of A.
      faster_true_s: `[trials, n]` true seconds of B.
    """

    slower_s: np.ndarray
    faster_s: np.ndarray
    slower_true_s: np.ndarray
    faster_true_s: np.ndarray


def draw_pairs(regime: Regime, noise: Noise, *, trials: int, seed: int, tests: int | None = None) -> ObservedPairs:
    """Draw base durations, test-specific gaps and noise anew in every trial (App. A.3, "Synthetic playground").

    d_A = b (1 + GAP/2 + eta_A), d_B = b (1 - GAP/2 + eta_B) with eta ~ N(0, TEST_SPREAD^2).

    Args:
      regime: number and durations of tests.
      noise: of the observations.
      trials: pairs to draw.
      seed: of everything drawn.
      tests: takes the place of the regime's own number of tests.
    """
    draw = np.random.default_rng(seed)
    shape = (trials, regime.tests if tests is None else tests)
    base_s = draw.lognormal(regime.mu, regime.sigma, shape)
    true_s = [base_s * (1 + side * GAP / 2 + draw.normal(0, TEST_SPREAD, shape)) for side in (1, -1)]
    observed_s = [
        seconds * (1 + draw.normal(0, noise.multiplicative, shape)) + draw.normal(0, noise.additive_s, shape)
        for seconds in true_s
    ]
    return ObservedPairs(*observed_s, *true_s)


def win_rate_credit(found: ObservedPairs) -> np.ndarray:
    """Give credit 1 where B wins more tests than A, 1/2 for as many, 0 for fewer; `[trials]` (Eq. 5)."""
    wins = (found.faster_s < found.slower_s).sum(axis=1)
    losses = (found.faster_s > found.slower_s).sum(axis=1)
    return (np.sign(wins - losses) + 1) / 2


def timeout_credit(found: ObservedPairs, threshold_s: np.ndarray | float) -> np.ndarray:
    """Give credit for a timeout's decision (Eq. 4).

    Args:
      found: observed pairs.
      threshold_s: one for all trials, or `[trials]`, seconds.

    Returns:
      `[trials]`: 1 where B alone stays within the threshold on all tests, 1/2 where both do or none, else 0.
    """
    passes = [seconds.max(axis=1) <= threshold_s for seconds in (found.faster_s, found.slower_s)]
    return (passes[0].astype(float) - passes[1] + 1) / 2


def oracle_threshold_s(found: ObservedPairs) -> np.ndarray:
    """Choose the threshold of each pair after the fact: midway between the observed maxima, `[trials]` seconds.

    No threshold names the faster program more often: it does wherever its slowest observed test is the faster one
    (App. A.3, "an oracle threshold chosen after the fact").
    """
    return (found.slower_s.max(axis=1) + found.faster_s.max(axis=1)) / 2


class Accuracy(typing.NamedTuple):
    """How often each metric names the true winner at each point of a sweep; guessing gives 1/2.

    Attributes:
      timeout: `[points]` shares in [0, 1].
      win_rate: `[points]` likewise.
    """

    timeout: np.ndarray
    win_rate: np.ndarray


def threshold_sweep(
    regime: Regime, noise: Noise, thresholds_s: Sequence[float] | np.ndarray, *, trials: int, seed: int
) -> Accuracy:
    """Estimate accuracy at fixed thresholds; the win rate has none and is flat (Figure 10).

    Args:
      regime: number and durations of tests.
      noise: of the observations.
      thresholds_s: seconds of each point.
      trials: pairs to draw.
      seed: of everything drawn.
    """
    found = draw_pairs(regime, noise, trials=trials, seed=seed)
    timeout = np.array([timeout_credit(found, threshold_s).mean() for threshold_s in thresholds_s])
    return Accuracy(timeout, np.full(len(timeout), win_rate_credit(found).mean()))


def tests_sweep(regime: Regime, noise: Noise, counts: Sequence[int], *, trials: int, seed: int) -> Accuracy:
    """Estimate accuracy by the number of tests, timeouts with their oracle threshold (Figure 11).

    Args:
      regime: durations of tests.
      noise: of the observations.
      counts: tests of each point.
      trials: pairs to draw at each point.
      seed: of everything drawn.
    """
    return _accuracy([draw_pairs(regime, noise, trials=trials, seed=seed, tests=count) for count in counts])


def noise_sweep(regime: Regime, noises: Sequence[Noise], *, trials: int, seed: int) -> Accuracy:
    """Estimate accuracy under each noise, timeouts with their oracle threshold (Figure 12).

    Args:
      regime: number and durations of tests.
      noises: of each point.
      trials: pairs to draw at each point.
      seed: of everything drawn.
    """
    return _accuracy([draw_pairs(regime, noise, trials=trials, seed=seed) for noise in noises])


def _accuracy(points: Sequence[ObservedPairs]) -> Accuracy:
    timeout = [timeout_credit(found, oracle_threshold_s(found)).mean() for found in points]
    return Accuracy(np.array(timeout), np.array([win_rate_credit(found).mean() for found in points]))


def burdened_share(duration_s: np.ndarray, *, perturbation_s: float, burden: float) -> float:
    """Measure the share of runs for which a fixed perturbation is at least `burden` of the duration (Eq. 3).

    Args:
      duration_s: seconds of the runs, any shape.
      perturbation_s: seconds.
      burden: share of the duration.
    """
    return float((perturbation_s >= burden * np.asarray(duration_s)).mean())


def fallback_exposure(failure_rate: np.ndarray | float, tests: np.ndarray | int) -> np.ndarray:
    """Compute the chance that a correct program meets at least one infrastructure failure, 1 - (1 - f)^n (App. C.5).

    Args:
      failure_rate: f, chance of a failure in one test.
      tests: n, tests of a program; broadcast against f.
    """
    return -np.expm1(np.asarray(tests) * np.log1p(-np.asarray(failure_rate, float)))
