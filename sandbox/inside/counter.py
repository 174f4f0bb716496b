"""Inside the isolation boundary: how many instructions a program took, where the processor and the kernel say it.

A third clock beside wall and processor time, which no neighbour moves. Virtual machines seldom have it and containers
seldom may use it: what is not there is None, and nothing depends on it.
"""

import contextlib
import os
import struct

CALLS = {"x86_64": 298, "aarch64": 241}
PROCESSOR_COUNTERS = "/sys/bus/event_source/devices/cpu"
HARDWARE, INSTRUCTIONS = 0, 1
# What descendants do counts too; of instructions those in user space alone: the kernel's depend on the host's state.
INHERITED, NO_KERNEL = 1 << 1, 1 << 5 | 1 << 6
CLOSE_ON_EXEC = 8
_ATTRIBUTES = struct.Struct("=IIQQQQQ16x")
_COUNT = struct.Struct("=Q")


class Counter:
    """Counts events of a process and of everything that it will fork."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def read(self) -> int:
        return _COUNT.unpack(os.read(self.descriptor, _COUNT.size))[0]

    def close(self) -> None:
        os.close(self.descriptor)


def instructions_of(process: int) -> Counter | None:
    """A counter of instructions, or None where there is none to be had."""
    return opened(process, kind=HARDWARE, event=INSTRUCTIONS) if os.path.exists(PROCESSOR_COUNTERS) else None


def opened(process: int, *, kind: int, event: int, counts_kernel: bool = False) -> Counter | None:
    """A counter of any event of the kernel's, or None where it is refused."""
    call = CALLS.get(os.uname().machine)
    if call is None:
        return None
    flags = INHERITED if counts_kernel else INHERITED | NO_KERNEL
    # Imported where it is needed: programs are forked from this process and pay for what it holds.
    import ctypes

    attributes = _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, event, 0, 0, 0, flags)
    with contextlib.suppress(OSError, AttributeError):
        descriptor = ctypes.CDLL(None).syscall(call, attributes, process, -1, -1, CLOSE_ON_EXEC)
        return Counter(descriptor) if descriptor >= 0 else None
    return None
