"""Inside the isolation boundary: when a program began, what it used, how long others kept it from its core.

A program's own seconds are its wall seconds without the wait for a core that others caused. How long its first thread
was ready and had no core, the kernel counts. Part of that wait may be the program's own doing, however: a helper has
the core while the leader spins at the lowest priority. So what its other threads and processes consumed meanwhile comes
off the wait first, whoever reaped them, and the seconds are never less than the processor time of everything that ran.
"""

import contextlib
import os
import select
import struct
import time
from typing import NamedTuple, Protocol

START_DESCRIPTOR = 3
PROBE_STEPS = 50_000
MOST_YIELDS = 1_000


class Schedule(NamedTuple):
    """Seconds that a process's first thread has run, and that it was ready to run and had no core."""

    ran_s: float
    waited_s: float


class Reading(NamedTuple):
    """All clocks of a run at one moment.

    `used_s` is the processor time of all that ran, by the meter (0 without); `ran_s` that of the program's first
    thread; `waited_s` how long that thread, and the process that watches for its end, were ready and had no core.
    """

    at_s: float
    used_s: float
    ran_s: float
    waited_s: float


_READING = struct.Struct("4d")


class ProcessorMeter(Protocol):
    """Tells the processor time of all that ran; `groups.Meter` is one."""

    descriptor: int

    def read_s(self) -> float: ...


def mark_start(meter: ProcessorMeter | None) -> None:
    """Tells the watcher that the program begins now; what it was told with is gone afterwards."""
    # Some kernels book what a process uses only when it leaves its core. The watcher has to sleep from here on: were it
    # awake, it would wait for the core at the same time as the program, and that time would count twice.
    for _ in range(MOST_YIELDS):
        os.sched_yield()
        if is_asleep(os.getppid()):
            break
    used_s = meter.read_s() if meter else time.process_time()
    ran_s, waited_s = schedule_of("self")
    watcher_s = schedule_of(os.getppid()).waited_s
    os.write(START_DESCRIPTOR, _READING.pack(time.monotonic(), used_s, ran_s, waited_s + watcher_s))
    os.close(START_DESCRIPTOR)
    if meter:
        os.close(meter.descriptor)


def start_of(descriptor: int, *, default: Reading) -> Reading:
    """What `mark_start` wrote, or `default` for a program that never began."""
    is_written = select.select([descriptor], [], [], 0)[0]
    mark = os.read(descriptor, _READING.size) if is_written else b""
    return Reading(*_READING.unpack(mark)) if len(mark) == _READING.size else default


def schedule_of(process: int | str) -> Schedule:
    """What the scheduler knows of a living or unreaped process; zeros where the kernel does not count."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        ran, waited, _ = said(f"/proc/{process}/schedstat").split()
        return Schedule(int(ran) * 1e-9, int(waited) * 1e-9)
    return Schedule(0.0, 0.0)


def is_asleep(process: int) -> bool:
    """True for a process that waits for something other than a core, and where nobody can tell."""
    with contextlib.suppress(OSError):
        return said(f"/proc/{process}/stat").rpartition(b")")[2].split(None, 1)[0] != b"R"
    return True


def own_cpu_s() -> float:
    """Processor seconds of this process up to this very moment."""
    return time.process_time()


def said(path: str) -> bytes:
    """A file of the kernel, without the layers of a Python file, which every forked process would pay for."""
    descriptor = os.open(path, os.O_RDONLY)
    parts = []
    try:
        while part := os.read(descriptor, 65_536):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def program_s(start: Reading, end: Reading, *, is_metered: bool) -> float:
    """The program's own seconds between two readings; without a meter no wait is taken off, for nobody knows whose.

    wall - max(0, wait of the first thread and of its watcher - processor time of all others)

    and at least the processor time of all that ran, as far as the wall goes. On one core the formula alone would be
    enough, for the wall holds what the first thread ran and waited; but thread and watcher can wait at the same time.
    """
    wall_s = end.at_s - start.at_s
    if not is_metered:
        return wall_s
    return max(wall_s - foreign_wait_s(start, end), min(wall_s, max(0.0, end.used_s - start.used_s)))


def foreign_wait_s(start: Reading, end: Reading) -> float:
    """How long others kept a program from its core: its wait, less what its own others consumed."""
    others_s = max(0.0, (end.used_s - start.used_s) - (end.ran_s - start.ran_s))
    return max(0.0, end.waited_s - start.waited_s - others_s)


def probe() -> float:
    """Seconds that a fixed loop takes: how fast this core is at the moment."""
    start_s = time.thread_time()
    for _ in range(PROBE_STEPS):
        pass
    return time.thread_time() - start_s
