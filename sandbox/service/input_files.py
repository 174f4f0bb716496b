"""Edge: inputs of tests that are too large for messages, as files under their SHA-256, within a bound.

A file comes in parts and is never held in memory. The least recently uploaded ones make room for new ones: whoever
uploaded one still has it.
"""

import collections
import hashlib
import os
import pathlib
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator

from sandbox.protocol import StoredInput, Suite, require
from sandbox.service.suites import UnknownSuite

PART_BYTES = 1 << 20


def parts_of(path: str | pathlib.Path) -> Iterator[bytes]:
    """Yield the content of a file in parts of at most PART_BYTES; an empty file has one empty part."""
    with open(path, "rb") as file:
        yield file.read(PART_BYTES)
        while part := file.read(PART_BYTES):
            yield part


def stored_input(path: str | pathlib.Path) -> StoredInput:
    """Return the name of a file's content, which is read in parts.

    Raises:
      OSError: it cannot be read.
    """
    size_bytes = os.stat(path).st_size
    digest = hashlib.sha256()
    for part in parts_of(path):
        digest.update(part)
    return StoredInput(digest.hexdigest(), size_bytes)


def require_size(size_bytes: int, *, largest_bytes: int) -> None:
    """Refuse an input that is larger than what the backend has room for."""
    require(size_bytes <= largest_bytes, "input", f"{size_bytes} bytes", f"at most {largest_bytes} bytes")


class _Writing:
    """A file on its way in, under a name of its own until its content is known."""

    def __init__(self, directory: str, *, largest_bytes: int) -> None:
        self._largest_bytes = largest_bytes
        self._file = tempfile.NamedTemporaryFile(dir=directory, delete=False)  # noqa: SIM115
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    def add(self, part: bytes) -> None:
        self.size_bytes += len(part)
        require_size(self.size_bytes, largest_bytes=self._largest_bytes)
        self._digest.update(part)
        self._file.write(part)

    def end(self, sha256: str) -> None:
        """Close the file, which from now on is called by its content."""
        self._file.close()
        found = self._digest.hexdigest()
        require(sha256 == found, "sha256", sha256, f"{found}, the digest of what was sent")
        os.replace(self._file.name, os.path.join(os.path.dirname(self._file.name), sha256))

    def drop(self) -> None:
        self._file.close()
        pathlib.Path(self._file.name).unlink(missing_ok=True)


class InputFiles:
    """At most `most_bytes` of files, and always the newest; safe to use from several threads."""

    def __init__(self, *, most_bytes: int, largest_bytes: int) -> None:
        """Hold nothing yet; the directory is made when the first file comes.

        Args:
          most_bytes: of all files together.
          largest_bytes: of one.
        """
        self._most_bytes = most_bytes
        self._largest_bytes = largest_bytes
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._held: collections.OrderedDict[str, int] = collections.OrderedDict()
        self._lock = threading.Lock()

    def put(self, path: str | pathlib.Path) -> StoredInput:
        """Copy a file, unless its content is held already; refuse one that is too large before it is read."""
        require_size(os.stat(path).st_size, largest_bytes=self._largest_bytes)
        stored = stored_input(path)
        if not self._renew(stored.sha256):
            writing = self._write()
            try:
                for part in parts_of(path):
                    writing.add(part)
                writing.end(stored.sha256)
            except BaseException:
                writing.drop()
                raise
            self._hold(stored.sha256, writing.size_bytes)
        return stored

    async def receive(self, sha256: str, parts: AsyncIterator[bytes]) -> StoredInput:
        """Take a file as it comes over the network.

        Raises:
          InvalidRequestError: it is too large, or its content has another digest.
        """
        writing = self._write()
        try:
            async for part in parts:
                writing.add(part)
            writing.end(sha256)
        except BaseException:
            writing.drop()
            raise
        self._hold(sha256, writing.size_bytes)
        return StoredInput(sha256, writing.size_bytes)

    def path_of(self, stored: StoredInput) -> str:
        """Return where a file lies; raise UnknownSuite where it is not held."""
        with self._lock:
            is_held = stored.sha256 in self._held
        if not is_held or self._directory is None:
            raise UnknownSuite(f"suite.inputs: {stored.sha256}: expected an uploaded input: upload it first")
        return os.path.join(self._directory.name, stored.sha256)

    def require_all(self, suite: Suite) -> None:
        """Raise UnknownSuite where the suite names a file that is not held."""
        for stored in suite.inputs:
            if isinstance(stored, StoredInput):
                self.path_of(stored)

    def close(self) -> None:
        """Remove all files."""
        with self._lock:
            self._held.clear()
            if self._directory:
                self._directory.cleanup()
                self._directory = None

    def _write(self) -> _Writing:
        with self._lock:
            if self._directory is None:
                self._directory = tempfile.TemporaryDirectory(prefix="sandbox-inputs-")
            return _Writing(self._directory.name, largest_bytes=self._largest_bytes)

    def _renew(self, sha256: str) -> bool:
        with self._lock:
            if sha256 in self._held:
                self._held.move_to_end(sha256)
            return sha256 in self._held

    def _hold(self, sha256: str, size_bytes: int) -> None:
        with self._lock:
            self._held[sha256] = size_bytes
            self._held.move_to_end(sha256)
            while sum(self._held.values()) > self._most_bytes and len(self._held) > 1:
                oldest, _ = self._held.popitem(last=False)
                if self._directory:
                    pathlib.Path(self._directory.name, oldest).unlink(missing_ok=True)
