"""Inside the isolation boundary: when a program began, what it used, how long others kept it from its core.

A program's own seconds are its wall seconds without the time it waited for a core because of others. The kernel counts
how long its first thread was ready and had no core. Part of that wait may be the program's own doing, however: a helper
process has the core while the leader spins at the lowest priority. So whatever its other threads and processes consumed
meanwhile is subtracted from the wait first, whoever reaped them, and a program's seconds are never less than the
processor time of everything that ran.
"""

import os
import select
import struct
import time
from typing import NamedTuple, Protocol

# The pipe for the mark of the start, right behind the standard streams.
START_DESCRIPTOR = 3
# Where a program's process reads the state and the schedule of the process that watches for its end, which it would not
# find in a /proc of its own. The meter follows, then what programs may keep.
WATCHER_STATE, WATCHER_SCHEDULE, METER_DESCRIPTOR, PROGRAM_DESCRIPTOR = 252, 253, 254, 255
MOST_YIELDS = 1_000


class Schedule(NamedTuple):
    """What the scheduler counted for a process's first thread.

    Attributes:
      ran_s: seconds on a core.
      waited_s: seconds ready to run, but without a core.
    """

    ran_s: float
    waited_s: float


class Reading(NamedTuple):
    """All clocks of a run at one moment.

    Attributes:
      at_s: `time.monotonic`, the same in every process of a machine.
      used_s: processor seconds of everything that ran, by the meter; without one, of the program's processes alone.
      ran_s: seconds that the program's first thread has run.
      waited_s: seconds that this thread, and the process that watches for its end, were ready and had no core.
    """

    at_s: float
    used_s: float
    ran_s: float
    waited_s: float


_READING = struct.Struct("4d")


class ProcessorMeter(Protocol):
    """Tells, by `read_s`, the processor seconds of everything that ran so far; `groups.Meter` is one.

    Attributes:
      descriptor: the open file that it reads, closed in the program before its first instruction.
    """

    descriptor: int

    def read_s(self) -> float: ...


def mark_start(meter: ProcessorMeter | None) -> None:
    """Tell the watcher that the program begins now, from the program's process just before its first instruction.

    Writes one Reading to START_DESCRIPTOR, then closes that descriptor, the meter's and those of the watcher, so that
    the program inherits none of them.

    Args:
      meter: of everything that runs; None reads this process's own processor time instead.
    """
    # Some kernels account for what a process used only when it leaves its core. The watcher has to sleep from here on:
    # were it awake, it would wait for the core at the same time as the program, and that time would count twice.
    for _ in range(MOST_YIELDS):
        os.sched_yield()
        if is_asleep(os.pread(WATCHER_STATE, 512, 0)):
            break
    used_s = meter.read_s() if meter else time.process_time()
    ran_s, waited_s = schedule_of("self")
    waited_s += schedule_in(os.pread(WATCHER_SCHEDULE, 64, 0)).waited_s
    os.write(START_DESCRIPTOR, _READING.pack(time.monotonic(), used_s, ran_s, waited_s))
    os.close(START_DESCRIPTOR)
    os.closerange(WATCHER_STATE, PROGRAM_DESCRIPTOR)


def watch_from_here() -> None:
    """Open what `mark_start` reads of the watcher, this process; what it forks inherits it."""
    for name, target in (("stat", WATCHER_STATE), ("schedstat", WATCHER_SCHEDULE)):
        # A kernel that does not count waits has no such file; an empty one reads as zeros.
        path = f"/proc/self/{name}" if os.path.exists(f"/proc/self/{name}") else os.devnull
        opened = os.open(path, os.O_RDONLY)
        os.dup2(opened, target)
        os.close(opened)


def start_of(descriptor: int, *, default: Reading) -> Reading:
    """Return the reading that `mark_start` wrote, or `default` for a program that never began; never waits.

    Args:
      descriptor: the reading end of the pipe.
      default: what stands in for the mark, such as the moment of the fork.
    """
    is_written = select.select([descriptor], [], [], 0)[0]
    mark = os.read(descriptor, _READING.size) if is_written else b""
    return Reading(*_READING.unpack(mark)) if len(mark) == _READING.size else default


def schedule_of(process: int | str) -> Schedule:
    """Return what the scheduler counted for a living or unreaped process; zeros where the kernel does not count.

    Args:
      process: its number, or "self".
    """
    try:
        opened = os.open(f"/proc/{process}/schedstat", os.O_RDONLY)
        try:
            return schedule_in(os.read(opened, 64))
        finally:
            os.close(opened)
    except OSError:
        return Schedule(0.0, 0.0)


def schedule_in(text: bytes) -> Schedule:
    """Read the text of a process's `schedstat`; zeros where it is empty."""
    ran, waited, *_ = text.split() or (0, 0)
    return Schedule(int(ran) * 1e-9, int(waited) * 1e-9)


def is_asleep(text: bytes) -> bool:
    """Tell from the text of a process's `stat` whether it is neither running nor waiting for a core."""
    return text.rpartition(b")")[2].split(None, 1)[:1] != [b"R"]


def own_cpu_s() -> float:
    """Return the processor seconds of this process up to this very moment."""
    return time.process_time()


def said(path: str) -> bytes:
    """Read a file of the kernel without Python's file layers, for which every forked process would pay.

    Raises:
      OSError: there is no such file, or its process has gone.
    """
    descriptor = os.open(path, os.O_RDONLY)
    parts = []
    try:
        while part := os.read(descriptor, 65_536):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def program_s(start: Reading, end: Reading, *, is_metered: bool) -> float:
    """Return the program's own seconds between two readings.

        wall - max(0, wait of the first thread and of its watcher - processor time of all other threads and processes)

    but at least the processor time of everything that ran, as far as the wall time allows. On one core the formula
    alone would do, because the wall time contains what the first thread ran and waited; but thread and watcher can wait
    at the same time.

    Args:
      start: made by `mark_start`.
      end: made when the program ended.
      is_metered: whether `used_s` covers everything that ran. Where it does not, the result is the wall time: nobody
        can tell whose fault a wait was.

    Returns:
      Seconds, at most those of the wall.
    """
    wall_s = end.at_s - start.at_s
    if not is_metered:
        return wall_s
    return max(wall_s - foreign_wait_s(start, end), min(wall_s, max(0.0, end.used_s - start.used_s)))


def foreign_wait_s(start: Reading, end: Reading) -> float:
    """Return how many seconds others kept a program from its core: its wait, less what the rest of it consumed.

    Never negative. Both readings have to come from the same meter.
    """
    others_s = max(0.0, (end.used_s - start.used_s) - (end.ran_s - start.ran_s))
    return max(0.0, end.waited_s - start.waited_s - others_s)
