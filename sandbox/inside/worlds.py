"""Inside the isolation boundary: the world of one run, made for it and thrown away with it.

Nothing that a run did may be seen by the next. That is not achieved by cleaning known places: every run has its own
process numbers, System V objects, message queues, scratch file systems and view of processes, and all of them end with
it. What programs share is read-only: the image, the program's own files, and devices without memory such as /dev/null.
"""

import contextlib
import os

from sandbox.inside import clocks, kernel

PRIVATE_PLACES = ("/tmp", "/dev/shm")
# A file of 64 MiB is the most that a program may write; so many files take about 8 MiB of the kernel's memory.
SCRATCH = "size=64m,nr_inodes=8192,mode=1777"
SAFE = kernel.NO_SETUID | kernel.NO_DEVICES
# Kept of what the engine has mounted; all else would be a window (groups count, /sys counts, queues are listed).
KEPT = ("/", "/proc", "/dev")


def prepare_template(kept: tuple[str, ...]) -> None:
    """Gives this process, a zygote, mounts of its own with nothing in them that runs should not see.

    Few mounts also make worlds cheap: the kernel copies each of them for every run.
    """
    kernel.unshare(kernel.NEW_MOUNTS)
    kernel.make_private()
    rows = clocks.said("/proc/self/mountinfo").decode().splitlines()
    for target in sorted((row.split()[4] for row in rows), reverse=True):
        if target not in KEPT + kept:
            with contextlib.suppress(OSError):
                kernel.unmount(target)


class Gate:
    """Forks first processes of fresh worlds."""

    def __init__(self) -> None:
        self._own_processes = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def fork(self) -> int:
        """Like os.fork; the child is the first process of numbers of its own."""
        kernel.enter(self._own_processes, kernel.NEW_PROCESSES)
        kernel.unshare(kernel.NEW_PROCESSES)
        return os.fork()


def furnish() -> None:
    """In the first process of a world: everything else that is its own."""
    kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_IPC)
    for place in PRIVATE_PLACES:
        kernel.mount("tmpfs", place, flags=SAFE, options=SCRATCH)
    # Processes and nothing else: the host's counters in /proc would tell what others did before.
    kernel.mount("proc", "/proc", flags=SAFE | kernel.NO_PROGRAMS, options="subset=pid")
