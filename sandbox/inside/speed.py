"""Inside the isolation boundary: how fast this core is, moment by moment, with and without requests.

A shared host has slow spells that outlast a request. What one request cannot see of them the probes between requests
can, so the runner also takes them while it waits; together they cost less than one percent of a core.
"""

import select
import time

from sandbox.inside import clocks

EVERY_S = 0.25
# After so long without a request probes become rare.
ATTENTIVE_S, RARELY_S = 60.0, 2.0
MOST = 256
# While a run waits for the core to be itself again.
RETRY_S = 0.02


class SpeedLog:
    """Takes probes and keeps them until they are collected."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, float]] = []
        self._last_at_s = 0.0

    def probe(self) -> float:
        """Take a probe now and return its seconds."""
        probe_s = clocks.probe()
        self._last_at_s = time.monotonic()
        self._taken.append((self._last_at_s, probe_s))
        return probe_s

    def probe_if_due(self) -> None:
        """Take a probe unless the last one is younger than EVERY_S."""
        if time.monotonic() - self._last_at_s >= EVERY_S:
            self.probe()

    def probe_until_readable(self, descriptor: int) -> None:
        """Wait until there is something to read, and take probes meanwhile."""
        idle_since_s = time.monotonic()
        while not select.select([descriptor], [], [], self._pause_s(idle_since_s))[0]:
            self.probe()

    def probe_until_calm(self, *, below_s: float, patience_s: float) -> float:
        """Take probes until one takes at most `below_s`, or for `patience_s`; return the seconds of the last one."""
        deadline_s = time.monotonic() + patience_s
        while (probe_s := self.probe()) > below_s and time.monotonic() < deadline_s:
            time.sleep(RETRY_S)
        return probe_s

    def collect(self) -> list[tuple[float, float]]:
        """Return the moments (`time.monotonic`) and seconds of all probes since the last call, and forget them."""
        taken, self._taken = self._taken[-MOST:], []
        return taken

    def _pause_s(self, idle_since_s: float) -> float:
        return EVERY_S if time.monotonic() - idle_since_s < ATTENTIVE_S else RARELY_S
