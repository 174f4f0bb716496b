"""Inside the isolation boundary: calls of the kernel that Python has no name for (namespaces, mounts, layout)."""

import ctypes
import os
import sys

from sandbox.inside import clocks

NEW_MOUNTS, NEW_IPC, NEW_PROCESSES = 0x0002_0000, 0x0800_0000, 0x2000_0000
READ_ONLY, NO_SETUID, NO_DEVICES, NO_PROGRAMS = 1, 2, 4, 8
REMOUNT, BIND, RECURSIVE, PRIVATE = 32, 4096, 16384, 1 << 18
DETACH = 2
PR_SET_CHILD_SUBREAPER = 36
ADDR_NO_RANDOMIZE = 0x0040000
_LIBC = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare(flags: int) -> None:
    """Gives this process namespaces of its own (its later children, for NEW_PROCESSES)."""
    _checked(_LIBC.unshare(flags), "unshare")


def enter(namespace: int, kind: int) -> None:
    """Lets this process (its later children, for NEW_PROCESSES) be in the namespace that a descriptor names."""
    _checked(_LIBC.setns(namespace, kind), "setns")


def mount(kind: str, target: str, *, flags: int, options: str = "") -> None:
    """Mounts a fresh file system of a kind that needs no device."""
    arguments = (kind.encode(), target.encode(), kind.encode(), flags, options.encode())
    _checked(_LIBC.mount(*arguments), target)


def unmount(target: str) -> None:
    """Takes a mount out of this namespace, though files of it may be open."""
    _checked(_LIBC.umount2(target.encode(), DETACH), target)


def make_private() -> None:
    """Keeps every later mount of this namespace from all others."""
    _checked(_LIBC.mount(None, b"/", None, PRIVATE | RECURSIVE, None), "/")


def make_writable(target: str) -> None:
    """Takes the read-only mark off one mount, in this namespace alone."""
    flags = REMOUNT | BIND | NO_SETUID | NO_DEVICES | NO_PROGRAMS
    _checked(_LIBC.mount(None, target.encode(), None, flags, None), target)


def adopt_orphans() -> None:
    """Makes orphans of a test (double forks, daemons) children of this process, which can then find and kill them."""
    _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def fix_layout() -> bool:
    """Asks for addresses that are not random in whatever is executed next; False where the kernel does not allow it.

    Where things lie in memory moves a program's seconds by 1 % from one interpreter to the next.
    """
    if int(clocks.said("/proc/self/personality"), 16) & ADDR_NO_RANDOMIZE:
        return True
    return _LIBC.personality(ADDR_NO_RANDOMIZE) >= 0


def remove_sysv_object(remover: str, *arguments: int) -> None:
    """Calls shmctl, semctl or msgctl."""
    getattr(_LIBC, remover)(*arguments)


def restart(arguments: list[str]) -> None:
    """Starts this interpreter anew with these arguments of its own."""
    os.execv(sys.executable, arguments)
