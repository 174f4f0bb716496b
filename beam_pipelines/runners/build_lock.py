"""Edge: one build at a time in an output directory: a lock that names its holder and goes with its process.

The lock of a local directory belongs to an open file, not to the file's existence, so that a build that was killed
leaves nothing behind that would have to be cleaned up by hand. A bucket has no such locks: there the holder renews a
file, and one that was not renewed for a while is free to take.
"""

import contextlib
import datetime
import fcntl
import functools
import json
import os
import pathlib
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping

from etils import epath

from optimrl_jax.jobs.errors import UserError

LOCK = "build.lock"
# A lease ends when it was not renewed for so long, seconds; clocks of two hosts may differ by much less.
LEASE_S = 120.0
# Of two builds that begin at the same moment the later writer wins, after this long, seconds.
SETTLED_AFTER_S = 2.0


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
            raise _refusal(directory, _read_holder(epath.Path(path))) from None
        file.truncate(0)
        json.dump(_describe_holder(), file)
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


@contextlib.contextmanager
def leased_directory(
    directory: epath.Path, *, lease_s: float = LEASE_S, settled_after_s: float = SETTLED_AFTER_S
) -> Iterator[Callable[[], None]]:
    """Hold a lease on a directory of a bucket, and renew it until the block ends.

    A holder that stood still for longer than its lease may have a successor, whose lease it leaves alone.

    Args:
      directory: the output.
      lease_s: how long another build waits for a renewal before it takes a lease over, seconds.
      settled_after_s: how long to wait for another build that begins at the same moment, seconds.

    Yields:
      A function that raises UserError where another build has taken the lease over.

    Raises:
      UserError: another build holds a lease that it renewed lately.
    """
    path = directory / LOCK
    holder = _read_holder(path)
    renewed_s = holder.get("renewed_s")
    if isinstance(renewed_s, int | float) and time.time() - renewed_s < lease_s:
        raise _refusal(directory, holder)
    own = _describe_holder() | {"token": uuid.uuid4().hex}
    _renew(path, own)
    time.sleep(settled_after_s)
    require_lease = functools.partial(_require_lease, path, own)
    require_lease()
    ended = threading.Event()
    renewing = threading.Thread(target=_keep_renewing, args=(path, own, ended, lease_s / 4), daemon=True)
    renewing.start()
    try:
        yield require_lease
    finally:
        ended.set()
        renewing.join()
        if _is_holder(path, own):
            path.unlink(missing_ok=True)


def _is_holder(path: epath.Path, own: Mapping[str, object]) -> bool:
    """Tell whether nobody else has written his name since; a lease that cannot be read at the moment counts as kept."""
    return _read_holder(path).get("token", own["token"]) == own["token"]


def _require_lease(path: epath.Path, own: Mapping[str, object]) -> None:
    if not _is_holder(path, own):
        raise _refusal(path.parent, _read_holder(path))


def _keep_renewing(path: epath.Path, own: Mapping[str, object], ended: threading.Event, interval_s: float) -> None:
    while not ended.wait(interval_s):
        # A store that does not answer for a moment does not end a build; the next renewal may succeed.
        with contextlib.suppress(OSError):
            if not _is_holder(path, own):
                return
            _renew(path, own)


def _renew(path: epath.Path, own: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**own, "renewed_s": time.time()}))


def _describe_holder() -> dict[str, object]:
    start = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"host": socket.gethostname(), "process": os.getpid(), "start": start}


def _read_holder(path: epath.Path) -> dict[str, object]:
    """Read what a lock says of its holder; nothing where there is none, or where it has only just begun."""
    try:
        holder = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return holder if isinstance(holder, dict) else {}


def _refusal(directory: epath.PathLike, holder: Mapping[str, object]) -> UserError:
    known = holder.keys() >= {"host", "process", "start"}
    name = f"process {holder['process']} on {holder['host']}, started {holder['start']}" if known else "one just begun"
    return UserError(f"--output = {str(directory)!r}: expected a directory in which no other build runs, found {name}")
