"""Tells whether a service's seconds have moved, and maps stored seconds to present ones. Pure.

Probes are programs of known work, measured again and again. Only *stored* durations are adapted: the probes' first and
present seconds give a map now = slope * then + offset_s, and whoever compares fresh seconds with stored ones puts the
stored ones through it first, as environments do with their own `calibration` (alpha, beta). Fresh seconds are never
touched. A short slow spell only marks answers as degraded; a shift that lasts becomes the service's current map, under
a version that every later answer names (App. C.12, the paper's future work).
"""

import hashlib
import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# Evenly spaced, so that no pair of sizes is all noise; the smallest run is little more than a start.
PROBE_LOOPS = (20_000, 400_000, 800_000, 1_200_000, 1_600_000)
PROBE_PROGRAM = "n = int(input())\nfor _ in range(n):\n    pass\nprint(n)\n"
SLOPE_SHARE = 0.15
OFFSET_S = 0.01
# Probes in a row that have to agree before they are believed.
SUSTAINED = 3


class AffineMap(NamedTuple):
    """The map between two clocks: seconds now = slope * seconds then + offset_s.

    Attributes:
      slope: seconds now per second then.
      offset_s: what is added to it, in seconds.
    """

    slope: float = 1.0
    offset_s: float = 0.0

    @property
    def is_alarming(self) -> bool:
        """True where the map has left the band around the identity that noise explains."""
        return abs(self.slope - 1.0) > SLOPE_SHARE or abs(self.offset_s) > OFFSET_S

    @property
    def version(self) -> str:
        """Name under which answers refer to this map."""
        if self == IDENTITY:
            return "identity"
        return f"drift-{hashlib.sha256(repr(tuple(self)).encode()).hexdigest()[:12]}"

    def stamp(self) -> dict[str, str]:
        """Return what an answer says of this map, in the form that `map_under` reads; nothing for the identity."""
        if self == IDENTITY:
            return {}
        return {"calibration": self.version, "slope": repr(self.slope), "offset_s": repr(self.offset_s)}

    def apply(self, then_s: Sequence[float]) -> tuple[float, ...]:
        """Map seconds of then to seconds of now, one by one."""
        return tuple(self.slope * seconds + self.offset_s for seconds in then_s)


IDENTITY = AffineMap()


def map_under(measured_under: Mapping[str, str]) -> AffineMap:
    """Read from an answer's stamp the map from stored seconds to its own; the identity where it names none."""
    return AffineMap(float(measured_under.get("slope", 1.0)), float(measured_under.get("offset_s", 0.0)))


def fit_affine_map(then_s: Sequence[float], now_s: Sequence[float]) -> AffineMap:
    """Fit the map between two measurements of the same programs, by the median slope of all pairs (Theil and Sen).

    One program of five may be off by any amount.

    Args:
      then_s: `[n]` seconds of the earlier measurement.
      now_s: `[n]` seconds of the later one, in the same order.

    Raises:
      StatisticsError: all of `then_s` are equal.
    """
    rises = [
        (late_now - early_now) / (late - early)
        for (early, early_now), (late, late_now) in itertools.combinations(zip(then_s, now_s, strict=True), 2)
        if late != early
    ]
    slope = statistics.median(rises)
    return AffineMap(slope, statistics.median(now - slope * then for then, now in zip(then_s, now_s, strict=True)))


class Watch(NamedTuple):
    """What a series of probes has shown so far.

    Attributes:
      first_s: the probes' seconds that stored durations belong to; empty until SUSTAINED probes were seen.
      recent: seconds of the newest probes, at most SUSTAINED of them, the newest last.
      current: the map that answers name.
      is_accepted: whether somebody has taken note of the current map.
    """

    first_s: tuple[float, ...] = ()
    recent: tuple[tuple[float, ...], ...] = ()
    current: AffineMap = IDENTITY
    is_accepted: bool = True

    def after(self, newest_s: Sequence[float]) -> "Watch":
        """Return the state after one more probe; the current map moves where all recent probes have left its band."""
        seen = self._replace(recent=(*self.recent, tuple(newest_s))[-SUSTAINED:])
        if len(seen.recent) < SUSTAINED:
            return seen
        # Disturbance only ever adds.
        lowest_s = tuple(map(min, zip(*seen.recent, strict=True)))
        if not self.first_s:
            return seen._replace(first_s=lowest_s)
        if not all(seen._departure(probe_s).is_alarming for probe_s in seen.recent):
            return seen
        return Watch(self.first_s, (lowest_s,), fit_affine_map(self.first_s, lowest_s), is_accepted=False)

    @property
    def newest(self) -> AffineMap | None:
        """The map from the first probes to the newest; None before there are any."""
        return fit_affine_map(self.first_s, self.recent[-1]) if self.first_s and self.recent else None

    @property
    def is_degraded(self) -> bool:
        """True while the newest probe lies outside the current map's band: present seconds belong to no known state."""
        return bool(self.first_s and self.recent) and self._departure(self.recent[-1]).is_alarming

    def _departure(self, probe_s: Sequence[float]) -> AffineMap:
        return fit_affine_map(self.current.apply(self.first_s), probe_s)
