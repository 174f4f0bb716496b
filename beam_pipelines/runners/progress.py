"""Edge: progress on standard error: a bar with rate and time left on a terminal, sparse lines elsewhere.

A pipeline streams problems through all stages. Line and bar say how many of all problems are done (kept by the last
stage or rejected by any), executions a second and the time left; the bar also names the stage at work.
Counts are those of this process; a distributed runner has views of its own.
"""

import sys
import threading
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

# Between two lines: a quarter of what the build has taken so far, within these.
LEAST_GAP_S, MOST_GAP_S = 5.0, 60.0


class StageProgress:
    """Counts what the stages of this process did since the first one was set up; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, list[int]] = {}
        self._printed: dict[str, tuple[int, int]] = {}
        self._start = self._reported = time.monotonic()
        self._executions = 0.0
        self._last_stage = ""
        self._done = self._expected = 0
        self._bar: ProgressBar | None = None

    def expect(self, problems: int, *, last_stage: str) -> None:
        """Start counting towards a number of problems; on a terminal a bar shows them from now on.

        Args:
          problems: how many the source has.
          last_stage: a problem that this stage keeps is done.
        """
        with self._lock:
            self._last_stage, self._done, self._executions = last_stage, 0, 0.0
            self._expected = problems
            self._start = time.monotonic()
            self._bar = ProgressBar(problems) if sys.stderr.isatty() else None

    def close(self) -> None:
        """Take the bar off the terminal."""
        with self._lock:
            if self._bar:
                self._bar.close()
            self._bar = None

    def register(self, stage: str) -> None:
        """Name a stage; the first stages to be set up start the clock."""
        with self._lock:
            if not self._counts:
                self._start = self._reported = time.monotonic()
            self._counts.setdefault(stage, [0, 0])

    def add(self, stage: str, *, is_kept: bool, executions: float = 0.0) -> None:
        """Count one problem that a stage kept or rejected.

        Args:
          stage: a registered stage.
          is_kept: whether it kept the problem.
          executions: what was executed for that.
        """
        with self._lock:
            self._counts[stage][0 if is_kept else 1] += 1
            self._executions += executions
            self._done += not is_kept or stage == self._last_stage
            now = time.monotonic()
            elapsed_s = max(1e-9, now - self._start)
            if self._bar:
                self._bar.update(self._done, stage=stage, executions_per_s=self._executions / elapsed_s)
            elif self._done and now - self._reported >= min(MOST_GAP_S, max(LEAST_GAP_S, elapsed_s / 4)):
                self._print(self._line(elapsed_s))

    def _line(self, elapsed_s: float) -> str:
        """Say how many problems are done, and of how many where that is known; then the time left as well."""
        rate = f"{self._executions / elapsed_s:.0f} executions/s"
        if self._expected < self._done:
            return f"{self._done} problems done, {rate}"
        left_s = elapsed_s / self._done * (self._expected - self._done)
        return f"{self._done} of {self._expected} problems done, {rate}, about {left_s / 60:.0f} min left"

    def finish(self, stage: str) -> None:
        """Print what a registered stage did, unless a bar shows it or it did nothing since it last said so."""
        with self._lock:
            kept, rejected = self._counts[stage]
            if not self._bar and self._printed.get(stage) != (kept, rejected):
                self._printed[stage] = (kept, rejected)
                self._print(f"{stage}: {kept + rejected} problems, {kept} kept, {rejected} rejected")

    def _print(self, text: str) -> None:
        self._reported = time.monotonic()
        print(f"[{self._reported - self._start:6.1f} s] {text}", file=sys.stderr, flush=True)


class ProgressBar:
    """One bar on a terminal: problems done of all, the stage at work, executions a second, time left."""

    def __init__(self, problems: int, *, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("problems"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[stage]}, {task.fields[rate]:.0f} executions/s"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
        )
        self._task = self._progress.add_task("", total=problems, stage="reading", rate=0.0)
        self._progress.start()

    def update(self, done: int, *, stage: str, executions_per_s: float) -> None:
        """Show how many problems are done, the stage at work and its rate."""
        self._progress.update(self._task, completed=done, stage=stage, rate=executions_per_s)

    def close(self) -> None:
        """Leave the last state of the bar on the terminal."""
        self._progress.stop()


PROGRESS = StageProgress()
