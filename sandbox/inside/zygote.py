"""Inside the isolation boundary: a process that holds one program, ready to run, and forks a child for each test.

It stands apart from the runner because after a fork every page that either side touches is copied: this process touches
few. In a container every child is born into a world of its own: its parent is the first process of that world, which
measures the end of the program, kills what it left behind and reports; the world ends with it.

A fork here happens deep in the runner's stack. A process that becomes something else raises `Born`, which leaves that
stack: a Python program has to begin where a fresh interpreter begins, or its recursion would end earlier.
"""

import contextlib
import gc
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from sandbox.inside import clocks, containment, groups, languages, python, worlds

# Descriptors of the runner (input, output, errors, mark of the start), then the limits in the order of LIMITS.
_GO = struct.Struct("=4i5d")
LIMITS = ("wall_s", "memory_bytes", "output_bytes", "processes", "file_bytes")
_READY = struct.Struct("=?")
_STARTED = struct.Struct("=i")
_ENDED = struct.Struct("=4diq?")
_COMMANDS, _ANSWERS, _REPORTS, _METER = (languages.PROGRAM_DESCRIPTOR - n for n in (4, 3, 2, 1))
# How the first process of a world says that it could not make it, which is no fault of a program's.
NO_WORLD = 3


class Home(NamedTuple):
    """Where programs run and as whom: the user of this process where `uid` is None.

    `group` is the control group of programs; with `is_isolated` every run gets a world of its own, and `program` is the
    directory of the program's files.
    """

    scratch: str
    program: str
    uid: int | None
    group: groups.ControlGroup | None = None
    is_isolated: bool = False


class Ended(NamedTuple):
    """The clocks at a child's end, how it ended, and its first process's peak; `is_metered`: `used_s` is of all."""

    at_s: float
    used_s: float
    ran_s: float
    waited_s: float
    status: int
    peak_memory_kib: int
    is_metered: bool

    @property
    def reading(self) -> clocks.Reading:
        return clocks.Reading(*self[:4])


class Lost(RuntimeError):
    """The zygote is gone, which no program can bring about."""


class Born(BaseException):
    """This process is a new zygote: leave the runner's stack, then `serve`."""

    def __init__(self, zygote: "Nursery") -> None:
        super().__init__()
        self.zygote = zygote


class Zygote:
    """The runner's end."""

    def __init__(self, become: languages.Become, program: languages.Prepared, *, home: Home) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        self.is_isolated = home.is_isolated
        self.process = os.fork()
        if self.process == 0:
            raise Born(Nursery(become, program, home, commands=commands, answers=answers))
        os.close(commands)
        os.close(answers)
        self._read(_READY.size)

    def start(self, descriptors: Sequence[int], limits: dict) -> int:
        """Forks a child on these streams; returns its process (in a world, the first process of that)."""
        try:
            os.write(self._commands, _GO.pack(*descriptors, *(limits[name] for name in LIMITS)))
        except BrokenPipeError:
            raise Lost("the zygote has ended") from None
        return _STARTED.unpack(self._read(_STARTED.size))[0]

    def is_over(self, *, timeout_s: float) -> bool:
        """Waits for the end of the child, for as long as told."""
        return bool(select.select([self._answers], [], [], max(0.0, timeout_s))[0])

    def ended(self) -> Ended:
        """Waits for the end of the child and of all that it left."""
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


