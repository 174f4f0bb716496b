"""What the counts and the probes of a service say about its health. Pure.

The paper's failures came in short bursts that averages hide (Table 29), and as slow spells in which every verdict is
right and every second is wrong (Figure 29): the first shows in faults of single windows, the second only in programs
whose seconds are known.
"""

from collections.abc import Mapping
from typing import NamedTuple

BURST_SHARE = 0.02
WINDOW_REQUESTS = 100


class Rates(NamedTuple):
    """The paper's three rates (Table 28), shares of requests that add up to 1.

    Settled by the service alone, recovered by the fallback on the client's machine, and settled by neither.
    """

    service_only: float
    fallback: float
    unresolved: float


def rates(counts: Mapping[str, int]) -> Rates:
    """Rates from `requests`, `unsettled` (by the service) and `recovered`; (1, 0, 0) before the first request."""
    requests = max(1, counts.get("requests", 0))
    unsettled, recovered = counts.get("unsettled", 0), counts.get("recovered", 0)
    return Rates(1.0 - unsettled / requests, recovered / requests, (unsettled - recovered) / requests)


def any_failure_share(failure_share: float, runs: int) -> float:
    """Probability that at least one of `runs` independent runs fails: 1 - (1 - f)^n (App. C.5)."""
    return 1.0 - (1.0 - failure_share) ** runs


class Windows(NamedTuple):
    """Requests in windows of `size`, one after the other, counted as they come: all that a burst needs to be seen.

    `asked` and `unsettled` are those of the open window, `closed` windows came before it and `bursts` of them were
    bursts, `was_burst` says whether the newest of them was.
    """

    size: int = WINDOW_REQUESTS
    asked: int = 0
    unsettled: int = 0
    closed: int = 0
    bursts: int = 0
    was_burst: bool = False

    def after(self, is_unsettled: bool) -> "Windows":
        """The counts after one more request."""
        now = self._replace(asked=self.asked + 1, unsettled=self.unsettled + is_unsettled)
        if now.asked < self.size:
            return now
        return Windows(self.size, closed=self.closed + 1, bursts=self.bursts + now._is_over, was_burst=now._is_over)

    @property
    def is_degraded(self) -> bool:
        """True from the request that makes a window a burst until a whole window was none."""
        return self.was_burst or self._is_over

    @property
    def _is_over(self) -> bool:
        return self.unsettled > BURST_SHARE * self.size


def degraded_by(measured_under: Mapping[str, str]) -> str:
    """What was wrong with the service when it measured: burst, drift, both, or nothing (empty)."""
    return measured_under.get("degraded", "")
