"""Edge: keeps the answers to run requests by content hash, so that nothing that was measured is measured again.

A SQLite file that several processes may use at once. A killed writer loses at most its last transaction. Answers in
which the sandbox itself failed are never kept. A job can do without its store: a file that is no database is renamed,
an answer that cannot be read is measured again, a disk that is nearly full is left to what the job has to write, and a
full one ends the storing of answers, not the job.
"""

import logging
import pathlib
import shutil
import sqlite3
import threading

from sandbox import protocol

BUSY_S = 60.0
# Bounded by size, because answers that carry outputs are a thousand times as large as others. Without outputs an answer
# of a hundred tests takes about a kilobyte: room for a hundred million of them.
MOST_BYTES = 200 << 30
# What a job writes beside its answers, and could not write where these had taken the last of the disk.
LEFT_BYTES = 256 << 20
PRUNED_EVERY = 1_000
PRUNED_SHARE = 16

_LOG = logging.getLogger(__name__)


class Store:
    """Answers by the SHA-256 of their request, in a file; safe to use from several threads and processes.

    Args:
      path: the file, made where it does not exist. One that is no database is renamed to `*.broken`.
      most_bytes: size from which on the oldest answers make room.
      left_bytes: of the disk; while less is free, no answer is kept.

    Raises:
      OSError: the file cannot be opened or made.
    """

    def __init__(self, path: str | pathlib.Path, *, most_bytes: int = MOST_BYTES, left_bytes: int = LEFT_BYTES) -> None:
        self._path = pathlib.Path(path)
        self._most_bytes = most_bytes
        self._left_bytes = left_bytes
        self._lock = threading.Lock()
        self._is_kept = True
        self._has_warned = False
        self._added = 0
        try:
            self._database = _opened(self._path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise OSError(f"{path}: {error}") from error
            aside = self._path.with_name(self._path.name + ".broken")
            self._path.replace(aside)
            _LOG.warning("%s: %s: put aside as %s, answers are kept anew", path, error, aside.name)
            self._database = _opened(self._path)

    def get(self, request: protocol.RunRequest) -> protocol.RunResult | None:
        """Return the stored answer, or None where this exact request has none or it cannot be read."""
        try:
            with self._lock:
                cursor = self._database.execute("SELECT answer FROM answers WHERE request = ?", (request.sha256,))
                row = cursor.fetchone()
            return protocol.from_json(protocol.RunResult, row[0]) if row else None
        except (sqlite3.DatabaseError, ValueError, TypeError, KeyError) as error:
            self._warn("cannot be read and is measured again", error)
            return None

    def put(self, result: protocol.RunResult) -> None:
        """Keep an answer; the first to a request stays, a faulted one is not kept, and a full disk raises nothing."""
        if result.is_faulted or not self._is_kept:
            return
        row = (result.request_sha256, protocol.to_json(result))
        try:
            if shutil.disk_usage(self._path.parent).free < self._left_bytes + len(row[1]):
                self._warn("is not kept", OSError("the disk is nearly full"))
                return
            with self._lock:
                self._database.execute("INSERT OR IGNORE INTO answers VALUES (?, ?)", row)
                self._added += 1
                if self._added % PRUNED_EVERY == 0:
                    self._prune()
        except (sqlite3.DatabaseError, OSError) as error:
            self._is_kept = False
            self._warn("cannot be kept, nor can later ones", error)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _prune(self) -> None:
        """Remove the oldest sixteenth of the answers for as long as the file is larger than it may be."""
        while self._used_bytes() > self._most_bytes:
            first, last = self._database.execute("SELECT MIN(rowid), MAX(rowid) FROM answers").fetchone()
            if first is None or first == last:
                return
            oldest = first + max(1, (last - first) // PRUNED_SHARE)
            self._database.execute("DELETE FROM answers WHERE rowid < ?", (oldest,))

    def _used_bytes(self) -> int:
        pages, free, size = (
            self._database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def _warn(self, what: str, error: Exception) -> None:
        """Log what is wrong with the file, once for each store."""
        if not self._has_warned:
            self._has_warned = True
            _LOG.warning("%s: an answer %s (%s)", self._path, what, error)


def _opened(path: pathlib.Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("CREATE TABLE IF NOT EXISTS answers (request TEXT PRIMARY KEY, answer TEXT NOT NULL)")
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database
