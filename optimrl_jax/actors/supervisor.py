"""Edge: supervises the actors that a learner starts itself, as threads or processes, and replaces those that fail.

A failure that the user can fix (UserError, exit code 2) ends the run at once. After any other a new actor is started,
up to a bound on failures in a row without a single group in between.
"""

import concurrent.futures
import logging
import subprocess
import typing
from collections.abc import Callable, Collection

from optimrl_jax.jobs.errors import EXIT_USER_ERROR, UserError

_LOG = logging.getLogger(__name__)
MAX_FAILURES_IN_A_ROW = 5
STOP_S = 5.0


class ActorsLostError(RuntimeError):
    """Actor after actor failed before it submitted anything: replacing them does not help."""


class ActorHandle(typing.Protocol):
    """One actor that was started here, by the `name` that the learner knows it by.

    `stop` waits a few seconds for it to end, then ends it if it can.
    """

    name: str

    def failure(self) -> str:
        """Say in a few words why the actor failed; empty while it works and after an orderly end."""

    def stop(self) -> None: ...


class ThreadActor:
    """An actor in a thread of this process.

    Args:
      name: of the actor and its thread.
      target: runs the actor until its end.
    """

    def __init__(self, name: str, target: Callable[[], None]) -> None:
        self.name = name
        self._threads = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=name)
        self._ended = self._threads.submit(target)
        self._threads.shutdown(wait=False)

    def failure(self) -> str:
        """See `ActorHandle.failure`; a UserError of the thread is raised, because replacing it would not help."""
        error = self._ended.exception() if self._ended.done() else None
        if isinstance(error, UserError):
            raise error
        return "" if error is None else f"{type(error).__name__}: {error}"

    def stop(self) -> None:
        """Wait `STOP_S` seconds for the thread to end; a thread cannot be killed."""
        concurrent.futures.wait([self._ended], timeout=STOP_S)


class ProcessActor:
    """An actor in a process of its own.

    Args:
      name: of the actor.
      command: command line that starts it.
    """

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(command)

    def failure(self) -> str:
        """See `ActorHandle.failure`; raises UserError where the exit code says that the user can fix it."""
        code = self._process.poll()
        if code == EXIT_USER_ERROR:
            raise UserError(f"{self.name} ended with exit code {EXIT_USER_ERROR}, for the reason above")
        return "" if not code else f"exit code {code}"

    def stop(self) -> None:
        """Wait `STOP_S` seconds for the process to end, then kill it."""
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class ActorSupervisor:
    """Keeps `size` actors running.

    Args:
      spawn: (name, place) -> handle; starts the actor of a place 0, 1, ...
      size: number of actors.
      on_failure: called with the name of a failed actor; returns how many problems were queued again.

    Attributes:
      lost: actors that failed since the start.
    """

    def __init__(
        self, spawn: Callable[[str, int], ActorHandle], *, size: int, on_failure: Callable[[str], int]
    ) -> None:
        self._spawn = spawn
        self._size = size
        self._on_failure = on_failure
        self._handles: list[ActorHandle] = []
        self._failures_in_a_row = 0
        self._answered = 0
        self.lost = 0

    def __len__(self) -> int:
        return len(self._handles)

    def names(self) -> set[str]:
        """Return the names of the actors that are running now."""
        return {handle.name for handle in self._handles}

    def start(self) -> None:
        """Spawn the actor of every place."""
        self._handles = [self._spawn(f"actor-{place}", place) for place in range(self._size)]

    def check(self, *, silent: Collection[str], answered: int) -> None:
        """Replace the actors that have failed or fallen silent.

        Args:
          silent: names of the actors without a sign of life.
          answered: groups that have come since the start; new ones end a row of failures.

        Raises:
          ActorsLostError: after too many failures in a row.
          UserError: for a failure that the user can fix.
        """
        for place, handle in enumerate(self._handles):
            reason = handle.failure() or ("no sign of life" if handle.name in silent else "")
            if reason:
                self._replace(place, handle, reason=reason, answered=answered)

    def stop(self) -> None:
        """Stop every actor, giving each a few seconds to end."""
        for handle in self._handles:
            handle.stop()

    def _replace(self, place: int, handle: ActorHandle, *, reason: str, answered: int) -> None:
        self.lost += 1
        self._failures_in_a_row = 1 if answered > self._answered else self._failures_in_a_row + 1
        self._answered = answered
        if self._failures_in_a_row >= MAX_FAILURES_IN_A_ROW:
            raise ActorsLostError(
                f"{self._failures_in_a_row} actors were lost one after the other; the last by {reason}"
            )
        problems = self._on_failure(handle.name)
        _LOG.warning("%s is lost (%s): replaced, %d problems queued again", handle.name, reason, problems)
        if reason == "no sign of life":
            handle.stop()
        self._handles[place] = self._spawn(f"actor-{place}.{self.lost}", place)
