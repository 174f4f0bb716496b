"""Edge: one build at a time in an output directory: a lock that names its holder and goes with its process.

The lock belongs to an open file, not to the file's existence, so that a build that was killed leaves nothing behind
that would have to be cleaned up by hand.
"""

import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import socket
from collections.abc import Iterator

from optimrl_jax.jobs.errors import UserError

LOCK = "build.lock"


@contextlib.contextmanager
def locked_directory(directory: pathlib.Path) -> Iterator[None]:
    """Hold the directory's lock, with host, process and start of this build in it.

    Raises:
      UserError: another process, here or on another host of a shared file system, is building there.
    """
    path = directory / LOCK
    # Opened for appending, because the holder's own line must survive a second opening.
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            expected = f"a directory in which no other build runs, found {_holder(path)}"
            raise UserError(f"--output = {str(directory)!r}: expected {expected}") from None
        file.truncate(0)
        start = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        json.dump({"host": socket.gethostname(), "process": os.getpid(), "start": start}, file)
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _holder(path: pathlib.Path) -> str:
    try:
        holder = json.loads(path.read_text())
        return f"process {holder['process']} on {holder['host']}, started {holder['start']}"
    except (OSError, ValueError, LookupError, TypeError):
        return "one that has just started"
