"""What the counts and the probes of a service say about its health. Pure.

The paper's failures came in short bursts that averages hide (L2293-L2370), and as slow spells in which every verdict is
right and every second is wrong (L2372-L2448): the first shows in faults of single windows, the second only in programs
whose seconds are known.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# Loop lengths of the probe programs: two sizes tell a slower core (slope) from a longer start (offset).
PROBE_LOOPS = (20_000, 2_000_000)
PROBE_PROGRAM = "n = int(input())\nfor _ in range(n):\n    pass\nprint(n)\n"
BURST_SHARE = 0.02
DRIFT_SHARE = 0.15


class Rates(NamedTuple):
    """The paper's three rates, as shares of requests: failed at the service, recovered by the fallback, neither."""

    service_only: float
    fallback: float
    unresolved: float


def rates(counts: Mapping[str, int]) -> Rates:
    """Rates from a client's counts; zero where nothing was asked yet."""
    requests = max(1, counts.get("requests", 0))
    unsettled, recovered = counts.get("unsettled", 0), counts.get("recovered", 0)
    return Rates(unsettled / requests, recovered / requests, (unsettled - recovered) / requests)


def any_failure_share(failure_share: float, runs: int) -> float:
    """Probability that at least one of `runs` independent runs fails: 1 - (1 - f)^n (L2263)."""
    return 1.0 - (1.0 - failure_share) ** runs


def bursts(is_faulted: Sequence[bool], *, window: int = 100, share: float = BURST_SHARE) -> list[int]:
    """Indices of the windows, one after the other, in which more than `share` of the requests failed."""
    windows = range(0, len(is_faulted), window)
    return [n for n, start in enumerate(windows) if statistics.fmean(is_faulted[start : start + window]) > share]


class Drift(NamedTuple):
    """Seconds now = slope * seconds then + offset, over the probe programs."""

    slope: float
    offset_s: float

    @property
    def is_alarming(self) -> bool:
        """True where the slope has left the band around 1 that noise explains."""
        return abs(self.slope - 1.0) > DRIFT_SHARE


def drift(then_s: Sequence[float], now_s: Sequence[float]) -> Drift:
    """The affine map between two measurements of the same programs, least squares; needs two different durations."""
    line = statistics.linear_regression(then_s, now_s)
    return Drift(line.slope, line.intercept)
