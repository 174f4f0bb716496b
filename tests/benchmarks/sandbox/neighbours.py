"""Edge: processes that disturb: busy ones, and restless ones that come and go as neighbours on a shared host do."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

BUSY = "while True: pass"
# Bursts of 0.1 to 5 s, and pauses of the same lengths, of traffic that no cache holds or that fills the caches.
RESTLESS = """
import random, sys, time
chance = random.Random(int(sys.argv[1]))
big, other = bytearray(64 << 20), bytearray(64 << 20)
small = list(range(300_000))
chance.shuffle(small)
while True:
    until = time.monotonic() + 0.1 * 50 ** chance.random()
    is_stream = chance.random() < 0.5
    while time.monotonic() < until:
        if is_stream:
            other[:] = big
        else:
            sum(small)
    time.sleep(0.1 * 50 ** chance.random())
"""


@contextlib.contextmanager
def _processes(programs: list[list[str]], cores: list[int | None]) -> Iterator[None]:
    started = []
    try:
        for program, core in zip(programs, cores, strict=True):
            pin = f"import os; os.sched_setaffinity(0, {{{core}}})\n" if core is not None else ""
            started.append(subprocess.Popen([sys.executable, "-c", pin + program[0], *program[1:]]))
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def burners(count: int, *, cpu: int | None = None) -> contextlib.AbstractContextManager[None]:
    """Processes that never rest, anywhere or on one core."""
    return _processes([[BUSY]] * count, [cpu] * count)


def restless(*, seed: int = 1) -> contextlib.AbstractContextManager[None]:
    """One restless process on every core that this one may use."""
    cores: list[int | None] = [*sorted(os.sched_getaffinity(0))]
    return _processes([[RESTLESS, str(seed + n)] for n in range(len(cores))], cores)
