"""Inside the isolation boundary: the languages, each as what is done once with a program and how a process becomes it.

A language may have a tool, such as a compiler, that reads the program first; it runs like a program, under limits and
as the user of programs. Other interpreters and binaries are started from a file in memory that nobody can change.
"""

import atexit
import fcntl
import functools
import os
import signal
import sys
import types
import warnings
from collections.abc import Callable
from typing import NamedTuple

from sandbox.inside import clocks

# Where the file of a program lies in every process that needs one; far from what programs open themselves.
PROGRAM_DESCRIPTOR = 255
BINARY = "program"
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class Rejected(Exception):
    """The program does not compile; the message is the compiler's."""


class Language(NamedTuple):
    """`prepare` takes the text and returns how a process becomes the program; it raises Rejected.

    `tool` is a command that reads the text first and ends with another status than 0 where it is no program; where it
    `leaves_binary`, that file of the scratch directory is the program, and else the text is. `needs_file` says that the
    program is started from PROGRAM_DESCRIPTOR.
    """

    prepare: Callable[[str], Callable[[], int]]
    tool: tuple[str, ...] = ()
    leaves_binary: bool = False
    needs_file: bool = False


def put_in_memory(content: bytes) -> None:
    """Makes a file that is nowhere else and that nobody can change, at PROGRAM_DESCRIPTOR."""
    file = os.memfd_create(BINARY, os.MFD_ALLOW_SEALING)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, SEALS)
    os.dup2(file, PROGRAM_DESCRIPTOR)
    os.close(file)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def in_forked_interpreter(text: str) -> Callable[[], int]:
    """Python in the process as it is: nothing starts anew, so that only the program's own time is measured."""
    code = _compiled(text)
    streams = (
        open(0, encoding="utf-8", errors="surrogateescape", closefd=False),
        open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False),
        open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1),
    )
    # What this process registered for its own end is no business of programs.
    atexit._clear()
    return functools.partial(_run_as_main, code, streams)


def in_fresh_interpreter(text: str) -> Callable[[], int]:
    """Python in a fresh interpreter."""
    _compiled(text)
    return functools.partial(_interpret, sys.executable)


def _compiled(text: str) -> types.CodeType:
    try:
        # What the compiler has to say of a program's style is for nobody: this process has no reader for it.
        with warnings.catch_warnings(action="ignore"):
            return compile(text, "program.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise Rejected(f"{type(error).__name__}: {error}") from None


def _interpret(path: str) -> int:
    """Replaces this process by a fresh interpreter; its start is part of the measured time."""
    clocks.mark_start()
    os.execv(path, [path, f"/proc/self/fd/{PROGRAM_DESCRIPTOR}"])


def _execute() -> int:
    clocks.mark_start()
    os.execve(PROGRAM_DESCRIPTOR, [BINARY], os.environ)


def _run_as_main(code: types.CodeType, streams: tuple) -> int:
    """Runs compiled code as a plain `python program.py` would and returns the exit status."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin, sys.stdout, sys.stderr = streams
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = streams
    sys.argv = ["program.py"]
    module = types.ModuleType("__main__")
    module.__builtins__ = __builtins__
    sys.modules["__main__"] = module
    clocks.mark_start()
    status = 0
    try:
        exec(code, module.__dict__)
    except SystemExit as error:
        status = _status_of(error.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    return _wind_up() or status


def _wind_up() -> int:
    """What an interpreter does at its end: waits for threads, calls what was registered, writes what is buffered."""
    try:
        # Not imported here: forking a process that has it costs 0.3 ms.
        if threading := sys.modules.get("threading"):
            threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 120
    return 0


def _status_of(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


_CHECK = "import sys; compile(sys.stdin.read(), 'program.py', 'exec')"
# Further languages are further entries; the image has to have their tools.
LANGUAGES = {
    "python3": Language(in_forked_interpreter),
    "python3_fresh": Language(in_fresh_interpreter, needs_file=True),
    "pypy3": Language(
        lambda _: functools.partial(_interpret, "/usr/bin/pypy3"),
        tool=("/usr/bin/pypy3", "-c", _CHECK),
        needs_file=True,
    ),
    "cpp": Language(
        lambda _: _execute,
        tool=("/usr/bin/g++", "-O2", "-std=c++17", "-x", "c++", "-o", BINARY, "-"),
        leaves_binary=True,
        needs_file=True,
    ),
}
