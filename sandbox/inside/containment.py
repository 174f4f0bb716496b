"""Inside the isolation boundary: limits, users, what a program leaves behind, and ending whole process trees."""

import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Protocol

from sandbox.inside import clocks

POLL_S = 0.02
# A run ends at this multiple of its limit even where its core was taken from it all the time.
MOST_EXTENSION = 4.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PR_SET_CHILD_SUBREAPER = 36
ADDR_NO_RANDOMIZE = 0x0040000
STACK_BYTES = 512 << 20
SHARED_PLACES = ("/tmp", "/dev/shm", "/dev/mqueue", "/var/tmp", "/run/lock")
OOM_COUNTERS = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")
SYSV_REMOVERS = {"shm": "shmctl", "sem": "semctl", "msg": "msgctl"}
IPC_RMID = 0
# A folder in a folder takes a sweep more; there cannot be more of them than a scratch file system has files.
MOST_SWEEPS = 10_000


def fix_layout() -> bool:
    """Starts this interpreter anew with addresses that are not random, once; False where the kernel does not allow it.

    Where things lie in memory moves a program's seconds by 1 % from one interpreter to the next.
    """
    if int(clocks.said("/proc/self/personality"), 16) & ADDR_NO_RANDOMIZE:
        return True
    import ctypes

    if ctypes.CDLL(None, use_errno=True).personality(ADDR_NO_RANDOMIZE) >= 0:
        os.execv(sys.executable, sys.orig_argv)
    return False


def adopt_orphans() -> None:
    """Makes orphans of a test (double forks, daemons) children of this process, which can then find and kill them."""
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def limit(*, wall_s: float, memory_bytes: int, file_bytes: int) -> None:
    """Takes the limits of a run upon this process, for good."""
    wanted = {
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_DATA: memory_bytes,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: int(wall_s) + 2,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_STACK: STACK_BYTES,
    }
    for name, value in wanted.items():
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))


def become_user(uid: int, *, processes: int) -> None:
    """Gives up everything of root. The kernel's memory killer takes this process first, never the runner."""
    adjustment = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(adjustment, b"1000")
    os.close(adjustment)
    # Room above the limit, so that the watcher sees the excess before the kernel refuses.
    most = processes + 16
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.umask(0o077)


def empty_directory(directory: str) -> None:
    """Removes whatever a run left in a directory, however deep: what a folder holds moves up before it goes."""
    moved = 0
    for _ in range(MOST_SWEEPS):
        entries = list(os.scandir(directory))
        if not entries:
            return
        for entry in entries:
            with contextlib.suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                    continue
                os.chmod(entry.path, 0o700)
                for name in os.listdir(entry.path):
                    moved += 1
                    os.rename(f"{entry.path}/{name}", f"{directory}/moved up {moved}")
                os.rmdir(entry.path)


def remove_sysv_objects(uid: int) -> None:
    """Removes System V shared memory, semaphores and queues: they outlive processes and could carry state."""
    calls = []
    for kind, remover in SYSV_REMOVERS.items():
        with contextlib.suppress(OSError):
            rows = clocks.said(f"/proc/sysvipc/{kind}").splitlines()[1:]
            first = [(remover, int(row.split()[1])) for row in rows]
            calls += [(name, n, 0, IPC_RMID) if kind == "sem" else (name, n, IPC_RMID, 0) for name, n in first]
    if calls:
        import ctypes

        libc = ctypes.CDLL(None)
        os.waitpid(as_user(uid, lambda: [getattr(libc, name)(*arguments) for name, *arguments in calls]), 0)


def as_user(uid: int, action: Callable[[], object]) -> int:
    """Does something in a process of a user, as only owners may; returns the process, which is to be reaped."""
    process = os.fork()
    if process == 0:
        try:
            os.setresuid(uid, uid, uid)
            action()
        finally:
            os._exit(0)
    return process


def oom_kills() -> int:
    """How many processes of this container the kernel has killed for memory; 0 where it does not say."""
    for path in OOM_COUNTERS:
        with contextlib.suppress(OSError):
            counts = dict(row.split() for row in clocks.said(path).splitlines())
            return int(counts.get(b"oom_kill", 0))
    return 0


class Child(Protocol):
    """What waits for a child and reaps it: the zygote that forked it."""

    process: int

    def is_over(self, *, timeout_s: float) -> bool: ...


def ended_for(zygote: Child, child: int, limits: dict) -> str:
    """Waits until a child ends, or ends it at a limit; the name of that limit, empty where it ended by itself."""
    forked_s = time.monotonic()
    deadline_s = forked_s + limits["wall_s"]
    while not zygote.is_over(timeout_s=min(POLL_S, deadline_s - time.monotonic())):
        if time.monotonic() >= deadline_s:
            deadline_s = _extended(child, forked_s, limits["wall_s"])
        excess = _excess(child, limits, shared_bytes=resident_bytes(zygote.process))
        if killed_for := excess or ("time" if time.monotonic() >= deadline_s else ""):
            kill_group(child)
            return killed_for
    return ""


def _extended(child: int, forked_s: float, limit_s: float) -> float:
    """When the time of a child really ends: what it waited for its core is given back, up to a bound.

    A program cannot earn more by crowding its own core, because what its threads consume counts against it.
    """
    given_s = min(clocks.waited_s(child), (MOST_EXTENSION - 1) * limit_s)
    if clocks.consumed_s(child) >= limit_s:
        given_s = 0.0
    return forked_s + limit_s + given_s


def _excess(child: int, limits: dict, *, shared_bytes: int) -> str:
    """Name of the limit that the running tree exceeds, if any."""
    tree = descendants(child)
    if len(tree) > limits["processes"]:
        return "processes"
    # A forked process shares the zygote's own pages; only what it adds counts, but for the first.
    used_bytes = resident_bytes(child)
    used_bytes += sum(max(0, resident_bytes(process) - shared_bytes) for process in tree[1:])
    return "memory" if used_bytes > limits["memory_bytes"] else ""


def resident_bytes(process: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        return int(clocks.said(f"/proc/{process}/statm").split()[1]) * PAGE_BYTES
    return 0


def descendants(root: int) -> list[int]:
    """A process and everything below it, as far as it still runs."""
    found = [root]
    for process in found:
        found += _children(process)
    return found


def _children(process: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError):
                children += map(int, clocks.said(f"/proc/{process}/task/{thread}/children").split())
    return children


def kill_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def kill_descendants(uid: int | None, *, but: int) -> None:
    """Kills and reaps everything that hangs below this process, but for one child.

    Killing one by one loses the race against a fork bomb; a signal to all processes of a user at once does not.
    """
    while orphans := [process for process in _children(os.getpid()) if process != but]:
        if uid is not None:
            orphans.append(as_user(uid, lambda: os.kill(-1, signal.SIGKILL)))
        for process in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for process in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, 0)
