"""Edge: plain progress lines on standard error: one for the whole pipeline now and then, one a stage at the end.

A pipeline streams problems through all stages, so the line names how many problems each stage has kept so far.
"""

import sys
import time

INTERVAL_S = 5.0


class StageProgress:
    """Counts what the stages of this process did since the first one was set up."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        self._printed: dict[str, tuple[int, int]] = {}
        self._start = self._reported = time.monotonic()

    def register(self, stage: str) -> None:
        """Names a stage; the first stages to be set up start the clock."""
        if not self._counts:
            self._start = self._reported = time.monotonic()
        self._counts.setdefault(stage, [0, 0])

    def add(self, stage: str, *, is_kept: bool) -> None:
        self._counts[stage][0 if is_kept else 1] += 1
        if time.monotonic() - self._reported >= INTERVAL_S:
            # Runners set stages up from the last to the first, and later stages have kept no more than earlier ones.
            place = {name: index for index, name in enumerate(self._counts)}
            names = sorted(place, key=lambda name: (-self._counts[name][0], -place[name]))
            self._print(", ".join(f"{name} {self._counts[name][0]}" for name in names if self._counts[name][0]))

    def finish(self, stage: str) -> None:
        """Prints what a stage did, unless it did nothing since it last said so."""
        kept, rejected = self._counts[stage]
        if self._printed.get(stage) != (kept, rejected):
            self._printed[stage] = (kept, rejected)
            self._print(f"{stage}: {kept + rejected} problems, {kept} kept, {rejected} rejected")

    def _print(self, text: str) -> None:
        self._reported = time.monotonic()
        print(f"[{self._reported - self._start:6.1f} s] {text}", file=sys.stderr, flush=True)


PROGRESS = StageProgress()
