"""Inside the isolation boundary: the control group in which programs run, and the meter of their processor time.

A group counts everything that ran in it, whoever reaped it and whatever its priority, and its bounds hold for all of it
together: for pages of in-memory files and of daemons as well as for those of the program. The engine gives a container
its groups read-only; the runner, which alone may mount, makes them writable and puts a group for programs below them.
Where no group is to be had (no container, a host without controllers), a performance counter of the kernel stands in
for the processor time, and the tree of processes for the rest.
"""

import contextlib
import os
import struct

from sandbox.inside import clocks, counter, kernel

ROOT = "/sys/fs/cgroup"
RUNS, INTERACTORS = "programs", "interactors"
# What the two versions of control groups call the same things: controller and file.
FIRST = {
    "cpu": ("cpuacct", "cpuacct.usage"),
    "memory": ("memory", "memory.usage_in_bytes"),
    "memory_limit": ("memory", "memory.limit_in_bytes"),
    "memory_peak": ("memory", "memory.max_usage_in_bytes"),
    "memory_events": ("memory", "memory.oom_control"),
    "tasks": ("pids", "pids.current"),
    "tasks_limit": ("pids", "pids.max"),
    "tasks_events": ("pids", "pids.events"),
}
SECOND = {
    "cpu": ("", "cpu.stat"),
    "memory": ("", "memory.current"),
    "memory_limit": ("", "memory.max"),
    "memory_peak": ("", "memory.peak"),
    "memory_events": ("", "memory.events"),
    "tasks": ("", "pids.current"),
    "tasks_limit": ("", "pids.max"),
    "tasks_events": ("", "pids.events"),
}
_PERF_COUNT = struct.Struct("=Q")
SOFTWARE, TASK_CLOCK = 1, 1
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# gVisor's kernel, for one, does not.
LISTS_CHILDREN = os.path.exists("/proc/thread-self/children")


class Meter:
    """Measures the processor time of everything that ran in a group or in a tree of processes.

    Attributes:
      descriptor: the open file or counter, which forked processes inherit.
      kind: where the seconds come from: "cgroup v1", "cgroup v2" or "task clock".
    """

    def __init__(self, descriptor: int, kind: str) -> None:
        self.descriptor = descriptor
        self.kind = kind

    def moved_to(self, descriptor: int) -> "Meter":
        """Move the meter to another descriptor number and return it; this one must not be used afterwards."""
        os.dup2(self.descriptor, descriptor)
        os.close(self.descriptor)
        return Meter(descriptor, self.kind)

    def read_s(self) -> float:
        """Return the processor seconds so far, of living and dead processes; only differences mean anything."""
        # Asking for its own clock makes the kernel charge what this process used since it was last switched.
        clocks.own_cpu_s()
        if self.kind == "task clock":
            return _PERF_COUNT.unpack(os.read(self.descriptor, _PERF_COUNT.size))[0] * 1e-9
        text = os.pread(self.descriptor, 64, 0)
        return int(text) * 1e-9 if self.kind == "cgroup v1" else int(text.split()[1]) * 1e-6


