"""Inside the isolation boundary: the ways in which a forked process becomes the program under test."""

import contextlib
import os
import signal
import sys
import threading
import traceback
import types

from sandbox.inside import clocks


def run_fresh(_: types.CodeType, source: str) -> int:
    """Replaces this process by a fresh interpreter; its start is part of the measured time."""
    program = os.memfd_create("program", 0)
    os.write(program, source.encode("utf-8", "surrogatepass"))
    os.lseek(program, 0, os.SEEK_SET)
    clocks.mark_start()
    os.execv(sys.executable, [sys.executable, f"/proc/self/fd/{program}"])


def run_as_main(code: types.CodeType, _: str = "") -> int:
    """Runs compiled code as a plain `python program.py` would and returns the exit status."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
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
        traceback.print_exc()
        status = 1
    return status or _wind_up()


def _wind_up() -> int:
    try:
        threading._shutdown()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        return 120
    return 0


def _status_of(code: object) -> int:
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


# Further languages are further ways to become a program: take the compiled code and its source, return the exit status.
LANGUAGES = {"python3": run_as_main, "python3_fresh": run_fresh}
