"""Inside the isolation boundary: a process that holds one program, ready to run, and forks a child for each test.

It is separate from the runner because every page that either side touches after a fork is copied, and this process
touches few. In a container every child is born into a world of its own, which this process opens before and ends after
it. It also measures the end of the child and reports that.

A zygote is forked deep in the stack of `spawner`. It raises `Born`, which leaves that stack: a Python program has to
begin where a fresh interpreter begins, or it would reach its recursion limit earlier.
"""

import contextlib
import gc
import marshal
import os
import select
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from sandbox.inside import clocks, containment, groups, languages, worlds

# Descriptors of the runner (input, output, errors, mark of the start, files or -1), whether the output is a pipe, then
# limits in the order of LIMITS.
_GO = struct.Struct("=5i?5d")
STREAMS = 5
LIMITS = ("wall_s", "memory_bytes", "output_bytes", "processes", "file_bytes")
_READY = struct.Struct("=?")
_ENDED = struct.Struct("=4diq?")
_COMMANDS, _ANSWERS, _FAILURE = (clocks.WATCHER_STATE - n for n in (3, 2, 1))
# Status with which a child says, beside a mark in a pipe of ours, that its world could not be made: never a program's
# fault.
NO_WORLD = 3


class Home(NamedTuple):
    """Where programs run, and as whom.

    Attributes:
      scratch: the working directory of programs, which they may write to.
      program: directory of the program's own files.
      uid: the user that programs become; None leaves them the user of this process.
      group: the control group of programs, if there is one.
      is_isolated: whether every run gets a world of its own.
    """

    scratch: str
    program: str
    uid: int | None
    group: groups.ControlGroup | None = None
    is_isolated: bool = False


class Ended(NamedTuple):
    """The clocks at a child's end, and how it ended. The first four fields make a `clocks.Reading`.

    Attributes:
      at_s: `time.monotonic` at its end.
      used_s: processor seconds of everything that ran; without a meter those of the child and what it reaped.
      ran_s: seconds that its first thread ran.
      waited_s: seconds that this thread and the watching process were ready and had no core.
      status: as `os.waitpid` gives it.
      peak_memory_kib: peak resident memory of the child's own process (or of one that it reaped), in KiB.
      is_metered: whether `used_s` is of everything that ran.
    """

    at_s: float
    used_s: float
    ran_s: float
    waited_s: float
    status: int
    peak_memory_kib: int
    is_metered: bool

    @property
    def reading(self) -> clocks.Reading:
        """The clocks alone."""
        return clocks.Reading(*self[:4])


class Lost(RuntimeError):
    """The zygote has ended: our own fault, or memory ran out and the kernel killed it beside a program."""


class Born(BaseException):
    """Raised in a forked process that is a new zygote: leave the runner's stack, then call `zygote.serve`.

    Derives from BaseException so that no handler for errors on the way holds it up.
    """

    def __init__(self, zygote: "Nursery") -> None:
        super().__init__()
        self.zygote = zygote


