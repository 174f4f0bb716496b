"""Inside the isolation boundary: the world of one run, made for it and thrown away with it.

Nothing that a run did may be visible to the next. That is not achieved by cleaning known places: every run has its own
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
# Kept of what the engine has mounted. Anything else would be a window on other runs: control groups and /sys count,
# message queues are listed.
KEPT = ("/", "/proc", "/dev")


def prepare_template(kept: tuple[str, ...]) -> None:
    """Give this process, a zygote, mounts of its own, without any that runs should not see; worlds begin as copies.

    Few mounts also make worlds cheap: the kernel copies every one of them for each run.

    Args:
      kept: mount points to keep besides those of KEPT.
    """
    kernel.unshare(kernel.NEW_MOUNTS)
    kernel.make_private()
    rows = clocks.said("/proc/self/mountinfo").decode().splitlines()
    for target in sorted((row.split()[4] for row in rows), reverse=True):
        if target not in KEPT + kept:
            with contextlib.suppress(OSError):
                kernel.unmount(target)


class Gate:
    """Forks the first processes of fresh worlds; make it in the process that is to fork, before the first world."""

    def __init__(self) -> None:
        """Remember the namespace of processes that this process is in."""
        self._own_processes = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def fork(self) -> int:
        """Fork like `os.fork`, but the child is process 1 of a new namespace of processes.

        The other namespaces are `furnish`'s business, in the child.

        Raises:
          OSError: the kernel refuses the namespace.
        """
        # Back from the last world first: the kernel refuses a new one while another still stands for later children.
        kernel.enter(self._own_processes, kernel.NEW_PROCESSES)
        kernel.unshare(kernel.NEW_PROCESSES)
        return os.fork()


def furnish() -> None:
    """Give the first process of a world the rest of it: mounts, System V objects, scratch file systems, a /proc.

    Raises:
      OSError: the kernel refuses a namespace or a mount.
    """
    kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_IPC)
    for place in PRIVATE_PLACES:
        kernel.mount("tmpfs", place, flags=SAFE, options=SCRATCH)
    # Only processes: the host's counters in /proc would tell what others did before.
    kernel.mount("proc", "/proc", flags=SAFE | kernel.NO_PROGRAMS, options="subset=pid")
