"""What the counts and the probes of a service say about its health. Pure.

The paper's failures came in short bursts that averages hide (Table 29), and as slow spells in which every verdict is
right and every duration is wrong (Figure 29). Bursts show as faults in single windows, slow spells only in programs
whose durations are known.
"""

from collections.abc import Mapping
from typing import NamedTuple

BURST_SHARE = 0.02
WINDOW_REQUESTS = 100


class Rates(NamedTuple):
    """The paper's three rates (Table 28), shares of requests that add up to 1.

    Attributes:
      service_only: settled by the service alone.
      fallback: recovered by the fallback on the client's machine.
      unresolved: settled by neither.
    """

    service_only: float
    fallback: float
    unresolved: float


def rates(counts: Mapping[str, int]) -> Rates:
    """Compute rates from the counts `requests`, `unsettled` and `recovered`; (1, 0, 0) before the first request."""
    requests = max(1, counts.get("requests", 0))
    unsettled, recovered = counts.get("unsettled", 0), counts.get("recovered", 0)
    return Rates(1.0 - unsettled / requests, recovered / requests, (unsettled - recovered) / requests)


def any_failure_share(failure_share: float, runs: int) -> float:
    """Compute the probability that at least one of `runs` independent runs fails: 1 - (1 - f)^n (App. C.5)."""
    return 1.0 - (1.0 - failure_share) ** runs


class Windows(NamedTuple):
    """Requests in windows of equal size, one after the other, counted as they come; bursts show in single windows.

    A window is a burst when more than BURST_SHARE of its requests were not settled.

    Attributes:
      size: requests in a window.
      asked: requests in the open window.
      unsettled: those of them that were not settled.
      closed: windows before the open one.
      bursts: those of them that were bursts.
      was_burst: whether the newest closed window was a burst.
    """

    size: int = WINDOW_REQUESTS
    asked: int = 0
    unsettled: int = 0
    closed: int = 0
    bursts: int = 0
    was_burst: bool = False

    def after(self, is_unsettled: bool) -> "Windows":
        """Return the counts after one more request."""
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
    """Return what was wrong with the service when it measured: `burst`, `drift`, `burst+drift`, or "" for nothing."""
    return measured_under.get("degraded", "")