class ControlGroup:
    """The control group of programs. What this kernel cannot tell reads as 0; what it cannot bound stays unbounded.

    Quantities are called by the keys of FIRST and SECOND, which are the same.

    Attributes:
      version: "cgroup v1" or "cgroup v2".
    """

    def __init__(self, version: str, folders: dict[str, str], files: dict[str, tuple[str, str]]) -> None:
        """Find out which files the group has.

        Args:
          version: "cgroup v1" or "cgroup v2".
          folders: the group's directory for each controller ("" for all of them in the second version).
          files: FIRST or SECOND.
        """
        self.version = version
        self._folders = folders
        self._files = {
            name: f"{folders[controller]}/{file}"
            for name, (controller, file) in files.items()
            if controller in folders and os.path.exists(f"{folders[controller]}/{file}")
        }
        self._bounds: dict[str, int] = {}
        self._opened: dict[str, int] = {}

    def join(self) -> None:
        """Move this process, and with it everything that it will fork, into the group."""
        for folder in self._folders.values():
            _write(f"{folder}/cgroup.procs", b"0")

    def meter(self) -> Meter | None:
        """Open a meter of the group's processor time; None where the group does not count it."""
        path = self._files.get("cpu")
        return Meter(os.open(path, os.O_RDONLY | os.O_CLOEXEC), self.version) if path else None

    @property
    def bounds_memory(self) -> bool:
        """Tell whether the group can bound memory."""
        return "memory_limit" in self._files

    @property
    def bounds_tasks(self) -> bool:
        """Tell whether the group can bound the number of tasks, threads included."""
        return "tasks_limit" in self._files

    def number(self, name: str) -> int:
        """Return the number that a file of the group holds, in bytes or tasks; 0 where there is none."""
        with contextlib.suppress(OSError, KeyError, ValueError):
            return int(os.pread(self._descriptor(name), 64, 0))
        return 0

    def events(self, name: str, event: str) -> int:
        """Return how often an event, such as "oom_kill", has happened to the group; 0 where that is not counted."""
        with contextlib.suppress(OSError, KeyError, ValueError):
            rows = (row.split() for row in os.pread(self._descriptor(name), 4096, 0).splitlines())
            return next(int(row[1]) for row in rows if row[0] == event.encode())
        return 0

    def bound(self, name: str, value: int) -> None:
        """Set an upper bound, in bytes or tasks, unless it is in force already or the group cannot bound this."""
        if name in self._files and self._bounds.get(name) != value:
            # Refused where more is in use already; the next page that anything asks for will show it.
            with contextlib.suppress(OSError):
                _write(self._files[name], str(value).encode())
            self._bounds[name] = value

    def forget_peak(self) -> None:
        """Reset the peak of memory where the kernel can: the first version, and later kernels of the second."""
        with contextlib.suppress(OSError, KeyError):
            os.pwrite(self._descriptor("memory_peak"), b"0", 0)

    def _descriptor(self, name: str) -> int:
        """Return a descriptor of one of the group's files, which stays open, because it is read with every run.

        That peaks can be forgotten holds, in the second version, only for the descriptor that was written to.
        """
        if name not in self._opened:
            path = self._files[name]
            try:
                self._opened[name] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                self._opened[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return self._opened[name]


def open_group(name: str) -> ControlGroup | None:
    """Make a group for programs, below the group of this container.

    With the second version this process moves as well, into a group of its own.

    Args:
      name: RUNS or INTERACTORS.

    Returns:
      The group; None where the kernel or the engine does not allow one.
    """
    with contextlib.suppress(OSError):
        if os.path.exists(f"{ROOT}/cgroup.controllers"):
            return _second_version(name)
        return _first_version(name)
    return None


def _first_version(name: str) -> ControlGroup | None:
    folders = {}
    for controller in ("memory", "cpuacct", "pids"):
        with contextlib.suppress(OSError):
            mounted = os.path.realpath(f"{ROOT}/{controller}")
            kernel.make_writable(mounted)
            os.makedirs(f"{mounted}/{name}", exist_ok=True)
            folders[controller] = f"{mounted}/{name}"
    return ControlGroup("cgroup v1", folders, FIRST) if "cpuacct" in folders else None


def _second_version(name: str) -> ControlGroup:
    """Make a group for the runner and one for programs: a group that has others below it may not hold processes."""
    kernel.make_writable(ROOT)
    for folder in ("runner", name):
        os.makedirs(f"{ROOT}/{folder}", exist_ok=True)
    _write(f"{ROOT}/runner/cgroup.procs", b"0")
    for controller in clocks.said(f"{ROOT}/cgroup.controllers").split():
        if controller in (b"cpu", b"memory", b"pids"):
            with contextlib.suppress(OSError):
                _write(f"{ROOT}/cgroup.subtree_control", b"+" + controller)
    return ControlGroup("cgroup v2", {"": f"{ROOT}/{name}"}, SECOND)


def tree_meter(process: int = 0) -> Meter | None:
    """Open a meter of a process and of everything that it forks from now on, without a group.

    Args:
      process: its number; 0 is this process.

    Returns:
      The meter; None where the kernel refuses it.
    """
    events = counter.opened(process, kind=SOFTWARE, event=TASK_CLOCK, counts_kernel=True)
    return Meter(events.descriptor, "task clock") if events else None


def resident_bytes(process: int) -> int:
    """Return how many bytes of a process are in memory, shared pages included; 0 where it has gone."""
    with contextlib.suppress(OSError, IndexError):
        return int(clocks.said(f"/proc/{process}/statm").split()[1]) * PAGE_BYTES
    return 0


def descendants(root: int) -> list[int]:
    """Return a process and everything below it that still runs, the process itself first."""
    found = [root]
    for process in found:
        found += children_of(process)
    return found


def children_of(process: int) -> list[int]:
    """Return the children of all threads of a process; none where it has gone."""
    if not LISTS_CHILDREN:
        return _children_by_parent(process)
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError):
                children += map(int, clocks.said(f"/proc/{process}/task/{thread}/children").split())
    return children


def own_children() -> list[int]:
    """Return the children of this process, which has to have one thread only."""
    if not LISTS_CHILDREN:
        return _children_by_parent(os.getpid())
    return [*map(int, clocks.said("/proc/thread-self/children").split())]


def _children_by_parent(parent: int) -> list[int]:
    """Ask every process for its parent, where the kernel lists no children; the oldest first."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            if int(clocks.said(f"/proc/{process}/stat").rpartition(b")")[2].split()[1]) == parent:
                found.append(int(process))
    return sorted(found)


def _write(path: str, text: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)
