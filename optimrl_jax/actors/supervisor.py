"""Edge: the actors that a learner has started itself, as threads or as processes: who is lost is replaced.

An actor that the caller can mend (a UserError, exit code 2) ends the run at once; one that is lost for any other reason
is replaced, up to a bound of losses in a row without a group in between.
"""

import concurrent.futures
import logging
import subprocess
import typing
from collections.abc import Callable, Collection

from optimrl_jax.errors import EXIT_USER_ERROR, UserError

_LOG = logging.getLogger(__name__)
MOST_LOST_IN_A_ROW = 5
END_S = 5.0


class ActorsLostError(RuntimeError):
    """Actor after actor is lost before it answers anything: replacing them does not help."""


class Member(typing.Protocol):
    """One actor that was started here."""

    name: str

    def loss(self) -> str:
        """Why it is lost, in a few words; empty while it works or once it has ended as it should."""

    def stop(self) -> None: ...


class ThreadMember:
    """An actor in a thread of this process."""

    def __init__(self, name: str, target: Callable[[], None]) -> None:
        self.name = name
        self._threads = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=name)
        self._ended = self._threads.submit(target)
        self._threads.shutdown(wait=False)

    def loss(self) -> str:
        """Raises what the caller can mend, for which UserError stands."""
        error = self._ended.exception() if self._ended.done() else None
        if isinstance(error, UserError):
            raise error
        return "" if error is None else f"{type(error).__name__}: {error}"

    def stop(self) -> None:
        concurrent.futures.wait([self._ended], timeout=END_S)


class ProcessMember:
    """An actor in a process of its own."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(command)

    def loss(self) -> str:
        """Raises UserError where the process says that the caller can mend it."""
        code = self._process.poll()
        if code == EXIT_USER_ERROR:
            raise UserError(f"{self.name} ended with exit code {EXIT_USER_ERROR}, for the reason above")
        return "" if not code else f"exit code {code}"

    def stop(self) -> None:
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Crew:
    """As many actors as were asked for: `hire(name, place)` starts the one of a place (0, 1, ...)."""

    def __init__(self, hire: Callable[[str, int], Member], *, size: int, on_loss: Callable[[str], int]) -> None:
        self._hire = hire
        self._size = size
        self._on_loss = on_loss
        self._members: list[Member] = []
        self._in_a_row = 0
        self._answered = 0
        self.lost = 0

    def __len__(self) -> int:
        return len(self._members)

    def names(self) -> set[str]:
        return {member.name for member in self._members}

    def start(self) -> None:
        self._members = [self._hire(f"actor-{place}", place) for place in range(self._size)]

    def check(self, *, silent: Collection[str], answered: int) -> None:
        """Replaces who has ended or is among the `silent`; `answered` groups have come since the start.

        Raises ActorsLostError after too many losses in a row, UserError for what the caller can mend.
        """
        for place, member in enumerate(self._members):
            reason = member.loss() or ("no sign of life" if member.name in silent else "")
            if reason:
                self._replace(place, member, reason=reason, answered=answered)

    def stop(self) -> None:
        """Waits a little for each to end, then ends it."""
        for member in self._members:
            member.stop()

    def _replace(self, place: int, member: Member, *, reason: str, answered: int) -> None:
        self.lost += 1
        self._in_a_row = 1 if answered > self._answered else self._in_a_row + 1
        self._answered = answered
        if self._in_a_row >= MOST_LOST_IN_A_ROW:
            raise ActorsLostError(f"{self._in_a_row} actors were lost one after the other; the last by {reason}")
        problems = self._on_loss(member.name)
        _LOG.warning("%s is lost (%s): replaced, %d problems handed out again", member.name, reason, problems)
        if reason == "no sign of life":
            member.stop()
        self._members[place] = self._hire(f"actor-{place}.{self.lost}", place)
