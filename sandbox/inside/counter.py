"""Inside the isolation boundary: counts the instructions of a program, where the processor and the kernel allow it.

A third clock beside wall and processor time, which no neighbour can disturb. Virtual machines seldom have it and
containers are seldom allowed to use it: a counter that is not available is None, and nothing depends on it.
"""

import contextlib
import os
import struct

# Numbers of perf_event_open, which the C library has no function for.
CALLS = {"x86_64": 298, "aarch64": 241}
PROCESSOR_COUNTERS = "/sys/bus/event_source/devices/cpu"
HARDWARE, INSTRUCTIONS = 0, 1
# What descendants do counts too. Instructions count in user space alone: the kernel's depend on the state of the host.
INHERITED, NO_KERNEL = 1 << 1, 1 << 5 | 1 << 6
CLOSE_ON_EXEC = 8
# The first published form of perf_event_attr, 64 bytes, which every kernel accepts.
_ATTRIBUTES = struct.Struct("=IIQQQQQ16x")
_COUNT = struct.Struct("=Q")


class Counter:
    """Counts events of a process and of everything that it forks from now on.

    Attributes:
      descriptor: the open counter, as perf_event_open returned it.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def read(self) -> int:
        """Return the count so far; for time events, nanoseconds."""
        return _COUNT.unpack(os.read(self.descriptor, _COUNT.size))[0]

    def close(self) -> None:
        os.close(self.descriptor)


def instructions_of(process: int) -> Counter | None:
    """Open a counter of the instructions that a process and its descendants execute in user space.

    Returns:
      The counter; None where the processor shows none or the kernel refuses it.
    """
    return opened(process, kind=HARDWARE, event=INSTRUCTIONS) if os.path.exists(PROCESSOR_COUNTERS) else None


def opened(process: int, *, kind: int, event: int, counts_kernel: bool = False) -> Counter | None:
    """Open a counter of any event that the kernel knows; it counts at once, from 0.

    Args:
      process: whom to count, with all that it forks from now on; 0 is this process.
      kind: the kind of event (PERF_TYPE of the kernel's interface).
      event: the event, within its kind.
      counts_kernel: whether to count what happens in the kernel too.

    Returns:
      The counter; None where the kernel refuses it or this processor architecture is not in CALLS.
    """
    call = CALLS.get(os.uname().machine)
    if call is None:
        return None
    flags = INHERITED if counts_kernel else INHERITED | NO_KERNEL
    # Imported only where needed: programs are forked from this process and pay for what it holds.
    import ctypes

    attributes = _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, event, 0, 0, 0, flags)
    with contextlib.suppress(OSError, AttributeError):
        descriptor = ctypes.CDLL(None).syscall(call, attributes, process, -1, -1, CLOSE_ON_EXEC)
        return Counter(descriptor) if descriptor >= 0 else None
    return None
