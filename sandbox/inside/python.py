"""Inside the isolation boundary: turns a forked process into the interpreter that `python program.py` would start.

The interpreter itself stays: its streams, its modules and its hashes are those of any fresh one, because the runner
starts with regular files as standard streams and touches none of them. A program runs as an exit function, after the
text that the interpreter was started with has ended, so that no frame of ours lies below the program's first one (it
would reach its recursion limit earlier and would see us in its tracebacks). An exception arrives here the way one from
any exit function does.

The end makes the interpreter's calls in the interpreter's order: threads are waited for, exit functions run, streams
are flushed, modules go, cycles are collected, streams are flushed. The interpreter's own end would do the same to a
thousand objects of the library, which takes milliseconds; it is used where a program shows that it could tell the
difference.
"""

import atexit
import gc
import itertools
import marshal
import os
import signal
import sys
import types
from collections.abc import Callable, Sequence
from importlib import machinery

BROKEN_OUTPUT = 120
# A program that uses one of these names could tell our end from the interpreter's, and gets the latter.
TELLING_NAMES = frozenset(
    ("__del__", "__main__", "weakref", "finalize", "builtins", "detach", "modules", "is_finalizing", "meta_path")
)
# What the interpreter takes from `sys` before modules go, so that nothing can be imported any more.
SYS_NAMES = (
    "path", "argv", "ps1", "ps2", "last_type", "last_value", "last_traceback", "path_hooks", "path_importer_cache",
    "meta_path",
)  # fmt: skip


class MainProgram:
    """A program about to run as `__main__`, once the text that started this interpreter has ended.

    All that does not depend on a single run is made once, in the process that forks: what a forked process writes to,
    it has to copy first. `load` is the rest.
    """

    def __init__(self, path: str, arguments: Sequence[str], *, begin: Callable[[], None]) -> None:
        """Set up `__main__`, `sys.argv` and `sys.path` as `python PATH ARGUMENTS` would; nothing runs before `load`.

        Args:
          path: the program's source file; modules are also found in the directory of that.
          arguments: of its command line, after its name.
          begin: called just before the program's first instruction.
        """
        # If nobody held the module of the text that started this interpreter, every forked process would take it apart.
        self._text = sys.modules["__main__"]
        self._module: types.ModuleType | None = types.ModuleType("__main__")
        # Called as a function, it lies no deeper in the stack than a module's code; under `exec` it would, by one.
        nothing = compile("", path, "exec")
        self._main: types.FunctionType | None = types.FunctionType(nothing, self._module.__dict__)
        self._is_telling = False
        self._status = 0
        self._is_interrupted = False
        namespace = self._module.__dict__
        namespace["__loader__"] = machinery.SourceFileLoader("__main__", path)
        namespace["__annotations__"] = {}
        namespace["__builtins__"] = sys.modules["builtins"]
        namespace["__file__"] = path
        namespace["__cached__"] = None
        sys.modules["__main__"] = self._module
        sys.argv = [path, *arguments]
        sys.path.insert(0, os.path.dirname(path))
        self._ours = frozenset(sys.modules) - {"__main__"}
        self._begin = begin
        # Whatever this process registered for its own end must not run at a program's. Exit functions run in reverse
        # order: `begin`, the program, then what ends the process.
        atexit._clear()
        sys.unraisablehook = self._catch
        for function in (self._finish, self._main, begin):
            atexit.register(function)

    def load(self, made: bytes) -> None:
        """Take what `marshalled` made, in the process that is to run it: when that has left its stack, it runs."""
        assert self._main is not None
        # marshal is not safe on forged data, but this runs as the program's user: a forger could only attack itself.
        self._main.__code__, self._is_telling = marshal.loads(made)

    def _catch(self, raised: "sys.UnraisableHookArgs") -> None:
        """Treat the exception that ended the program as the interpreter would; leave all others to the interpreter."""
        error, traceback = raised.exc_value, raised.exc_traceback
        if error is None or self._main is None or raised.object is not self._main:
            sys.__unraisablehook__(raised)
            return
        if isinstance(error, SystemExit):
            self._status = status_of(error.code)
            return
        self._is_interrupted = isinstance(error, KeyboardInterrupt)
        self._status = 1
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, traceback
        broken = self._call_hook(error, traceback)
        if isinstance(broken, SystemExit):
            self._status = status_of(broken.code)
        elif broken is not None:
            # The first frame is ours.
            if broken.__traceback__ is not None:
                broken.__traceback__ = broken.__traceback__.tb_next
            print("Error in sys.excepthook:", file=sys.stderr)
            sys.__excepthook__(type(broken), broken, broken.__traceback__)
            print("\nOriginal exception was:", file=sys.stderr)
            sys.__excepthook__(type(error), error, traceback)

    def _call_hook(self, error: BaseException, traceback: types.TracebackType | None) -> BaseException | None:
        """Call the program's `sys.excepthook`; return what it raises, if anything."""
        try:
            sys.excepthook(type(error), error, traceback)
        except BaseException as broken:
            return broken
        return None

    def _finish(self) -> None:
        """End this process as the interpreter would; return only where the interpreter is to do the rest itself."""
        try:
            if self._main is not None:
                atexit.unregister(self._main)
            atexit.unregister(self._begin)
            atexit.unregister(self._finish)
            # Not imported here: forking a process that has it costs 0.3 ms.
            if threading := sys.modules.get("threading"):
                _unraisable(threading._shutdown)
            atexit._run_exitfuncs()
            if self._is_telling and self._status == 0:
                sys.unraisablehook = sys.__unraisablehook__
                self._module = self._main = None
                return
            self._wind_up()
        except BaseException as error:
            sys.__excepthook__(type(error), error, error.__traceback__)
        if self._is_interrupted:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(self._status)

    def _wind_up(self) -> None:
        """Flush, take from `sys` what the interpreter takes, drop the program's modules, and flush again."""
        is_flushed = flush_streams()
        for name in SYS_NAMES:
            if hasattr(sys, name):
                setattr(sys, name, None)
        for name in ("stdin", "stdout", "stderr"):
            setattr(sys, name, getattr(sys, f"__{name}__"))
        self._drop_modules()
        # A stream that could not be written once is not reported again.
        if not (is_flushed and flush_streams()):
            self._status = BROKEN_OUTPUT

    def _drop_modules(self) -> None:
        """Let go of all that the program made; what nothing else holds goes at once, in the order of its names."""
        # Later modules stand behind earlier ones. To go through all would copy every page that has one of their names.
        names = [*itertools.takewhile(lambda name: name not in self._ours, reversed(sys.modules)), "__main__"]
        theirs = [sys.modules.pop(name) for name in reversed(names) if name in sys.modules]
        main, self._module, self._main = self._module, None, None
        if main is None:
            return
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
    """Return the exit status that SystemExit asks for, as the interpreter determines it.

    Args:
      code: None is 0; a whole number is taken modulo 256 (255 where it exceeds 64 bits); anything else is printed on
        standard error and is 1.
    """
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
    print(code, file=sys.stderr)
    return 1


