"""Inside the isolation boundary: the languages, each as what is done once with a program and how a process becomes it.

A language may have a tool, such as a compiler, that reads the program first; it runs like a program: in a world of its
own, as the user of programs and under limits. Nothing of a program is read with more rights than it will run with.
"""

import fcntl
import functools
import marshal
import os
import sys
import types
from collections.abc import Callable
from typing import NamedTuple

from sandbox.inside import clocks, groups, python

# Where the file of a program lies in every process that needs one; far from what programs open themselves.
PROGRAM_DESCRIPTOR = 255
PROGRAM_FILE = "program"
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
PYPY = "/usr/bin/pypy3"


class Rejected(Exception):
    """The program does not compile; the message is the compiler's."""


class Prepared(NamedTuple):
    """A program ready to run: where its source lies, and what its tool has made of it and said about it."""

    path: str
    made: bytes = b""
    warnings: bytes = b""


# In the forked process, just before the program's first instruction: returns what the loader is to run, or never.
Become = Callable[[Prepared, "groups.Meter | None"], "python.MainProgram | None"]


class Language(NamedTuple):
    """`become` turns a forked process into the program.

    `tool` turns a process into what reads the source on its standard input first and ends with another status than 0
    where that is no program; `needs` is the file that has to be in the image for it. What the tool leaves is the
    standard output or, where it `leaves_binary`, that file of the scratch directory.
    """

    become: Become
    tool: Become
    suffix: str = ".py"
    needs: str = ""
    leaves_binary: bool = False


def put_in_memory(content: bytes) -> None:
    """Makes a file that is nowhere else and that nobody can change, at PROGRAM_DESCRIPTOR."""
    file = os.memfd_create(PROGRAM_FILE, os.MFD_ALLOW_SEALING)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, SEALS)
    os.dup2(file, PROGRAM_DESCRIPTOR)
    os.close(file)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def in_forked_interpreter(program: Prepared, meter: groups.Meter | None) -> python.MainProgram:
    """Python in the process as it is: nothing starts anew, so that only the program's own time is measured."""
    os.write(2, program.warnings)
    # As the program's user: whoever could forge this could only attack itself.
    code: types.CodeType = marshal.loads(program.made)
    return python.MainProgram(code, program.path, begin=functools.partial(clocks.mark_start, meter))


def compile_python(program: Prepared, _: groups.Meter | None) -> None:
    """Compiles standard input as the interpreter reads a file, and writes the code."""
    os.close(clocks.START_DESCRIPTOR)
    source = b"".join(iter(functools.partial(os.read, 0, 1 << 16), b""))
    try:
        code = compile(source, program.path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        os.write(2, f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace"))
        os._exit(1)
    rest = memoryview(marshal.dumps(code))
    while rest:
        rest = rest[os.write(1, rest) :]
    os._exit(0)


def interpret(program: Prepared, meter: groups.Meter | None, *, interpreter: str) -> None:
    """Replaces this process by a fresh interpreter; its start is part of the measured time."""
    clocks.mark_start(meter)
    os.execv(interpreter, [interpreter, program.path])


def execute(_: Prepared, meter: groups.Meter | None) -> None:
    """Replaces this process by the binary at PROGRAM_DESCRIPTOR."""
    clocks.mark_start(meter)
    os.execve(PROGRAM_DESCRIPTOR, [PROGRAM_FILE], os.environ)


def run_tool(_: Prepared, meter: groups.Meter | None, *, command: tuple[str, ...]) -> None:
    clocks.mark_start(meter)
    os.execve(command[0], command, os.environ)


def _native(*command: str, suffix: str) -> Language:
    tool = functools.partial(run_tool, command=command)
    return Language(execute, tool, suffix, needs=command[0], leaves_binary=True)


_CHECK = "import sys; compile(sys.stdin.read(), 'program.py', 'exec')"
# Further languages are further entries; the image has to have their tools.
LANGUAGES = {
    "python3": Language(in_forked_interpreter, compile_python),
    "python3_fresh": Language(functools.partial(interpret, interpreter=sys.executable), compile_python),
    "pypy3": Language(
        functools.partial(interpret, interpreter=PYPY),
        functools.partial(run_tool, command=(PYPY, "-c", _CHECK)),
        needs=PYPY,
    ),
    "c": _native("/usr/bin/gcc", "-O2", "-std=c17", "-x", "c", "-o", PROGRAM_FILE, "-", "-lm", suffix=".c"),
    "cpp": _native("/usr/bin/g++", "-O2", "-std=c++17", "-x", "c++", "-o", PROGRAM_FILE, "-", suffix=".cpp"),
}
