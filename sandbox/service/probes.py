"""Edge: runs programs of known work through a pool from time to time, and says when their seconds have moved."""

import asyncio
import json
import logging
import pathlib

from sandbox.protocol import RunRequest, Suite, Verdict, require
from sandbox.service import pool
from sandbox.timing import drift

_LOG = logging.getLogger(__name__)
REPEATS = 3
_LINES = tuple(f"{loops}\n" for loops in drift.PROBE_LOOPS)
SUITE = Suite(inputs=_LINES, expected=_LINES)


class Sentinel:
    """Probes a pool, and stamps on its answers what the probes and the faults say about them.

    Args:
      workers: the pool.
      baseline: file of the probes' first seconds, read where it exists and written otherwise. With it the map starts on
        the day on which the file was made, without it at this server's start.

    Attributes:
      watch: what the probes have shown so far.
      probes: number of probes that succeeded.
      degraded_probes: number of those whose seconds had left the band.

    Raises:
      ValueError: `baseline` was not written by a server.
    """

    def __init__(self, workers: pool.Pool, *, baseline: pathlib.Path | None = None) -> None:
        self._workers = workers
        self._baseline = baseline
        self.watch = drift.Watch(first_s=_read(baseline) if baseline and baseline.exists() else ())
        self.probes = 0
        self.degraded_probes = 0

    async def probe_for_ever(self, *, every_s: float) -> None:
        """Probe every `every_s` seconds until cancelled; a turn on which the queue is full is skipped."""
        while True:
            try:
                await self.probe()
            except pool.PoolFull:
                _LOG.info("the queue is full: probe skipped")
            await asyncio.sleep(every_s)

    async def probe(self) -> None:
        """Measure once; a probe that does not succeed says nothing about seconds and is only logged."""
        sha256 = self._workers.upload(SUITE)
        request = RunRequest(drift.PROBE_PROGRAM, sha256, repeats=REPEATS)
        answer = await asyncio.wrap_future(self._workers.submit(request))
        if any(result.verdict is not Verdict.SUCCESS for result in answer.results):
            _LOG.warning("a probe did not succeed: %s", [str(result.verdict) for result in answer.results])
            return
        self.note(tuple(result.wall_s for result in answer.results))

    def note(self, newest_s: tuple[float, ...]) -> None:
        """Add one more probe, given its seconds for each of drift.PROBE_LOOPS."""
        before, self.watch = self.watch, self.watch.after(newest_s)
        self.probes += 1
        self.degraded_probes += self.watch.is_degraded
        if self._baseline and self.watch.first_s and not before.first_s:
            content = {"loops": drift.PROBE_LOOPS, "seconds": self.watch.first_s}
            self._baseline.write_text(json.dumps(content) + "\n")
        if self.watch.current != before.current:
            found = self.watch.current
            _LOG.warning("%s: seconds now = %.3f * then %+.4f, until accepted", found.version, *found)
        elif self.watch.is_degraded and not before.is_degraded and self.watch.newest:
            _LOG.warning("the newest probe has left the band: now = %.3f * then %+.4f s", *self.watch.newest)

    def accept(self, version: str) -> None:
        """End the alarm of the current map; raise InvalidRequestError for any other version."""
        current = self.watch.current.version
        require(version == current, "version", version, f"the current one, {current!r}")
        self.watch = self.watch._replace(is_accepted=True)

    @property
    def degraded_by(self) -> tuple[str, ...]:
        """What makes present seconds doubtful: `burst`, `drift`, both or nothing."""
        signs = {"burst": self._workers.windows.is_degraded, "drift": self.watch.is_degraded}
        return tuple(name for name, is_there in signs.items() if is_there)

    def stamp(self) -> dict[str, str]:
        """Return what to add to the `measured_under` of an answer: the current map, and what makes it doubtful."""
        degraded = {"degraded": "+".join(self.degraded_by)} if self.degraded_by else {}
        return self.watch.current.stamp() | degraded

    def report(self) -> dict[str, object]:
        """Return the current map and the newest probe as plain values; `newest` is None before there was one."""
        current, newest = self.watch.current, self.watch.newest
        return {
            **current._asdict(),
            "version": current.version,
            "is_accepted": self.watch.is_accepted,
            "newest": newest._asdict() if newest else None,
            "degraded_by": self.degraded_by,
        }


def _read(path: pathlib.Path) -> tuple[float, ...]:
    try:
        content = json.loads(path.read_text())
        loops, seconds = content["loops"], tuple(map(float, content["seconds"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"baseline = {str(path)!r}: expected a file that a server wrote ({error!r})") from None
    is_ours = loops == list(drift.PROBE_LOOPS) and len(seconds) == len(loops) and min(seconds) > 0
    if not is_ours:
        raise ValueError(f"baseline = {str(path)!r}: expected seconds of the loops {list(drift.PROBE_LOOPS)}")
    return seconds
