"""Inside the isolation boundary: the limits of one run, the user it runs as, and how everything of it is ended."""

import contextlib
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Collection
from typing import Protocol

from sandbox.inside import clocks, groups, kernel

POLL_S = 0.02
MEBIBYTE = 1 << 20
# A run that is to be killed may not have been forked yet, or not lead its group yet.
KILL_RETRY_S = 0.005
# A run ends at this multiple of its limit even if it never got its core.
MOST_EXTENSION = 4.0
STACK_BYTES = 512 << 20
# Cleaned after each run where runs have no world of their own.
SHARED_PLACES = tuple(filter(os.path.isdir, ("/tmp", "/dev/shm", "/dev/mqueue", "/var/tmp", "/run/lock")))
SYSV_REMOVERS = {"shm": "shmctl", "sem": "semctl", "msg": "msgctl"}
IPC_RMID = 0
BEST_PRIORITY = -20
# Room above the limit of processes, so that the watcher sees an excess before the kernel refuses the next fork.
ROOM = 16


def limit_always() -> None:
    """Impose on this process, for good, the limits that are the same for every run; what it forks inherits them."""
    _impose(resource.RLIMIT_CORE, 0)
    _impose(resource.RLIMIT_NOFILE, 256)
    _impose(resource.RLIMIT_STACK, STACK_BYTES)
    _impose(resource.RLIMIT_DATA, resource.RLIM_INFINITY)


def limit(*, wall_s: float, memory_bytes: int | None, file_bytes: int) -> None:
    """Impose the limits of a run on this process, for good, besides those of `limit_always`; its children inherit them.

    Args:
      wall_s: limit of the run in seconds. Only a backstop comes of it here (two seconds more, of processor time for
        each process): `RunWatch` ends runs in time.
      memory_bytes: bound of this process's data; None where a control group bounds memory. A group counts what is
        touched, whereas this limit counts what is reserved, such as the stacks of threads.
      file_bytes: size of the largest file that it may write, its output among them.
    """
    _impose(resource.RLIMIT_FSIZE, file_bytes)
    _impose(resource.RLIMIT_CPU, int(wall_s) + 2)
    if memory_bytes is not None:
        _impose(resource.RLIMIT_DATA, memory_bytes)


def _impose(name: int, value: int) -> None:
    """Set both limits of a kind to `value`, or to the hard limit that is in force already where that is tighter."""
    # RLIM_INFINITY is -1 in Python: the smaller number is not always the tighter limit.
    hard = resource.getrlimit(name)[1]
    value = min(value, hard) if resource.RLIM_INFINITY not in (value, hard) else max(value, hard)
    resource.setrlimit(name, (value, value))


def become_user(uid: int, *, processes: int | None) -> None:
    """Give up root's powers for good and become the user `uid`, with a group of the same number and no others.

    When memory runs out, the kernel kills this process before any other, and never the runner.

    Args:
      uid: the user of programs.
      processes: most processes of that user; None where a control group bounds them.
    """
    adjustment = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(adjustment, b"1000")
    os.close(adjustment)
    if processes is not None:
        resource.setrlimit(resource.RLIMIT_NPROC, (processes + ROOM, processes + ROOM))
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def take_precedence() -> None:
    """Let this process, but nothing that it forks, run before all programs: it has to notice at once when one ends.

    Without root it has no right to that, and nothing changes. Real-time priority is no alternative: with it, programs
    of several processes hung.
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, BEST_PRIORITY)


def empty_directory(directory: str) -> None:
    """Remove whatever a run left in a directory, however deep, but not the directory itself.

    The content of a folder moves up before the folder goes: paths stay short, however deep a program nested them.
    Stops where nothing can be removed any more; never raises for single files.
    """
    moved = 0
    while entries := list(os.scandir(directory)):
        before = moved
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
        if moved == before and len(list(os.scandir(directory))) >= len(entries):
            return


def remove_sysv_objects(uid: int) -> None:
    """Remove the user's System V shared memory, semaphores and queues: they outlive processes and could carry state."""
    calls = []
    for kind, remover in SYSV_REMOVERS.items():
        with contextlib.suppress(OSError):
            rows = clocks.said(f"/proc/sysvipc/{kind}").splitlines()[1:]
            first = [(remover, int(row.split()[1])) for row in rows]
            calls += [(name, n, 0, IPC_RMID) if kind == "sem" else (name, n, IPC_RMID, 0) for name, n in first]
    if calls:
        os.waitpid(as_user(uid, lambda: [kernel.remove_sysv_object(*call) for call in calls]), 0)


