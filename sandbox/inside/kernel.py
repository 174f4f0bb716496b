"""Inside the isolation boundary: system calls that Python has no name for (namespaces, mounts, memory layout).

Each function makes one call and raises OSError where the kernel refuses it, unless it says otherwise.
"""

import contextlib
import ctypes
import os
import signal
import struct
import sys

from sandbox.inside import clocks

SHARED_MEMORY, SHARED_FILES = 0x100, 0x400
STACK_BYTES = 16_384
NEW_MOUNTS, NEW_IPC, NEW_PROCESSES = 0x0002_0000, 0x0800_0000, 0x2000_0000
READ_ONLY, NO_SETUID, NO_DEVICES, NO_PROGRAMS = 1, 2, 4, 8
REMOUNT, BIND, RECURSIVE, PRIVATE = 32, 4096, 16384, 1 << 18
DETACH = 2
PR_SET_CHILD_SUBREAPER = 36
PR_SET_MM, PR_SET_MM_MAP = 35, 14
ADDR_NO_RANDOMIZE = 0x0040000
# Heeded by the dynamic linker.
BIND_NOW = "LD_BIND_NOW"
# prctl_mm_map of the kernel: where code, data, heap, stack, arguments and environment begin and end, then an auxiliary
# vector and a descriptor of a binary, of which we give none.
_MAP = struct.Struct("=12QIi")
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.sbrk.restype = ctypes.c_void_p
_PAUSE = ctypes.cast(_LIBC.pause, ctypes.c_void_p)


def _checked(result: int, what: str) -> None:
    """Raise the OSError that a C function has noted, if its result says that it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare(flags: int) -> None:
    """Give this process new namespaces; with NEW_PROCESSES, give one to its later children.

    Args:
      flags: a sum of NEW_MOUNTS, NEW_IPC and NEW_PROCESSES.
    """
    _checked(_LIBC.unshare(flags), "unshare")


def enter(namespace: int, kind: int) -> None:
    """Move this process into an existing namespace; with NEW_PROCESSES, only its later children.

    Args:
      namespace: descriptor of a file of /proc/PID/ns.
      kind: NEW_MOUNTS, NEW_IPC or NEW_PROCESSES.
    """
    _checked(_LIBC.setns(namespace, kind), "setns")


def clone_sleeper(stack: "ctypes.Array[ctypes.c_char]", flags: int) -> int:
    """Fork a process that sleeps until it is killed, and that shares this one's memory and open files.

    A fork that copies memory costs many times as much. The new process never returns to Python: it makes one system
    call, which waits for a signal, and its parent may go on at once.

    Args:
      stack: of its own, of STACK_BYTES; not to be touched before it has ended.
      flags: namespaces that it is to have of its own, a sum of NEW_MOUNTS and NEW_IPC.

    Returns:
      Its number.
    """
    top = ctypes.c_void_p(ctypes.addressof(stack) + STACK_BYTES & ~0xF)
    process = _LIBC.clone(_PAUSE, top, SHARED_MEMORY | SHARED_FILES | flags | signal.SIGCHLD, None)
    _checked(process, "clone")
    return process


def mount(kind: str, target: str, *, flags: int, options: str = "") -> None:
    """Mount a fresh file system of a kind that needs no device, such as tmpfs or proc.

    Args:
      kind: name of the file system, as the kernel knows it.
      target: an existing directory.
      flags: a sum of READ_ONLY, NO_SETUID, NO_DEVICES and NO_PROGRAMS.
      options: the file system's own, separated by commas.
    """
    arguments = (kind.encode(), target.encode(), kind.encode(), flags, options.encode())
    _checked(_LIBC.mount(*arguments), target)


def unmount(target: str) -> None:
    """Detach a mount from this namespace, even if files on it are open."""
    _checked(_LIBC.umount2(target.encode(), DETACH), target)


def make_private() -> None:
    """Keep every later mount and unmount of this namespace from spreading to others."""
    _checked(_LIBC.mount(None, b"/", None, PRIVATE | RECURSIVE, None), "/")


def make_writable(target: str) -> None:
    """Lift the read-only mark from one mount, in this namespace alone."""
    flags = REMOUNT | BIND | NO_SETUID | NO_DEVICES | NO_PROGRAMS
    _checked(_LIBC.mount(None, target.encode(), None, flags, None), target)


def adopt_orphans() -> None:
    """Make orphaned descendants (double forks, daemons) children of this process, which can then kill and reap them.

    A refusal is ignored.
    """
    _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def fix_layout() -> bool:
    """Ask for addresses that are not random in whatever is executed next.

    Where things lie in memory moves a program's seconds by 1 % from one interpreter to the next.

    Returns:
      Whether the layout is fixed, now or from the next execution on; False where the kernel does not allow it.
    """
    with contextlib.suppress(FileNotFoundError):
        if int(clocks.said("/proc/self/personality"), 16) & ADDR_NO_RANDOMIZE:
            return True
    return _LIBC.personality(ADDR_NO_RANDOMIZE) >= 0


def remove_sysv_object(remover: str, *arguments: int) -> None:
    """Call shmctl, semctl or msgctl; errors are ignored, since an object may be gone or belong to somebody else."""
    getattr(_LIBC, remover)(*arguments)


def restart(arguments: list[str]) -> None:
    """Replace this process by a fresh interpreter with these arguments, its name first; does not return.

    That one looks up all functions of its libraries when it loads them, or every process forked from it would do so
    when it first calls them. `forget_restart` removes what tells it.
    """
    os.execve(sys.executable, arguments, os.environ | {BIND_NOW: "1"})


def forget_restart() -> None:
    """Remove from the environment, which programs inherit, what `restart` has put there.

    It was put last, so that what the kernel shows of it (`/proc/self/environ`) can end before it. A kernel that does
    not move that end, such as one without checkpoints, goes on showing it; no program is told otherwise.
    """
    added = f"{BIND_NOW}={os.environ.pop(BIND_NOW, '')}\0".encode()
    shown = clocks.said("/proc/self/environ")
    if shown.endswith(b"\0" + added):
        _show_environment(len(shown) - len(added))


def _show_environment(size: int) -> None:
    """Let the kernel show `size` bytes of this process's environment, from its beginning; a refusal is ignored."""
    stat = clocks.said("/proc/self/stat").rpartition(b")")[2].split()

    def field(number: int) -> int:
        # As `man proc` counts them; the first that is left is the third.
        return int(stat[number - 3])

    heap_end = _LIBC.sbrk(ctypes.c_long(0))
    code, data, heap, stack = (field(26), field(27)), (field(45), field(46)), (field(47), heap_end), field(28)
    arguments, environment = (field(48), field(49)), (field(50), field(50) + size)
    places = _MAP.pack(*code, *data, *heap, stack, *arguments, *environment, 0, 0, -1)
    _LIBC.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.c_char_p(places), ctypes.c_ulong(len(places)), ctypes.c_ulong(0))
