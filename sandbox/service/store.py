"""Edge: keeps the answers to run requests by content hash, so that nothing that was measured is measured again.

A SQLite file that several processes may use at once. A killed writer loses at most its last transaction. Answers in
which the sandbox itself failed are never kept.
"""

import pathlib
import sqlite3
import threading

from sandbox import protocol

BUSY_S = 60.0
# An answer takes a few kilobytes: the file stays within some gigabytes, and the oldest answers go first.
MOST_ANSWERS = 1_000_000
PRUNED_EVERY = 1_000


class Store:
    """Answers by the SHA-256 of their request."""

    def __init__(self, path: str | pathlib.Path, *, most_answers: int = MOST_ANSWERS) -> None:
        self._most_answers = most_answers
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute("CREATE TABLE IF NOT EXISTS answers (request TEXT PRIMARY KEY, answer TEXT NOT NULL)")

    def get(self, request: protocol.RunRequest) -> protocol.RunResult | None:
        """The stored answer, or None where this exact request was never answered."""
        with self._lock:
            row = self._database.execute("SELECT answer FROM answers WHERE request = ?", (request.sha256,)).fetchone()
        return protocol.from_json(protocol.RunResult, row[0]) if row else None

    def put(self, result: protocol.RunResult) -> None:
        """Keeps an answer; the first one to a request stays, a faulted one is not kept."""
        if result.is_faulted:
            return
        row = (result.request_sha256, protocol.to_json(result))
        with self._lock:
            added = self._database.execute("INSERT OR IGNORE INTO answers VALUES (?, ?)", row)
            if added.rowcount and added.lastrowid % min(PRUNED_EVERY, self._most_answers) == 0:
                oldest = added.lastrowid - self._most_answers
                self._database.execute("DELETE FROM answers WHERE rowid <= ?", (oldest,))

    def close(self) -> None:
        with self._lock:
            self._database.close()