def as_user(uid: int, action: Callable[[], object]) -> int:
    """Do something in a forked process of another user, for what only owners may do; its errors are not reported.

    Returns:
      The process, which the caller has to reap.
    """
    process = os.fork()
    if process == 0:
        try:
            os.setresuid(uid, uid, uid)
            action()
        finally:
            os._exit(0)
    return process


class GroupBounds:
    """Bounds the control group of programs, run by run, and reads what it counted; without a group, does nothing."""

    def __init__(self, group: groups.ControlGroup | None) -> None:
        self._group = group

    def impose(self, limits: dict) -> tuple[int, int]:
        """Bound the group to `limits` on top of what it holds already.

        Returns the bytes that it held before, and how many of its processes the kernel has killed for memory so far.
        """
        group = self._group
        if group is None:
            return 0, 0
        group.forget_peak()
        held_bytes = group.number("memory")
        rounded = -(-held_bytes // MEBIBYTE) * MEBIBYTE
        group.bound("memory_limit", rounded + int(limits["memory_bytes"]))
        group.bound("tasks_limit", int(limits["processes"]) + 2 + ROOM)
        return held_bytes, self.kills

    @property
    def kills(self) -> int:
        """How many processes of the group the kernel has killed for memory so far."""
        return self._group.events("memory_events", "oom_kill") if self._group else 0

    @property
    def peak_bytes(self) -> int:
        """Peak memory of the group since `impose`, in bytes, with what it held then."""
        return self._group.number("memory_peak") if self._group else 0


class Child(Protocol):
    """What forked a child, waits for its end and reaps it: `zygote.Zygote`.

    `is_over` waits up to `timeout_s` and tells whether the child has ended.

    Attributes:
      process: number of the process that forks.
      is_isolated: whether each child is born into a world of its own, whose first process precedes it among the
        children of `process`.
    """

    process: int
    is_isolated: bool

    def is_over(self, *, timeout_s: float) -> bool: ...


Given = Callable[[], float]


class RunWatch:
    """Follows one run from its fork to its end, and ends it at a limit. Create it just before the fork.

    Attributes:
      forked: the clocks at that moment, of which those of the program stand at 0.
    """

    def __init__(
        self,
        zygote: Child,
        limits: dict,
        *,
        group: groups.ControlGroup | None,
        meter: groups.Meter | None,
        given_s: Given = lambda: 0.0,
    ) -> None:
        """Note the time and the processor time from which the run counts.

        Args:
          zygote: what is about to fork the run.
          limits: `wall_s`, `cpu_s`, `memory_bytes` and `processes`, for the run as a whole.
          group: the control group of programs; None where processes have to be counted one by one.
          meter: of everything that runs; None where processor time cannot be limited for the run as a whole.
          given_s: seconds to be added to the wall limit by now, for the work of others that the run waits for.
        """
        self._zygote = zygote
        self._given_s = given_s
        self._limits = limits
        self._group = group
        self._meter = meter
        self._used_s = meter.read_s() if meter else 0.0
        self._waited_s = 0.0
        self._forked_s = time.monotonic()
        self.forked = clocks.Reading(self._forked_s, self._used_s, 0.0, 0.0)
        self._deadline_s = self._forked_s + limits["wall_s"]

    def ended_for(self, *, control: int | None) -> str:
        """Wait until the run ends, or end it at a limit.

        Wall time that others took from it is given back: a run that waited for its core may last up to MOST_EXTENSION
        times its limit.

        Args:
          control: the stream of requests, watched for its other end; None watches nothing.

        Returns:
          The limit that it exceeded: "time" (wall or processor), "memory" or "processes"; empty if it ended by itself.

        Raises:
          EOFError: whoever asked for the run is gone. Nobody is left to tell: the caller ends this container.
        """
        while not self._zygote.is_over(timeout_s=min(POLL_S, self._deadline_s - time.monotonic())):
            if control is not None and is_hung_up(control):
                raise EOFError("whoever asked for this run is gone")
            if killed_for := self.exceeded():
                self.kill()
                return killed_for
        return ""

    def exceeded(self) -> str:
        """Return the limit that the run exceeds now, as `ended_for` names them; empty where it exceeds none."""
        leader = self._leader()
        if time.monotonic() >= self._deadline_s:
            self._deadline_s = self._extended_s(leader)
        return self._excess(leader) or ("time" if time.monotonic() >= self._deadline_s else "")

    def _leader(self) -> int | None:
        """Return the number of the program's process; None where it is not forked yet, or has gone."""
        children = groups.children_of(self._zygote.process)
        return children[-1] if len(children) > self._zygote.is_isolated else None

    def _extended_s(self, leader: int | None) -> float:
        """Return when the run's time really ends: what others kept from it is given back, up to a bound."""
        limit_s = self._limits["wall_s"]
        used_s = self.used_s() if self._meter else limit_s
        kept_s = 0.0
        if used_s < limit_s and leader is not None:
            start = clocks.Reading(self._forked_s, 0.0, 0.0, 0.0)
            # The first process may sleep while another one works for it.
            schedules = map(clocks.schedule_of, groups.descendants(leader))
            ends = [clocks.Reading(time.monotonic(), used_s, *schedule) for schedule in schedules]
            kept_s = min(max(clocks.foreign_wait_s(start, end) for end in ends), (MOST_EXTENSION - 1) * limit_s)
        return self._forked_s + limit_s + kept_s + self._given_s()

    def used_s(self) -> float:
        """Return the processor seconds of the run so far; 0 where they cannot be told."""
        return self._meter.read_s() - self._used_s if self._meter else 0.0

    def busy_s(self) -> float:
        """Return the processor seconds so far and those that the program was ready and had no core."""
        leader = self._leader()
        if leader is not None:
            waits_s = (clocks.schedule_of(process).waited_s for process in groups.descendants(leader))
            self._waited_s = max(self._waited_s, *waits_s)
        return self.used_s() + self._waited_s

    def postpone(self) -> None:
        """Let the wall limit run from now."""
        self._forked_s = time.monotonic()
        self._deadline_s = self._forked_s + self._limits["wall_s"]

    def _excess(self, leader: int | None) -> str:
        """Return the name of the limit that the run as a whole exceeds, or an empty text."""
        processes, memory_bytes, cpu_s = (self._limits[name] for name in ("processes", "memory_bytes", "cpu_s"))
        if self.used_s() >= cpu_s + POLL_S:
            return "time"
        if self._group and self._group.bounds_tasks and self._group.bounds_memory:
            # The zygote, and the first process of the world, are in the group too.
            return "processes" if self._group.number("tasks") > processes + 2 else ""
        if leader is None:
            return ""
        tree = groups.descendants(leader)
        if len(tree) > processes:
            return "processes"
        # Forked processes share the zygote's pages: of all but the first, only what they add counts.
        shared_bytes = groups.resident_bytes(self._zygote.process)
        used_bytes = groups.resident_bytes(leader)
        used_bytes += sum(max(0, groups.resident_bytes(process) - shared_bytes) for process in tree[1:])
        return "memory" if used_bytes > memory_bytes else ""

    def kill(self) -> None:
        """End the run, as soon as it has been forked; in a world, with everything else in there."""
        while not self._zygote.is_over(timeout_s=0.0):
            leader = self._leader()
            if leader is not None and self._zygote.is_isolated:
                # When the first process of a world dies, the kernel kills everything else in it.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(groups.children_of(self._zygote.process)[0], signal.SIGKILL)
            elif leader is not None:
                kill_group(leader)
            if self._zygote.is_over(timeout_s=KILL_RETRY_S):
                return


def is_hung_up(descriptor: int) -> bool:
    """Tell whether the other end of a pipe or socket is closed everywhere, whatever still waits to be read."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def kill_group(child: int) -> None:
    """Kill all processes of the process group that a child leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def kill_descendants(uid: int | None, *, but: Collection[int] = ()) -> None:
    """Kill and reap the children of this process, adopted orphans included, until only those to be spared are left.

    Killing one by one loses the race against a fork bomb; one signal to all processes of a user does not.

    Args:
      uid: the user of programs; None where they have no user of their own and are killed one by one.
      but: children to spare.
    """
    while orphans := [process for process in groups.own_children() if process not in but]:
        if uid is not None:
            orphans.append(as_user(uid, lambda: os.kill(-1, signal.SIGKILL)))
        for process in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        # The first process of a world ends after those that were born into it later have been reaped.
        for process in reversed(orphans):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, 0)
