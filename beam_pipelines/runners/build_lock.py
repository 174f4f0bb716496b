"""Edge: one build at a time in an output directory of a bucket.

A bucket has no locks that go with a process, as those of `optimrl_jax.jobs.locks` do: there the holder renews a file,
and one that was not renewed for a while is free to take.
"""

import contextlib
import functools
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping

from etils import epath

from optimrl_jax.jobs import locks
from optimrl_jax.jobs.errors import UserError

BUILD = "build"
LOCK = f"{BUILD}.lock"
# A lease ends when it was not renewed for so long, seconds; clocks of two hosts may differ by much less.
LEASE_S = 120.0
# Of two builds that begin at the same moment the later writer wins, after this long, seconds.
SETTLED_AFTER_S = 2.0


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
    holder = locks.read_holder(path)
    renewed_s = holder.get("renewed_s")
    if isinstance(renewed_s, int | float) and time.time() - renewed_s < lease_s:
        raise _refusal(directory, holder)
    own = locks.describe_holder() | {"token": uuid.uuid4().hex}
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
    return locks.read_holder(path).get("token", own["token"]) == own["token"]


def _require_lease(path: epath.Path, own: Mapping[str, object]) -> None:
    if not _is_holder(path, own):
        raise _refusal(path.parent, locks.read_holder(path))


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


def _refusal(directory: epath.Path, holder: Mapping[str, object]) -> UserError:
    return locks.refusal(directory, holder, field="--output", work=BUILD)