class Zygote:
    """The runner's end of a zygote: two pipes and a process. Runs one child at a time.

    Attributes:
      process: number of the zygote's process.
      is_isolated: whether each child is the first process of a world of its own.
      answers: pipe that is readable once the child has ended.
    """

    def __init__(self, process: int, commands: int, answers: int, *, is_isolated: bool) -> None:
        """Take over a zygote that `spawner.Spawner` has forked, and wait until it is ready.

        Args:
          process: its number.
          commands: pipe to write orders to.
          answers: pipe to read answers from.
          is_isolated: whether each child is to be the first process of a world of its own.

        Raises:
          Lost: it ended before it was ready.
        """
        self.process = process
        self.is_isolated = is_isolated
        self._commands, self.answers = commands, answers
        self._read(_READY.size)

    def start(self, descriptors: Sequence[int], limits: dict, *, is_piped: bool = False) -> None:
        """Order the fork of a child that becomes the program; does not wait for it.

        Args:
          descriptors: files or pipes of this process for the child's input, output and errors, the pipe for
            `mark_start`, and a file for `languages.unpack_files`, or -1.
          limits: has at least the names in LIMITS.
          is_piped: whether the output is a pipe.

        Raises:
          Lost: the zygote has ended.
        """
        try:
            os.write(self._commands, _GO.pack(*descriptors, is_piped, *(limits[name] for name in LIMITS)))
        except BrokenPipeError:
            raise Lost("the zygote has ended") from None

    def is_over(self, *, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for the end of the child; tell whether it has ended."""
        return bool(select.select([self.answers], [], [], max(0.0, timeout_s))[0])

    def ended(self) -> Ended:
        """Wait for the end of the child and return its clocks and status; call it once per child.

        Raises:
          Lost: the zygote has ended, or could not make a world.
        """
        return Ended(*_ENDED.unpack(self._read(_ENDED.size)))

    def close(self) -> None:
        """Let the zygote end, once its child has, and reap it."""
        os.close(self._commands)
        os.close(self.answers)
        os.waitpid(self.process, 0)

    def _read(self, size: int) -> bytes:
        """Read exactly `size` bytes of answers; raise Lost where the pipe ends before."""
        found = b""
        while len(found) < size:
            part = os.read(self.answers, size - len(found))
            if not part:
                raise Lost("the zygote has ended")
            found += part
        return found


class Nursery:
    """The zygote's own end. It keeps nothing open but its own pipes: a pipe whose other end it held would never end."""

    def __init__(self, become: languages.Become, home: Home, *, streams: Sequence[int], runner: int) -> None:
        """Take over the open files in a process that was just forked, read the program, and close everything else.

        Args:
          become: turns forked processes into the program.
          home: where programs run, and as whom.
          streams: descriptors to read orders from, to write answers to, and to read the program from.
          runner: number of the runner's process.
        """
        # Held by itself, or every child would take it apart when it leaves this stack.
        self._self = self
        self._become = become
        self._home = home
        self._runner = runner
        self._meter: groups.Meter | None = None
        commands, answers, content = streams
        self._program = languages.Prepared(*marshal.loads(clocks.said(f"/proc/self/fd/{content}")))
        os.dup2(commands, _COMMANDS)
        os.dup2(answers, _ANSWERS)
        os.closerange(clocks.START_DESCRIPTOR, _COMMANDS)
        # The binary of a compiled program lies in a file of the runner's that has no name.
        with contextlib.suppress(FileNotFoundError):
            binary = os.open(f"/proc/{runner}/fd/{languages.PROGRAM_DESCRIPTOR}", os.O_RDONLY)
            os.dup2(binary, languages.PROGRAM_DESCRIPTOR)
            os.close(binary)

    def serve(self) -> None:
        """Fork a child for each command until there are no more, then exit; return only in a child.

        It has become a Python program, which runs where the interpreter's own text ends.
        """
        try:
            if self._home.group:
                self._home.group.join()
            meter = self._home.group.meter() if self._home.group else groups.tree_meter()
            self._meter = meter.moved_to(clocks.METER_DESCRIPTOR) if meter else None
            if self._home.is_isolated:
                worlds.prepare_template((self._home.program,))
            self._serve_children()
            return
        except BrokenPipeError:
            pass
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
        os._exit(0)

    def _serve_children(self) -> None:
        """Fork a child for each command, in a world of its own where there are worlds, and report its end."""
        containment.take_precedence()
        containment.limit_always()
        if self._home.uid is not None:
            os.setgroups([])
            os.umask(0o077)
        clocks.watch_from_here()
        gate = worlds.Gate() if self._home.is_isolated else None
        failures, failure = os.pipe()
        os.dup2(failure, _FAILURE)
        os.close(failure)
        os.set_blocking(failures, False)
        become = self._get_ready()
        while len(message := os.read(_COMMANDS, _GO.size)) == _GO.size:
            first = gate.open() if gate else None
            child = os.fork()
            if child == 0:
                return self._begin(message, first, become)
            status, report = self._report_on(child)
            if gate and first is not None:
                gate.close(first)
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) == NO_WORLD:
                with contextlib.suppress(BlockingIOError):
                    os.read(failures, 1)
                    break
            os.write(_ANSWERS, report)
        os._exit(0)

    def _get_ready(self) -> Callable[[], None]:
        """Make what every child starts from, tell the runner to go on, and return what turns a child into the program.

        All objects are frozen first, so that garbage collection in a child copies no pages. It has to reach those that
        belong to the program, which are made afterwards.
        """
        gc.collect()
        gc.freeze()
        become = self._become(self._program, self._meter)
        os.write(_ANSWERS, _READY.pack(True))
        return become

    def _begin(self, message: bytes, first: int | None, become: Callable[[], None]) -> None:
        """Prepare the child's surroundings, then become the program; `first` begins its world, if it has one."""
        try:
            self._take_streams(message)
            if first is not None:
                worlds.enter(first)
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            os.write(_FAILURE, b"!")
            _exit_now(NO_WORLD)
        self._be_program(message, become)

    def _report_on(self, child: int) -> tuple[int, bytes]:
        """Wait for the end of a child; return its status and the report.

        Until it is reaped, it still says how long it ran and waited.
        """
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        at_s, used_s = time.monotonic(), self._meter.read_s() if self._meter else 0.0
        ran_s, waited_s = clocks.schedule_of(child)
        # Others may have kept this process from the core too, just when it was to look at the clock.
        waited_s += clocks.schedule_in(os.pread(clocks.WATCHER_SCHEDULE, 64, 0)).waited_s
        if not self._home.is_isolated:
            containment.kill_group(child)
        _, status, usage = os.wait4(child, 0)
        if self._meter is None:
            used_s = usage.ru_utime + usage.ru_stime
        ended = (at_s, used_s, ran_s, waited_s, status, usage.ru_maxrss, self._meter is not None)
        return status, _ENDED.pack(*ended)

    def _take_streams(self, message: bytes) -> None:
        """Open the streams anew through the runner's descriptors: no position or flag of a file outlives its test."""
        *descriptors, is_piped = _GO.unpack(message)[: STREAMS + 1]
        # Whoever could read from its own output would keep its pipe alive.
        modes = (os.O_RDONLY, os.O_WRONLY if is_piped else os.O_RDWR, os.O_RDWR, os.O_WRONLY, os.O_RDWR)
        # What is opened next gets the lowest number that is free: 0, then 1, and so on.
        os.closerange(0, _COMMANDS)
        for descriptor, mode in zip(descriptors, modes, strict=True):
            if descriptor >= 0:
                os.set_inheritable(os.open(f"/proc/{self._runner}/fd/{descriptor}", mode), True)

    def _be_program(self, message: bytes, become: Callable[[], None]) -> None:
        """Take on the limits and the user in the child, then become the program."""
        try:
            os.setsid()
            os.closerange(_COMMANDS, clocks.WATCHER_STATE)
            os.chdir(self._home.scratch)
            wall_s, memory_bytes, output_bytes, processes, file_bytes = _GO.unpack(message)[STREAMS + 1 :]
            group = self._home.group
            containment.limit(
                wall_s=wall_s,
                memory_bytes=None if group and group.bounds_memory else int(memory_bytes),
                file_bytes=int(max(output_bytes + 1, file_bytes)),
            )
            if self._home.uid is not None:
                is_bounded = group is not None and group.bounds_tasks
                containment.become_user(self._home.uid, processes=None if is_bounded else int(processes))
            if self._program.role:
                languages.unpack_files(self._program.role)
            become()
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
            _exit_now(1)


def _exit_now(status: int) -> NoReturn:
    os._exit(status)
