"""Edge: runs inside the isolation boundary. Compiles a program once and forks one fresh child for each test.

Standard library alone, so that the file can be started by any interpreter of an image. Speaks length-prefixed JSON on
its own standard input and output: `program` compiles, `input` stores one test's input in a private file, `run` runs
the compiled program on it. It holds no expected output and decides no verdict that needs one.
"""

import base64
import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time
import traceback
import types

HEADER = struct.Struct(">I")
STARTED = struct.Struct("d")
POLL_S = 0.02
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PR_SET_CHILD_SUBREAPER = 36
STDERR_BYTES = 4096
STACK_BYTES = 512 << 20


def main() -> None:
    """Serves requests until standard input ends."""
    control_in, control_out = os.dup(0), os.dup(1)
    with open(os.devnull, "r+b", buffering=0) as null:
        for descriptor in (0, 1):
            os.dup2(null.fileno(), descriptor)
    # Orphans of a test (double forks, daemons) become children of this process, which can then find and kill them.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="runner-") as directory:
        runner = Runner(directory, private=(control_in, control_out))
        gc.collect()
        gc.freeze()
        while (request := receive(control_in)) is not None:
            send(control_out, runner.answer(request))


def receive(descriptor: int) -> dict | None:
    """Next message, or None at the end of the stream."""
    head = _exactly(descriptor, HEADER.size)
    if head is None:
        return None
    body = _exactly(descriptor, HEADER.unpack(head)[0])
    return None if body is None else json.loads(body)


def send(descriptor: int, message: dict) -> None:
    body = json.dumps(message).encode()
    view = memoryview(HEADER.pack(len(body)) + body)
    while view:
        view = view[os.write(descriptor, view) :]


def _exactly(descriptor: int, size: int) -> bytes | None:
    parts = []
    while size:
        part = os.read(descriptor, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Runner:
    """State between requests: the compiled program and the files that hold the inputs of tests."""

    def __init__(self, directory: str, *, private: tuple[int, ...]) -> None:
        self._directory = directory
        self._scratch = os.path.join(directory, "scratch")
        os.mkdir(self._scratch)
        self._private = private
        self._code: types.CodeType | None = None
        self._answers = {"input": self._store, "program": self._compile, "run": self._run, "pin": self._pin}

    def answer(self, request: dict) -> dict:
        return self._answers[request["do"]](request)

    def _pin(self, request: dict) -> dict:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {request["cpu"]})
        return {"pid": os.getpid()}

    def _store(self, request: dict) -> dict:
        with open(self._path(request), "wb") as file:
            file.write(request["text"].encode("utf-8", "surrogatepass"))
        return {}

    def _path(self, request: dict) -> str:
        return os.path.join(self._directory, f"{request['suite']}-{request['test']}")

    def _compile(self, request: dict) -> dict:
        self._code = None
        try:
            self._code = compile(request["text"], "program.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"error": None}

    def _run(self, request: dict) -> dict:
        limits = request["limits"]
        output = os.memfd_create("output")
        errors = os.memfd_create("errors")
        started_read, started_write = os.pipe()
        source = os.open(self._path(request), os.O_RDONLY)
        try:
            child = os.fork()
            if child == 0:
                self._become_program(source, output, errors, started_write, limits)
            os.close(started_write)
            started_write = -1
            report = watch(child, limits)
            report["wall_s"] = report.pop("ended_s") - _start_of(started_read, default=report.pop("forked_s"))
            report["output_bytes"] = os.fstat(output).st_size
            kept = min(report["output_bytes"], limits["output_bytes"] + 1)
            report["output"] = base64.b64encode(os.pread(output, kept, 0)).decode()
            report["errors"] = _tail(errors)
            return report
        finally:
            for descriptor in (output, errors, started_read, started_write, source):
                if descriptor >= 0:
                    os.close(descriptor)
            self._clean_scratch()

    def _clean_scratch(self) -> None:
        if os.listdir(self._scratch):
            shutil.rmtree(self._scratch, ignore_errors=True)
            os.makedirs(self._scratch, exist_ok=True)

    def _become_program(self, source: int, output: int, errors: int, started: int, limits: dict) -> None:
        """In the child, never returns: takes its streams and limits, then runs the program as `__main__`."""
        try:
            os.setsid()
            for target, descriptor in enumerate((source, output, errors)):
                os.dup2(descriptor, target)
            os.dup2(started, 3)
            os.closerange(4, 256)
            os.chdir(self._scratch)
            _limit(limits)
            exit_code = run_as_main(self._code)
        except BaseException:
            traceback.print_exc()
            exit_code = 1
        finally:
            os._exit(exit_code)


def _limit(limits: dict) -> None:
    file_bytes = max(limits["output_bytes"] + 1, limits["file_bytes"])
    wanted = {
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_DATA: limits["memory_bytes"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: int(limits["wall_s"]) + 2,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_STACK: STACK_BYTES,
    }
    for name, value in wanted.items():
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))


def run_as_main(code: types.CodeType) -> int:
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
    os.write(3, STARTED.pack(time.monotonic()))
    os.close(3)
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


def watch(child: int, limits: dict) -> dict:
    """Waits for a child, ends it at a limit, kills whatever it left behind, and reports what it used."""
    forked_s = time.monotonic()
    deadline_s = forked_s + limits["wall_s"]
    killed_for = ""
    handle = os.pidfd_open(child)
    try:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        while not poller.poll(1000 * max(0.0, min(POLL_S, deadline_s - time.monotonic()))):
            killed_for = _excess(child, limits) or ("time" if time.monotonic() >= deadline_s else "")
            if killed_for:
                _kill_group(child)
                break
        _, status, usage = os.wait4(child, 0)
        ended_s = time.monotonic()
    finally:
        os.close(handle)
    _kill_group(child)
    kill_descendants()
    return {
        "forked_s": forked_s,
        "ended_s": ended_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_memory_bytes": usage.ru_maxrss * 1024,
        "exit": os.waitstatus_to_exitcode(status),
        "killed_for": killed_for,
    }


def _excess(child: int, limits: dict) -> str:
    """Name of the limit that the running tree exceeds, if any."""
    tree = descendants(child)
    if len(tree) > limits["processes"]:
        return "processes"
    resident_bytes = 0
    for process in tree:
        with contextlib.suppress(OSError, IndexError), open(f"/proc/{process}/statm") as file:
            resident_bytes += int(file.read().split()[1]) * PAGE_BYTES
    return "memory" if resident_bytes > limits["memory_bytes"] else ""


def descendants(root: int) -> list[int]:
    """A process and everything below it, as far as it still runs."""
    found, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        found.append(process)
        waiting += _children(process)
    return found


def _children(process: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{process}/task/{thread}/children") as file:
                children += map(int, file.read().split())
    return children


def _kill_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def kill_descendants() -> None:
    """Kills and reaps everything that still hangs below this process."""
    while orphans := _children(os.getpid()):
        for process in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for process in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, 0)


def _start_of(descriptor: int, *, default: float) -> float:
    """When the program itself began, by the child's clock reading from just before its first instruction."""
    with contextlib.suppress(OSError):
        if select.select([descriptor], [], [], 0)[0]:
            text = os.read(descriptor, STARTED.size)
            if len(text) == STARTED.size:
                return STARTED.unpack(text)[0]
    return default


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    start = max(0, size - STDERR_BYTES)
    return os.pread(descriptor, STDERR_BYTES, start).decode("utf-8", "replace")


if __name__ == "__main__":
    main()
