"""Inside the isolation boundary: when a program began, how long it waited for its core, how fast that core is now.

A process that is ready while others have its core is not running: the kernel counts that time, and a program's own
seconds are its wall seconds without it. That hides nothing, because the seconds of a program are never less than the
processor time of everything it started.
"""

import contextlib
import os
import select
import struct
import time
from typing import NamedTuple

START_DESCRIPTOR = 3
PROBE_STEPS = 50_000
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Start(NamedTuple):
    """A child's clocks just before its program's first instruction."""

    at_s: float
    cpu_s: float
    waited_s: float


_START = struct.Struct("ddd")


def mark_start() -> None:
    """Tells the watcher that the program begins now; the descriptor is gone afterwards."""
    waited = waited_s("self")
    os.write(START_DESCRIPTOR, _START.pack(time.monotonic(), time.process_time(), waited))
    os.close(START_DESCRIPTOR)


def start_of(descriptor: int, *, default_s: float) -> Start:
    """What `mark_start` wrote, or `default_s` and zeros for a program that never began."""
    is_written = select.select([descriptor], [], [], 0)[0]
    mark = os.read(descriptor, _START.size) if is_written else b""
    return Start(*_START.unpack(mark)) if len(mark) == _START.size else Start(default_s, 0.0, 0.0)


def waited_s(process: int | str) -> float:
    """Seconds that a process was ready to run and had no core; 0 where the kernel does not count them."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(said(f"/proc/{process}/schedstat").split()[1]) * 1e-9
    return 0.0


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


def consumed_s(process: int) -> float:
    """Processor seconds of a living process and its threads; 0 where it is gone."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = said(f"/proc/{process}/stat").rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return 0.0


def program_s(start: Start, *, ended_s: float, cpu_s: float, waited_s: float) -> float:
    """The program's own seconds: wall time without the wait for a core, never less than its processor time."""
    wall_s = ended_s - start.at_s
    return max(wall_s - max(0.0, waited_s - start.waited_s), min(wall_s, cpu_s))


def probe() -> float:
    """Seconds that a fixed loop takes: how fast this core is at the moment."""
    start_s = time.thread_time()
    for _ in range(PROBE_STEPS):
        pass
    return time.thread_time() - start_s
