"""Edge: how far a job has come: a bar with rate and time left on a terminal, sparse lines elsewhere."""

import logging
import sys
import time
import types

import rich.console
import rich.progress

_LOG = logging.getLogger(__name__)
EVERY_S = 10.0


class _RateColumn(rich.progress.ProgressColumn):
    def render(self, task: rich.progress.Task) -> str:
        return f"{task.speed:.3g}/s" if task.speed else ""


class JobProgress:
    """A context that shows how many of a known number of parts are done.

    On a terminal it is a bar below what the job logs meanwhile. Elsewhere it is one line for the first part, one for
    the last, and at most one for every `every_s` seconds between them.

    Args:
      label: what is counted, such as "step".
      total: number of parts.
      done: parts that an earlier start has done.
      every_s: seconds between two lines where there is no terminal.
    """

    def __init__(self, label: str, total: int, *, done: int = 0, every_s: float = EVERY_S) -> None:
        self._label, self._total, self._first = label, total, done
        self._every_s = every_s
        self._started_s = time.monotonic()
        self._told_s = -float("inf")
        self._bar: rich.progress.Progress | None = None
        self._handlers: list[logging.StreamHandler] = []

    def __enter__(self) -> "JobProgress":
        if sys.stderr.isatty():
            self._bar = rich.progress.Progress(
                rich.progress.TextColumn(self._label),
                rich.progress.BarColumn(),
                rich.progress.MofNCompleteColumn(),
                _RateColumn(),
                rich.progress.TimeRemainingColumn(),
                rich.progress.TextColumn("{task.fields[text]}"),
                console=rich.console.Console(stderr=True),
            )
            self._task = self._bar.add_task(self._label, total=self._total, completed=self._first, text="")
            before = sys.stderr
            self._bar.start()
            # While it is live, rich stands in for sys.stderr; handlers still hold the stream from before.
            for handler in logging.getLogger().handlers:
                if isinstance(handler, logging.StreamHandler) and handler.stream is before:
                    handler.setStream(sys.stderr)
                    self._handlers.append(handler)
        return self

    def advance_to(self, done: int, text: str = "") -> None:
        """Show that so many parts are done.

        Args:
          done: parts done, those of earlier starts included.
          text: a few words on the last one.
        """
        if self._bar is not None:
            self._bar.update(self._task, completed=done, text=text)
            return
        now_s = time.monotonic()
        if done == self._total or now_s - self._told_s >= self._every_s:
            self._told_s = now_s
            rate = (done - self._first) / max(now_s - self._started_s, 1e-9)
            left = f"  {_duration((self._total - done) / rate)} left" if rate and done < self._total else ""
            _LOG.info("%s %d/%d  %s%s", self._label, done, self._total, text, left)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            for handler in self._handlers:
                handler.setStream(sys.stderr)


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    return f"{hours:.1f} h" if hours >= 2 else f"{minutes:.0f} min" if minutes >= 2 else f"{seconds:.0f} s"
