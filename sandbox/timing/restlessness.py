"""How restless a host is: what slow spells, seen by probes in the last minute, do to a measurement like this. Pure.

A request sees a few seconds of its host. Whether another one, in the next minute, would find it as fast depends on
spells that outlast both, and of those only the probes between requests can tell. So the last minute is cut into blocks
as long as the request. The low probes of a block say how fast the core then was at its best, as the smallest of several
runs does; how far blocks lie from the request's own is how far fresh seconds will lie from its seconds. The best of a
few probes is slower than the best of many: a block is never of few, or it would call a calm host restless.
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
# One this much above them shows a spell, of the kind that may outlast a request; less is how cores flicker.
SPELL_SHARE = 0.25
# A block holds as many probes as eight seconds without a request do.
SHORTEST_S, FEWEST_PROBES, LOW_SHARE = 1.0, 32, 0.1
# That of the request itself may be of fewer: nothing else tells how it found the core.
FEWEST_OWN = 3
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

    @property
    def spell_s(self) -> float:
        """Seconds above which a probe shows a core in a slow spell; infinite before the first probe."""
        return (1 + SPELL_SHARE) * self.best_s if self.probe_s else math.inf

    def low_s(self, begin_s: float, end_s: float, *, fewest: int = FEWEST_PROBES) -> float:
        """Return a low quantile of the probes between two moments, or of as many as `fewest` from the first one on.

        Near its end the history has fewer than that: those before stand in for them.
        """
        first, last = (bisect.bisect_left(self.at_s, moment_s) for moment_s in (begin_s, end_s))
        last = min(len(self.at_s), max(last, first + fewest))
        found_s = sorted(self.probe_s[max(0, min(first, last - fewest)) : last])
        return found_s[int(LOW_SHARE * (len(found_s) - 1))]


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
    block_s = min(max(span_s, SHORTEST_S), known_s)
    # Up to the last probe, and with it.
    own_s = history.low_s(last_s - block_s, math.inf, fewest=FEWEST_OWN)
    step_s = (known_s - block_s) / MOMENTS
    blocks_s = [history.low_s(at_s, at_s + block_s) for at_s in (first_s + k * step_s for k in range(MOMENTS + 1))]
    distances = sorted(abs(block_s / own_s - 1.0) for block_s in blocks_s)
    return max(unknown, distances[min(len(distances) - 1, int(COVERED * len(distances)))] / Z_PAIR)
