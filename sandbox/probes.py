"""Edge: runs programs of known length through a pool from time to time, and says when their seconds have moved."""

import asyncio
import logging

from sandbox import health, pool
from sandbox.protocol import RunRequest, Suite, Verdict

_LOG = logging.getLogger(__name__)
REPEATS = 3
SUITE = Suite(inputs=tuple(f"{n}\n" for n in health.PROBE_LOOPS), expected=tuple(f"{n}\n" for n in health.PROBE_LOOPS))


class Sentinel:
    """Remembers the probes' first seconds and compares the newest with them."""

    def __init__(self, workers: pool.Pool) -> None:
        self._workers = workers
        self._first_s: tuple[float, ...] | None = None
        self._newest_s: tuple[float, ...] | None = None

    async def watch(self, *, every_s: float) -> None:
        """Probes for ever; a full queue skips a turn."""
        while True:
            try:
                await self.probe()
            except pool.PoolFull:
                _LOG.info("the queue is full: probe skipped")
            await asyncio.sleep(every_s)

    async def probe(self) -> None:
        """One measurement; a probe that does not succeed says nothing about seconds and is only logged."""
        sha256 = self._workers.upload(SUITE)
        request = RunRequest(health.PROBE_PROGRAM, sha256, repeats=REPEATS)
        answer = await asyncio.wrap_future(self._workers.submit(request))
        if any(result.verdict is not Verdict.SUCCESS for result in answer.results):
            _LOG.warning("a probe did not succeed: %s", [str(result.verdict) for result in answer.results])
            return
        self._newest_s = tuple(result.wall_s for result in answer.results)
        self._first_s = self._first_s or self._newest_s
        drift = self.drift()
        if drift.is_alarming:
            _LOG.warning("durations have drifted: now = %.3f * then %+.4f s", drift.slope, drift.offset_s)

    def drift(self) -> health.Drift | None:
        """How the newest probes compare with the first; None before the first."""
        return health.drift(self._first_s, self._newest_s) if self._first_s and self._newest_s else None

    def report(self) -> dict[str, object]:
        """The drift as plain values, empty before the first probe."""
        drift = self.drift()
        if drift is None:
            return {}
        return {"slope": drift.slope, "offset_s": drift.offset_s, "is_alarming": drift.is_alarming}
