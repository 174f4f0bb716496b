"""The suites that a pool or a client has been given, by their hash, within a bound. Pure.

Whoever uploads a suite still has it or can make it again, so the least recently uploaded ones are dropped when all
together grow too large; the error of a request that names one says so. Uploading a suite that is held costs nothing and
counts as its newest upload.
"""

import collections
import threading

from sandbox.protocol import InvalidRequestError, RunRequest, Suite, require_fit


class UnknownSuite(InvalidRequestError):
    """The suite was never uploaded, or was forgotten to make room: upload it again."""


class Suites:
    """At most `characters` of suites, and always the newest one; safe to use from several threads."""

    def __init__(self, *, characters: int) -> None:
        self._most_characters = characters
        self._characters = 0
        self._held: collections.OrderedDict[str, Suite] = collections.OrderedDict()
        self._lock = threading.Lock()

    def put(self, suite: Suite) -> str:
        """Hold a suite, drop the oldest where there is no room, and return its hash."""
        with self._lock:
            if suite.sha256 not in self._held:
                self._held[suite.sha256] = suite
                self._characters += _size(suite)
            self._held.move_to_end(suite.sha256)
            while self._characters > self._most_characters and len(self._held) > 1:
                _, oldest = self._held.popitem(last=False)
                self._characters -= _size(oldest)
        return suite.sha256

    def of(self, request: RunRequest) -> Suite:
        """Return the suite of a request.

        Raises:
          UnknownSuite: it is not held.
          InvalidRequestError: it lacks a test that was asked for.
        """
        with self._lock:
            suite = self._held.get(request.suite_sha256)
        if suite is None:
            raise UnknownSuite(
                f"suite_sha256 = {request.suite_sha256!r}: expected the hash of an uploaded suite "
                "(the oldest are forgotten to make room: upload it again)"
            )
        require_fit(request, suite)
        return suite


def _size(suite: Suite) -> int:
    return sum(len(suite.text_of(test)) for test in range(len(suite.inputs))) + sum(
        len(text or "") for text in suite.expected
    )
