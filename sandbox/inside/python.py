"""Inside the isolation boundary: a forked process as the interpreter that `python program.py` would have started.

The interpreter itself stays: its streams, its modules and its hashes are those of any fresh one, because the runner
starts with regular files as standard streams and touches none of them. What is done anew is what lies around a program:
the module `__main__`, uncaught exceptions, and the end. There each step calls what the interpreter calls, in its order:
threads are waited for, exit functions run, streams are flushed, modules go, cycles are collected, streams are flushed.
"""

import gc
import os
import signal
import sys
import types
from collections.abc import Callable
from importlib import machinery

BROKEN_OUTPUT = 120
# Frames between the bottom of the stack and a program's first one that a fresh interpreter does not have.
EXTRA_FRAMES = 1
# What the interpreter takes from `sys` before modules go, so that nothing can be imported any more.
SYS_NAMES = (
    "path", "argv", "ps1", "ps2", "last_type", "last_value", "last_traceback", "path_hooks", "path_importer_cache",
    "meta_path",
)  # fmt: skip


class MainProgram:
    """A compiled program, about to run as `__main__`; its code runs at the bottom of the stack, in the loader."""

    def __init__(self, code: types.CodeType, path: str, *, begin: Callable[[], None]) -> None:
        self._module = types.ModuleType("__main__")
        self.code = code
        self.namespace = self._module.__dict__
        self.status = 0
        self._is_interrupted = False
        self.namespace["__loader__"] = machinery.SourceFileLoader("__main__", path)
        self.namespace["__annotations__"] = {}
        self.namespace["__builtins__"] = sys.modules["builtins"]
        self.namespace["__file__"] = path
        self.namespace["__cached__"] = None
        sys.modules["__main__"] = self._module
        sys.argv = [path]
        sys.path.insert(0, os.path.dirname(path))
        sys.setrecursionlimit(sys.getrecursionlimit() + EXTRA_FRAMES)
        self._ours = frozenset(sys.modules) - {"__main__"}
        begin()

    def fail(self) -> None:
        """Does with the exception that just ended the program what the interpreter does; call while it is handled."""
        kind, error, traceback = sys.exc_info()
        if isinstance(error, SystemExit):
            self.status = status_of(error.code)
            return
        self._is_interrupted = isinstance(error, KeyboardInterrupt)
        self.status = 1
        # The first frame is the loader's.
        error.__traceback__ = traceback.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = kind, error, traceback.tb_next
        try:
            sys.excepthook(kind, error, traceback.tb_next)
        except SystemExit as last:
            self.status = status_of(last.code)
        except BaseException as broken:
            print("Error in sys.excepthook:", file=sys.stderr)
            sys.__excepthook__(type(broken), broken, broken.__traceback__)
            print("\nOriginal exception was:", file=sys.stderr)
            sys.__excepthook__(kind, error, traceback.tb_next)

    def finish(self) -> None:
        """Ends this process as the interpreter ends; never returns."""
        try:
            self._wind_up()
        finally:
            if self._is_interrupted:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                os.kill(os.getpid(), signal.SIGINT)
            os._exit(self.status)

    def _wind_up(self) -> None:
        # Not imported here: forking a process that has it costs 0.3 ms.
        if threading := sys.modules.get("threading"):
            _unraisable(threading._shutdown)
        import atexit

        atexit._run_exitfuncs()
        is_flushed = flush_streams()
        for name in SYS_NAMES:
            if hasattr(sys, name):
                setattr(sys, name, None)
        for name in ("stdin", "stdout", "stderr"):
            setattr(sys, name, getattr(sys, f"__{name}__"))
        self._drop_modules()
        if not (flush_streams() and is_flushed):
            self.status = BROKEN_OUTPUT

    def _drop_modules(self) -> None:
        """Lets go of all that the program made; what nothing holds goes at once, in the order of its names."""
        theirs = [sys.modules.pop(name) for name in list(sys.modules) if name not in self._ours]
        main, self._module, self.namespace, self.code = self._module, None, None, None
        files = [module for module in theirs if module is not main and _is_programs(module, main)]
        del theirs
        kept = sys.getrefcount(main) > 2
        if kept:
            files.append(main)
        del main
        gc.collect()
        for module in reversed(files):
            _empty_namespace(module.__dict__)
        del files
        gc.collect()


def status_of(code: object) -> int:
    """The exit status that SystemExit asks for; anything but None and whole numbers is printed."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
    print(code, file=sys.stderr)
    return 1


def flush_streams() -> bool:
    """Flushes standard output and standard error; False where one of them cannot be written."""
    is_flushed = True
    for stream, tells in ((sys.stdout, True), (sys.stderr, False)):
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except BaseException as error:
            is_flushed = False
            if tells:
                sys.unraisablehook(_Unraisable(error, stream))
    return is_flushed


class _Unraisable:
    """What `sys.unraisablehook` takes."""

    def __init__(self, error: BaseException, thing: object) -> None:
        self.exc_type, self.exc_value, self.exc_traceback = type(error), error, error.__traceback__
        self.err_msg, self.object = None, thing


def _unraisable(action: Callable[[], object]) -> None:
    try:
        action()
    except BaseException as error:
        sys.unraisablehook(_Unraisable(error, action))


def _is_programs(module: object, main: types.ModuleType) -> bool:
    folder = os.path.dirname(main.__dict__.get("__file__") or "")
    return str(getattr(module, "__file__", "") or "").startswith(folder + "/")


def _empty_namespace(namespace: dict) -> None:
    """Empties a module that something still holds: names with one underscore first, `__builtins__` last of all."""
    for is_first in (True, False):
        for name in list(namespace):
            has_one = name.startswith("_") and not name.startswith("__")
            if namespace[name] is not None and has_one == is_first and name != "__builtins__":
                namespace[name] = None
