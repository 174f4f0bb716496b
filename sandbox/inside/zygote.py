"""Inside the isolation boundary: a process that holds one program, ready to run, and forks a child for each test.

It stands apart from the runner because after a fork every page that either side touches is copied: this process touches
few. It also shields the runner from compilers that crash on a program.
"""

import gc
import os
import select
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sandbox.inside import clocks, containment, languages

# Descriptors of the runner (input, output, errors, mark of the start), then the limits in the order of LIMITS.
_GO = struct.Struct("=4i5d")
LIMITS = ("wall_s", "memory_bytes", "output_bytes", "processes", "file_bytes")
_PREPARED = struct.Struct("=?I")
_STARTED = struct.Struct("=i")
_ENDED = struct.Struct("=ddidq")
_COMMANDS, _ANSWERS = languages.PROGRAM_DESCRIPTOR - 2, languages.PROGRAM_DESCRIPTOR - 1


class Home(NamedTuple):
    """Where programs run and as whom: the user of this process where `uid` is None."""

    scratch: str
    uid: int | None


class Ended(NamedTuple):
    """When a child ended, how long it waited for its core, and what it used with all that it waited for."""

    at_s: float
    waited_s: float
    status: int
    cpu_s: float
    peak_memory_kib: int


class Lost(RuntimeError):
    """The zygote is gone, which no program can bring about."""


class Zygote:
    """The runner's end. Raises languages.Rejected where `prepare`, which runs in the zygote, raises it."""

    def __init__(self, prepare: Callable[[], Callable[[], int]], *, home: Home) -> None:
        theirs, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            _be_zygote(theirs, answers, prepare, home)
        os.close(theirs)
        os.close(answers)
        try:
            is_rejected, length = _PREPARED.unpack(self._read(_PREPARED.size))
            reason = self._read(length).decode("utf-8", "replace")
        except Lost:
            is_rejected, reason = True, "the compiler crashed"
        if is_rejected:
            self.close()
            raise languages.Rejected(reason)

    def start(self, descriptors: Sequence[int], limits: dict) -> int:
        """Forks a child on these streams; returns its process."""
        try:
            os.write(self._commands, _GO.pack(*descriptors, *(limits[name] for name in LIMITS)))
        except BrokenPipeError:
            raise Lost("the zygote has ended") from None
        return _STARTED.unpack(self._read(_STARTED.size))[0]

    def is_over(self, *, timeout_s: float) -> bool:
        """Waits for the end of the child, for as long as told."""
        return bool(select.select([self._answers], [], [], max(0.0, timeout_s))[0])

    def ended(self) -> Ended:
        """Waits for the end of the child and of its group."""
        return Ended(*_ENDED.unpack(self._read(_ENDED.size)))

    def close(self) -> None:
        os.close(self._commands)
        os.close(self._answers)
        os.waitpid(self.process, 0)

    def _read(self, size: int) -> bytes:
        """Exactly that many bytes; a pipe gives less only at its end, or of what is longer than it."""
        found = b""
        while len(found) < size:
            part = os.read(self._answers, size - len(found))
            if not part:
                raise Lost("the zygote has ended")
            found += part
        return found


def _be_zygote(commands: int, answers: int, prepare: Callable[[], Callable[[], int]], home: Home) -> None:
    """Keeps nothing open but its own ends: a pipe whose other end it held too would never end."""
    try:
        os.dup2(commands, _COMMANDS)
        os.dup2(answers, _ANSWERS)
        os.closerange(clocks.START_DESCRIPTOR, _COMMANDS)
        _serve(_prepared(prepare), home)
    except BrokenPipeError:
        pass
    finally:
        os._exit(0)


def _prepared(prepare: Callable[[], Callable[[], int]]) -> Callable[[], int]:
    try:
        become, reason = prepare(), ""
    except languages.Rejected as error:
        become, reason = None, str(error)
    text = reason.encode("utf-8", "replace")[: select.PIPE_BUF - _PREPARED.size]
    os.write(_ANSWERS, _PREPARED.pack(become is None, len(text)) + text)
    if become is None:
        os._exit(0)
    return become


def _serve(become: Callable[[], int], home: Home) -> None:
    runner = os.getppid()
    gc.freeze()
    while len(message := os.read(_COMMANDS, _GO.size)) == _GO.size:
        child = os.fork()
        if child == 0:
            _be_program(message, runner, become, home)
        os.write(_ANSWERS, _STARTED.pack(child))
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        # Until it is reaped, a dead process still says how long it waited, and no other group can have its number.
        at_s, waited_s = time.monotonic(), clocks.waited_s(child)
        containment.kill_group(child)
        _, status, usage = os.wait4(child, 0)
        cpu_s = usage.ru_utime + usage.ru_stime
        os.write(_ANSWERS, _ENDED.pack(at_s, waited_s, status, cpu_s, usage.ru_maxrss))


def _be_program(message: bytes, runner: int, become: Callable[[], int], home: Home) -> None:
    """In the child, never returns: takes its streams and limits, then becomes what it is for."""
    exit_code = 1
    try:
        os.setsid()
        *descriptors, wall_s, memory_bytes, output_bytes, processes, file_bytes = _GO.unpack(message)
        # Opened anew through the runner's descriptors: no position and no flag of a file outlives its test.
        modes = (os.O_RDONLY, os.O_RDWR, os.O_RDWR, os.O_WRONLY)
        for target, (descriptor, mode) in enumerate(zip(descriptors, modes, strict=True)):
            opened = os.open(f"/proc/{runner}/fd/{descriptor}", mode)
            if opened != target:
                os.dup2(opened, target)
                os.close(opened)
        os.closerange(clocks.START_DESCRIPTOR + 1, languages.PROGRAM_DESCRIPTOR)
        os.chdir(home.scratch)
        containment.limit(
            wall_s=wall_s,
            memory_bytes=int(memory_bytes),
            file_bytes=int(max(output_bytes + 1, file_bytes)),
        )
        if home.uid is not None:
            containment.become_user(home.uid, processes=int(processes))
        exit_code = become()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(exit_code)
