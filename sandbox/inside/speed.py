"""Inside the isolation boundary: how fast this core is, moment by moment, with and without requests.

A shared host has slow spells that outlast a request. What one request cannot see of them the probes between requests
can, so the runner also takes them while it waits; together they cost less than one percent of a core.
"""

import select
import time

EVERY_S = 0.25
# After so long without a request probes become rare.
ATTENTIVE_S, RARELY_S = 60.0, 2.0
MOST = 256
# While a run waits for the core to be itself again.
RETRY_S = 0.02
# What a probe does: reads and adds up. A loop that makes an object at every step, as one over a range does, takes one
# of two times that differ by a sixth, with the place in memory which that object happens to get.
_TABLE = {number: number for number in range(500)}
_KEYS = [*_TABLE] * 20
PROBE_LOOPS = 3


def probe() -> float:
    """Time fixed work, to tell how fast this core is at the moment.

    Returns:
      This thread's processor seconds, about 0.2 ms; the least of PROBE_LOOPS times: an interrupt in one of them is no
      slow core.
    """
    found_s = []
    for _ in range(PROBE_LOOPS):
        start_s = time.thread_time()
        sum(map(_TABLE.__getitem__, _KEYS))
        found_s.append(time.thread_time() - start_s)
    return min(found_s)


class SpeedLog:
    """Takes probes and keeps them until they are collected."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, float]] = []
        self._last_at_s = 0.0

    def probe(self) -> float:
        """Take a probe now and return its seconds."""
        probe_s = probe()
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