def flush_streams() -> bool:
    """Flush standard output and standard error, as the interpreter does at its end.

    Returns:
      False where one of them cannot be written; only for standard output the error is shown too.
    """
    is_flushed = True
    for name, tells in (("stdout", True), ("stderr", False)):
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except BaseException as error:
            is_flushed = False
            if tells:
                _report_unraisable(error, stream)
    return is_flushed


def marshalled(code: types.CodeType) -> bytes:
    """Return a compiled program in the form that `MainProgram.load` takes."""
    return marshal.dumps((code, bool(_names_of(code) & TELLING_NAMES)))


def _names_of(code: types.CodeType) -> set[str]:
    """Return all names that a program uses, in its functions and classes too."""
    names = {*code.co_names, *code.co_varnames, code.co_name}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_of(constant)
    return names


def _kind_of_unraisables() -> type:
    """Find the type of what `sys.unraisablehook` takes, which no module has a name for."""
    kinds: list[type] = []

    class Broken:
        def __del__(self) -> None:
            raise ValueError

    usual, sys.unraisablehook = sys.unraisablehook, lambda raised: kinds.append(type(raised))
    Broken()
    sys.unraisablehook = usual
    return kinds[0]


_UNRAISABLE = _kind_of_unraisables()


def _report_unraisable(error: BaseException, thing: object) -> None:
    """Report an error that nobody can catch, without the frames of this module; one in the reporting has no effect."""
    error.__traceback__ = None
    try:
        sys.unraisablehook(_UNRAISABLE((type(error), error, None, None, thing)))
    except BaseException:
        # Where standard error cannot be written either, nobody can be told.
        return


def _unraisable(action: Callable[[], object]) -> None:
    """Do something, and report any exception as the interpreter reports those that it cannot raise."""
    try:
        action()
    except BaseException as error:
        _report_unraisable(error, action)


def _is_programs(module: object, main: types.ModuleType) -> bool:
    """Tell whether a module was loaded from the program's own directory."""
    folder = os.path.dirname(main.__dict__.get("__file__") or "")
    return str(getattr(module, "__file__", "") or "").startswith(folder + "/")


def _empty_namespace(namespace: dict) -> None:
    """Empty a module that something still holds: names with one underscore first, `__builtins__` never."""
    for is_first in (True, False):
        for name in list(namespace):
            has_one = name.startswith("_") and not name.startswith("__")
            if namespace[name] is not None and has_one == is_first and name != "__builtins__":
                namespace[name] = None
