"""Inside the isolation boundary: limits, users, what a program leaves behind, and ending whole process trees."""

import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import time
from collections.abc import Callable

from sandbox.inside import clocks

POLL_S = 0.02
# A run ends at this multiple of its limit even where its core was taken from it all the time.
MOST_EXTENSION = 4.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PR_SET_CHILD_SUBREAPER = 36
STACK_BYTES = 512 << 20
SHARED_PLACES = ("/tmp", "/dev/shm", "/dev/mqueue", "/var/tmp", "/run/lock")
OOM_COUNTERS = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")
SYSV_REMOVERS = {"shm": "shmctl", "sem": "semctl", "msg": "msgctl"}
IPC_RMID = 0


def adopt_orphans() -> None:
    """Makes orphans of a test (double forks, daemons) children of this process, which can then find and kill them."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def limit(limits: dict) -> None:
    """Takes the limits of a run upon this process, for good."""
    file_bytes = max(limits["output_bytes"] + 1, limits["file_bytes"])
    wanted = {
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_DATA: limits["memory_bytes"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: int(limits["wall_s"]) + 2,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_STACK: STACK_BYTES,
    }
    for name, value in wanted.items():
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))


def become_user(uid: int, *, processes: int) -> None:
    """Gives up everything of root. The kernel's memory killer takes this process first, never the runner."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    # Room above the limit, so that the watcher sees the excess before the kernel refuses.
    most = processes + 16
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.umask(0o077)


def empty(directory: str) -> None:
    """Removes whatever a run left in a directory."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(directory)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def remove_sysv_objects(uid: int) -> None:
    """Removes System V shared memory, semaphores and queues: they outlive processes and could carry state."""
    calls = []
    for kind, remover in SYSV_REMOVERS.items():
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{kind}") as file:
            first = [(remover, int(row.split()[1])) for row in file.read().splitlines()[1:]]
            calls += [(name, n, 0, IPC_RMID) if kind == "sem" else (name, n, IPC_RMID, 0) for name, n in first]
    if calls:
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
        with contextlib.suppress(OSError), open(path) as file:
            counts = dict(row.split() for row in file)
            return int(counts.get("oom_kill", 0))
    return 0


def watch(child: int, limits: dict, *, uid: int | None) -> dict:
    """Waits for a child, ends it at a limit, kills whatever it left behind, and reports what it used."""
    forked_s = time.monotonic()
    deadline_s = forked_s + limits["wall_s"]
    killed_for = ""
    handle = os.pidfd_open(child)
    try:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        while not poller.poll(1000 * max(0.0, min(POLL_S, deadline_s - time.monotonic()))):
            if time.monotonic() >= deadline_s:
                deadline_s = _extended(child, forked_s, limits["wall_s"])
            killed_for = _excess(child, limits) or ("time" if time.monotonic() >= deadline_s else "")
            if killed_for:
                _kill_group(child)
                break
        ended_s = time.monotonic()
        os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOWAIT)
        # A dead process still says how long it waited, until it is reaped.
        waited_s = clocks.waited_s(child)
        _, status, usage = os.wait4(child, 0)
    finally:
        os.close(handle)
    _kill_group(child)
    kill_descendants(uid)
    return {
        "forked_s": forked_s,
        "ended_s": ended_s,
        "waited_s": waited_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_memory_bytes": usage.ru_maxrss * 1024,
        "exit": os.waitstatus_to_exitcode(status),
        "killed_for": killed_for,
    }


def _extended(child: int, forked_s: float, limit_s: float) -> float:
    """When the time of a child really ends: what it waited for its core is given back, up to a bound.

    A program cannot earn more by crowding its own core, because what its threads consume counts against it.
    """
    given_s = min(clocks.waited_s(child), (MOST_EXTENSION - 1) * limit_s)
    if clocks.consumed_s(child) >= limit_s:
        given_s = 0.0
    return forked_s + limit_s + given_s


def _excess(child: int, limits: dict) -> str:
    """Name of the limit that the running tree exceeds, if any."""
    tree = descendants(child)
    if len(tree) > limits["processes"]:
        return "processes"
    # A forked process shares the runner's own pages; only what it adds counts, but for the first.
    shared_bytes = resident_bytes(os.getpid())
    used_bytes = resident_bytes(child)
    used_bytes += sum(max(0, resident_bytes(process) - shared_bytes) for process in tree[1:])
    return "memory" if used_bytes > limits["memory_bytes"] else ""


def resident_bytes(process: int) -> int:
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * PAGE_BYTES
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
            with contextlib.suppress(OSError), open(f"/proc/{process}/task/{thread}/children") as file:
                children += map(int, file.read().split())
    return children


def _kill_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def kill_descendants(uid: int | None) -> None:
    """Kills and reaps everything that still hangs below this process.

    Killing one by one loses the race against a fork bomb; a signal to all processes of a user at once does not.
    """
    while orphans := _children(os.getpid()):
        if uid is not None:
            orphans.append(as_user(uid, lambda: os.kill(-1, signal.SIGKILL)))
        for process in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for process in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, 0)
