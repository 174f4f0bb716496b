"""Edge: one job at a time in a directory: a lock that names its holder and goes with its process.

The lock belongs to an open file, not to the file's existence, so that a job that was killed leaves nothing behind that
would have to be cleaned up by hand.
"""

import contextlib
import datetime
import fcntl
import json
import logging
import os
import pathlib
import socket
from collections.abc import Iterator, Mapping

from etils import epath

from optimrl_jax.jobs.errors import UserError

_LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def locked_directory(directory: pathlib.Path, *, field: str, work: str = "job") -> Iterator[None]:
    """Hold the directory's lock, with host, process and start of this job in it.

    A file system that knows no locks is used without one, after a warning.

    Args:
      directory: an existing one.
      field: the flag or setting that names it, for the message.
      work: what may be done there once at a time, and the name of the file.

    Raises:
      UserError: another process, here or on another host of a shared file system, is at work there.
    """
    path = directory / f"{work}.lock"
    # Opened for appending, because the holder's own line must survive a second opening.
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal(directory, read_holder(epath.Path(path)), field=field, work=work) from None
        except OSError as error:
            _LOG.warning("%s: no lock is held here (%s): a second %s would not be noticed", path, error.strerror, work)
        file.truncate(0)
        json.dump(describe_holder(), file)
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def describe_holder() -> dict[str, object]:
    """Return host, process and start of a lock that this process takes now."""
    start = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"host": socket.gethostname(), "process": os.getpid(), "start": start}


def read_holder(path: epath.Path) -> dict[str, object]:
    """Read what a lock says of its holder; nothing where there is none, or where it has only just begun."""
    try:
        holder = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return holder if isinstance(holder, dict) else {}


def refusal(directory: epath.PathLike, holder: Mapping[str, object], *, field: str, work: str) -> UserError:
    """Return the error that names who is at work in a directory.

    Args:
      directory: that of the lock.
      holder: as `read_holder` returns it.
      field: the flag or setting that names the directory.
      work: what is done there.
    """
    known = holder.keys() >= {"host", "process", "start"}
    name = f"process {holder['process']} on {holder['host']}, started {holder['start']}" if known else "one just begun"
    return UserError(f"{field} = {str(directory)!r}: expected a directory in which no other {work} runs, found {name}")