class Nursery:
    """The zygote's own end: keeps nothing open but its own pipes, for one whose other end it held would never end."""

    def __init__(
        self, become: languages.Become, program: languages.Prepared, home: Home, *, commands: int, answers: int
    ) -> None:
        self._become = become
        self._program = program
        self._home = home
        os.dup2(commands, _COMMANDS)
        os.dup2(answers, _ANSWERS)
        os.closerange(clocks.START_DESCRIPTOR, _COMMANDS)
        self._runner = os.getppid()
        self._meter: groups.Meter | None = None

    def serve(self) -> python.MainProgram | None:
        """Forks a child for each command; returns in a child that has become a Python program, and nowhere else."""
        try:
            if self._home.group:
                self._home.group.join()
            meter = self._home.group.meter() if self._home.group else groups.tree_meter()
            self._meter = meter.moved_to(_METER) if meter else None
            if self._home.is_isolated:
                worlds.prepare_template((self._home.program,))
                return self._serve_worlds()
            return self._serve_here()
        except BrokenPipeError:
            pass
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
        os._exit(0)

    def _serve_here(self) -> python.MainProgram | None:
        """Every child is this process's own: for trusted code, and where cleaning is thought to be enough."""
        containment.take_precedence()
        self._get_ready()
        while len(message := os.read(_COMMANDS, _GO.size)) == _GO.size:
            child = os.fork()
            if child == 0:
                self._take_streams(message)
                return self._be_program(message)
            os.write(_ANSWERS, _STARTED.pack(child))
            os.write(_ANSWERS, self._report_on(child))
        os._exit(0)

    def _serve_worlds(self) -> python.MainProgram | None:
        gate = worlds.Gate()
        reports, report = os.pipe()
        os.set_blocking(reports, False)
        os.dup2(report, _REPORTS)
        os.close(report)
        self._get_ready()
        while len(message := os.read(_COMMANDS, _GO.size)) == _GO.size:
            first = gate.fork()
            if first == 0:
                return self._begin_world(message)
            os.write(_ANSWERS, _STARTED.pack(first))
            if os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) == NO_WORLD:
                break
            try:
                ended = os.read(reports, _ENDED.size)
            except BlockingIOError:
                # The watcher, or the kernel for want of memory, has killed the world as a whole.
                used_s = self._meter.read_s() if self._meter else 0.0
                ended = _ENDED.pack(time.monotonic(), used_s, 0.0, 0.0, signal.SIGKILL, 0, self._meter is not None)
            os.write(_ANSWERS, ended)
        os._exit(0)

    def _get_ready(self) -> None:
        gc.collect()
        gc.freeze()
        os.write(_ANSWERS, _READY.pack(True))

    def _begin_world(self, message: bytes) -> python.MainProgram | None:  # noqa: RET503
        """In the first process of a world: makes it, starts the program in it, and ends it after the program."""
        try:
            containment.take_precedence()
            self._take_streams(message)
            worlds.furnish()
            child = os.fork()
            if child == 0:
                return self._be_program(message)
            report = self._report_on(child)
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            os.write(_REPORTS, report)
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            _exit_now(NO_WORLD)
        _exit_now(0)

    def _report_on(self, child: int) -> bytes:
        """Waits for the end of a child. Until it is reaped, a dead process still says how long it ran and waited."""
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        at_s, used_s = time.monotonic(), self._meter.read_s() if self._meter else 0.0
        ran_s, waited_s = clocks.schedule_of(child)
        # Others may have kept this process too from the core, when it was to look at the clock.
        waited_s += clocks.schedule_of("self").waited_s
        containment.kill_group(child)
        _, status, usage = os.wait4(child, 0)
        if self._meter is None:
            used_s = usage.ru_utime + usage.ru_stime
        return _ENDED.pack(at_s, used_s, ran_s, waited_s, status, usage.ru_maxrss, self._meter is not None)

    def _take_streams(self, message: bytes) -> None:
        """Opens anew through the runner's descriptors: no position and no flag of a file outlives its test."""
        modes = (os.O_RDONLY, os.O_RDWR, os.O_RDWR, os.O_WRONLY)
        for target, (descriptor, mode) in enumerate(zip(_GO.unpack(message)[:4], modes, strict=True)):
            opened = os.open(f"/proc/{self._runner}/fd/{descriptor}", mode)
            if opened != target:
                os.dup2(opened, target)
                os.close(opened)

    def _be_program(self, message: bytes) -> python.MainProgram | None:
        """In the child: takes its limits and its user, then becomes what it is for."""
        try:
            os.setsid()
            wall_s, memory_bytes, output_bytes, processes, file_bytes = _GO.unpack(message)[4:]
            self._close_all_but_streams()
            os.chdir(self._home.scratch)
            group = self._home.group
            containment.limit(
                wall_s=wall_s,
                memory_bytes=None if group and group.bounds_memory else int(memory_bytes),
                file_bytes=int(max(output_bytes + 1, file_bytes)),
            )
            if self._home.uid is not None:
                is_bounded = group is not None and group.bounds_tasks
                containment.become_user(self._home.uid, processes=None if is_bounded else int(processes))
            return self._become(self._program, self._meter)
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
            _exit_now(1)

    def _close_all_but_streams(self) -> None:
        os.closerange(clocks.START_DESCRIPTOR + 1, _METER if self._meter else languages.PROGRAM_DESCRIPTOR)


def _exit_now(status: int) -> NoReturn:
    os._exit(status)
