"""Inside the isolation boundary: the world of one run, made for it and thrown away with it.

Nothing that a run did may be visible to the next. That is not achieved by cleaning known places: every run has its own
process numbers, System V objects, message queues, scratch file systems and view of processes, and all of them end with
it. What programs share is read-only: the image, the program's own files, and devices without memory such as /dev/null.
"""

import contextlib
import ctypes
import errno
import os
import signal
import stat

from sandbox.inside import clocks, kernel

PRIVATE_PLACES = ("/tmp", "/dev/shm")
# A file of 64 MiB is the most that a program may write; so many files take about 8 MiB of the kernel's memory.
SCRATCH = "size=64m,mode=1777"
MOST_FILES = "nr_inodes=8192"
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
        # Where users are mapped, engines mount each device, such as /dev/null, for itself.
        is_device = target.startswith("/dev/") and stat.S_ISCHR(os.stat(target).st_mode)
        if target not in KEPT + kept and not is_device:
            with contextlib.suppress(OSError):
                kernel.unmount(target)


class Gate:
    """Opens one fresh world after the other for what this process forks; make it in the process that is to fork.

    The first process of a world only sleeps: it keeps the namespaces, adopts orphans, and with its end the kernel ends
    everything else in there. It shares the memory of this process, because a fork that copies it would cost more than
    all the rest of a world.
    """

    def __init__(self) -> None:
        """Remember the namespace of processes that this process is in."""
        self._own_processes = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._stack = ctypes.create_string_buffer(kernel.STACK_BYTES)

    def open(self) -> int:
        """Make a world into which the next process is born that this one forks; return the number of its first process.

        The process that is born has to call `enter`.

        Raises:
          OSError: the kernel refuses a namespace.
        """
        # Back from the last world first: the kernel refuses a new one while another still stands for later children.
        kernel.enter(self._own_processes, kernel.NEW_PROCESSES)
        kernel.unshare(kernel.NEW_PROCESSES)
        # Whoever ignores the end of its children need not reap them: orphans vanish by themselves.
        usual = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        first = kernel.clone_sleeper(self._stack, kernel.NEW_MOUNTS | kernel.NEW_IPC)
        signal.signal(signal.SIGCHLD, usual)
        return first

    def close(self, first: int) -> None:
        """End a world with everything in it and wait until nothing of it is left.

        Args:
          first: its first process; what this process itself has forked into the world has to be reaped already.
        """
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)


def enter(first: int) -> None:
    """Move this process into the rest of the world that it was born into, and furnish that.

    It gets mounts and System V objects of its own, scratch file systems, and a /proc with nothing but its processes.
    They are kept by the first process of the world, so that no part of ending them falls to a program's last moment.

    Args:
      first: number of the first process of the world, as this process's parent knows it.

    Raises:
      OSError: the kernel refuses a namespace or a mount.
    """
    for name, kind in (("ipc", kernel.NEW_IPC), ("mnt", kernel.NEW_MOUNTS)):
        namespace = os.open(f"/proc/{first}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        kernel.enter(namespace, kind)
        os.close(namespace)
    furnish()
    # Only processes: the host's counters in /proc would tell what others did before.
    kernel.mount("proc", "/proc", flags=SAFE | kernel.NO_PROGRAMS, options="subset=pid")


def furnish() -> None:
    """Mount fresh scratch file systems over those that exist: bounded in bytes and, but for gVisor, in files.

    Raises:
      OSError: the kernel refuses.
    """
    for place in PRIVATE_PLACES:
        try:
            kernel.mount("tmpfs", place, flags=SAFE, options=f"{SCRATCH},{MOST_FILES}")
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            kernel.mount("tmpfs", place, flags=SAFE, options=SCRATCH)
