"""How restless a host is: what slow spells, seen by probes in the last minute, do to a measurement like this. Pure.

A request sees a few seconds of its host. Whether another one, in the next minute, would find it as fast depends on
spells that outlast both, and of those only the probes between requests can tell. So the last minute is cut into blocks
as long as the request. The low probes of a block say how fast the core then was at its best, as the smallest of several
runs does; how far blocks lie from the request's own is how far fresh seconds will lie from its seconds.
"""

import bisect
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

# How far back the probes tell about the next minute, and how many of them are kept.
HISTORY_S, MOST_PROBES = 60.0, 512
# A probe this much above the best ones shows a core that is slow at the moment.
SLOW_SHARE = 0.06
# A block is long enough to hold some probes, and short enough to leave several of them.
SHORTEST_S, FEWEST_BLOCKS, FEWEST_PROBES = 1.0, 4, 3
# Where no more than a few seconds are known, this share of the seconds stands for what is not; less the more is known.
UNKNOWN_SHARE, KNOWN_S = 0.01, 10.0
# Moments at which a block begins.
MOMENTS = 64
COVERED = 0.95
Z_PAIR = 1.96 * math.sqrt(2)


class SpeedHistory(NamedTuple):
    """Probes of one core over the last minute, the oldest first.

    Attributes:
      at_s: when each was taken, in seconds of one clock.
      probe_s: what each took, in seconds.
    """

    at_s: tuple[float, ...] = ()
    probe_s: tuple[float, ...] = ()

    def after(self, probes: Sequence[tuple[float, float]]) -> "SpeedHistory":
        """Return the history with more probes, pairs of moment and seconds; what is too old is dropped."""
        if not probes:
            return self
        at_s = [*self.at_s, *(at_s for at_s, _ in probes)]
        probe_s = [*self.probe_s, *(probe_s for _, probe_s in probes)]
        first = max(bisect.bisect_left(at_s, at_s[-1] - HISTORY_S), len(at_s) - MOST_PROBES)
        return SpeedHistory(tuple(at_s[first:]), tuple(probe_s[first:]))

    @property
    def best_s(self) -> float:
        """Seconds of a probe on this core at its best within the history; 0 before the first probe."""
        if len(self.probe_s) < 2:
            return self.probe_s[0] if self.probe_s else 0.0
        return statistics.quantiles(self.probe_s, n=10)[0]

    @property
    def calm_s(self) -> float:
        """Seconds up to which a probe shows a core that is itself; infinite before the first probe."""
        return (1 + SLOW_SHARE) * self.best_s if self.probe_s else math.inf

    def low_s(self, begin_s: float, end_s: float) -> float | None:
        """Return the lower quartile of the probes between two moments; None where there are too few of them."""
        first, last = (bisect.bisect_left(self.at_s, moment_s) for moment_s in (begin_s, end_s))
        if last - first < FEWEST_PROBES:
            return None
        return statistics.quantiles(self.probe_s[first:last], n=4)[0]


def restless_share(history: SpeedHistory, *, span_s: float) -> float:
    """Compute the standard deviation, as a share of the seconds, that spells add to the least of several runs.

    Args:
      history: probes of the core; the request that was measured is the end of it.
      span_s: how long the request took.

    Returns:
      The share for which an interval of 1.96 * sqrt(2) deviations on both sides would have held COVERED of such
      measurements, made at any moment of the history; more where the history is short, 0 where there is none.
    """
    if not history.at_s:
        return 0.0
    first_s, last_s = history.at_s[0], history.at_s[-1]
    known_s = last_s - first_s
    unknown = UNKNOWN_SHARE * max(0.0, 1.0 - known_s / KNOWN_S)
    block_s = min(max(span_s, SHORTEST_S), max(SHORTEST_S, known_s / FEWEST_BLOCKS))
    own_s = history.low_s(last_s - block_s, last_s)
    step_s = max(0.0, known_s - block_s) / MOMENTS
    blocks_s = [history.low_s(at_s, at_s + block_s) for at_s in (first_s + k * step_s for k in range(MOMENTS + 1))]
    distances = sorted(abs(block_s / own_s - 1.0) for block_s in blocks_s if block_s is not None and own_s)
    if not distances:
        return unknown
    return max(unknown, distances[min(len(distances) - 1, int(COVERED * len(distances)))] / Z_PAIR)
