"""What earlier requests for the same program say about how sure this one is. Pure.

A request sees its own runs, and how far another one would lie from it has to be foretold from them. Where the same
program was measured on the same tests a while ago, that need not be foretold: the pairs of this request and each of
those show it. Programs differ in this by a factor of four (what lives from the processor alone repeats far better than
what lives from memory), which nothing within one request tells.
"""

import collections
import dataclasses
import hashlib
import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sandbox.protocol import RunRequest, TestResult

# As many pairs as what was foretold weighs, the most that they may weigh, and the square that no pair exceeds: one
# request that met a slow spell says little about the others.
FORETOLD_PAIRS, MOST_PAIRS, MOST_SQUARE = 8, 80, 16.0
# A host changes: only requests of the last minutes count, and of one program only the last ones.
KEPT_S, KEPT_REQUESTS = 600.0, 16
# Estimates of tests that are kept in all; the program that was measured longest ago makes room.
MOST_ESTIMATES = 200_000


class Estimate(NamedTuple):
    """Seconds of a test and their deviation, as one request alone foretells it."""

    wall_s: float
    wall_std_s: float


Estimates = Mapping[int, Estimate]


class _Measured(NamedTuple):
    at_s: float
    estimates: Estimates


class EarlierRequests:
    """What the last requests for each program found; safe to use from several threads."""

    def __init__(self, *, most_estimates: int = MOST_ESTIMATES) -> None:
        self._most_estimates = most_estimates
        self._kept = 0
        self._programs: collections.OrderedDict[bytes, collections.deque[_Measured]] = collections.OrderedDict()
        self._lock = threading.Lock()

    def informed(self, results: Sequence[TestResult], request: RunRequest, *, at_s: float) -> tuple[TestResult, ...]:
        """Return results whose deviations know of earlier requests for the same program, and keep these for later ones.

        Args:
          results: of `request`, with the deviations that it foretells alone.
          request: what was asked.
          at_s: when it was answered, on a clock that never steps.

        Returns:
          Results in the same order; the seconds are the same, and so is all where the program is new.
        """
        now = {result.test: Estimate(result.wall_s, result.wall_std_s) for result in results if result.wall_std_s > 0}
        if not now:
            return tuple(results)
        key = _program_digest(request)
        with self._lock:
            earlier = [past.estimates for past in self._programs.get(key, ()) if at_s - past.at_s <= KEPT_S]
            self._keep(key, _Measured(at_s, now))
        factor = deviation_factor(now, earlier)
        return tuple(dataclasses.replace(result, wall_std_s=factor * result.wall_std_s) for result in results)

    def _keep(self, key: bytes, measured: _Measured) -> None:
        """Keep one more request; drop the oldest one of its program, and the programs measured longest ago."""
        own = self._programs.setdefault(key, collections.deque())
        self._programs.move_to_end(key)
        own.append(measured)
        self._kept += len(measured.estimates)
        if len(own) > KEPT_REQUESTS:
            self._kept -= len(own.popleft().estimates)
        while self._kept > self._most_estimates and len(self._programs) > 1:
            _, oldest = self._programs.popitem(last=False)
            self._kept -= sum(len(past.estimates) for past in oldest)


def _program_digest(request: RunRequest) -> bytes:
    """Address what is measured: programs may be of megabytes, and many of them are kept."""
    asked = (request.program, request.language, sorted(request.files.items()), request.suite_sha256)
    return hashlib.sha256(repr(asked).encode()).digest()


def deviation_factor(now: Estimates, earlier: Iterable[Estimates]) -> float:
    """Compute by how much wider or narrower than foretold the deviations of a request have to be.

    Args:
      now: estimates of the request by test.
      earlier: those of each earlier request for the same program.

    Returns:
      The root of the mean square of distances over what was foretold for them, drawn towards 1 as if FORETOLD_PAIRS
      more pairs lay as far apart as foretold; in [0.3, 3.9], and 1 where no test was measured before.
    """
    squares = [
        min(MOST_SQUARE, (then.wall_s - now[test].wall_s) ** 2 / (then.wall_std_s**2 + now[test].wall_std_s ** 2))
        for past in earlier
        for test, then in past.items()
        if test in now
    ]
    if not squares:
        return 1.0
    weight = min(len(squares), MOST_PAIRS)
    mean = math.fsum(squares) / len(squares)
    return math.sqrt((FORETOLD_PAIRS + weight * mean) / (FORETOLD_PAIRS + weight))
