"""Edge: runs inside the isolation boundary. Compiles a program once and forks one fresh child for each test.

Standard library alone, so that the file can be started by any interpreter of an image. Speaks length-prefixed JSON on
its own standard input and output: `program` compiles, `input` stores one test's input in a private file, `run` runs
the compiled program on it. It holds no expected output and decides no verdict that needs one.

With `--uid N` it runs as root in a container: every program gets the user N, and whatever a program may write to is
emptied after each run.
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
import warnings
from collections.abc import Callable
from typing import BinaryIO

HEADER = struct.Struct(">I")
STARTED = struct.Struct("d")
POLL_S = 0.02
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PR_SET_CHILD_SUBREAPER = 36
STDERR_BYTES = 4096
STACK_BYTES = 512 << 20
PROBE_STEPS = 20_000
SHARED_PLACES = ("/tmp", "/dev/shm", "/dev/mqueue", "/var/tmp", "/run/lock")
OOM_COUNTERS = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")
SYSV_REMOVERS = {"shm": "shmctl", "sem": "semctl", "msg": "msgctl"}
IPC_RMID = 0


def main() -> None:
    """Serves requests until standard input ends."""
    control_in, control_out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "r+b", buffering=0) as null:
        for descriptor in (0, 1):
            os.dup2(null.fileno(), descriptor)
    # Orphans of a test (double forks, daemons) become children of this process, which can then find and kill them.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    uid = int(sys.argv[2]) if sys.argv[1:2] == ["--uid"] else None
    with tempfile.TemporaryDirectory(prefix="runner-", dir=None if uid is None else "/inputs") as directory:
        runner = Runner(directory, uid=uid)
        gc.collect()
        gc.freeze()
        while (request := receive(control_in)) is not None:
            send(control_out, runner.answers[request["do"]](request))


def receive(source: BinaryIO) -> dict | None:
    head = source.read(HEADER.size)
    return json.loads(source.read(*HEADER.unpack(head))) if len(head) == HEADER.size else None


def send(target: BinaryIO, message: dict) -> None:
    body = json.dumps(message).encode()
    target.write(HEADER.pack(len(body)) + body)
    target.flush()


class Runner:
    """State between requests: the compiled program and the files that hold the inputs of tests."""

    def __init__(self, directory: str, *, uid: int | None) -> None:
        self._directory = directory
        self._uid = uid
        self._scratch = "/tmp" if uid is not None else os.path.join(directory, "scratch")
        os.makedirs(self._scratch, exist_ok=True)
        self._code, self._source = None, ""
        self._becomes = run_as_main
        self._probe_s = 0.0
        self._oom_kills = oom_kills()
        self.answers = {"input": self._store, "forget": self._forget, "program": self._compile, "run": self._run}

    def _store(self, request: dict) -> dict:
        with open(f"{self._directory}/{request['suite']}-{request['test']}", "wb") as file:
            file.write(request["text"].encode("utf-8", "surrogatepass"))
        return {}

    def _forget(self, _: dict) -> dict:
        for entry in list(os.scandir(self._directory)):
            if entry.is_file():
                os.unlink(entry.path)
        return {}

    def _compile(self, request: dict) -> dict:
        self._code, self._source = None, request["text"]
        self._becomes = LANGUAGES[request["language"]]
        try:
            # What the compiler has to say of a program's style is for nobody: this process has no reader for it.
            with warnings.catch_warnings(action="ignore"):
                self._code = compile(request["text"], "program.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"error": None}

    def _run(self, request: dict) -> dict:
        limits = request["limits"]
        output, errors = os.memfd_create("output"), os.memfd_create("errors")
        started_read, started_write = os.pipe()
        source = os.open(f"{self._directory}/{request['suite']}-{request['test']}", os.O_RDONLY)
        before_s = (self._probe_s or probe()) if request["probes"] else 0.0
        try:
            child = os.fork()
            if child == 0:
                self._become_program(source, output, errors, started_write, limits)
            os.close(started_write)
            started_write = -1
            report = watch(child, limits, uid=self._uid)
            kills = oom_kills() if report["exit"] == -signal.SIGKILL else self._oom_kills
            report["oom_killed"], self._oom_kills = kills > self._oom_kills, kills
            report["wall_s"] = report.pop("ended_s") - _start_of(started_read, default=report.pop("forked_s"))
            report["output_bytes"] = os.fstat(output).st_size
            kept = min(report["output_bytes"], limits["output_bytes"] + 1)
            report["output"] = base64.b64encode(os.pread(output, kept, 0)).decode()
            start = max(0, os.fstat(errors).st_size - STDERR_BYTES)
            report["errors"] = os.pread(errors, STDERR_BYTES, start).decode("utf-8", "replace")
            # The probe after one run is the probe before the next.
            self._probe_s = probe() if request["probes"] else 0.0
            report["probe_s"] = max(before_s, self._probe_s)
            return report
        finally:
            for descriptor in (output, errors, started_read, started_write, source):
                if descriptor >= 0:
                    os.close(descriptor)
            self._clean_scratch()

    def _clean_scratch(self) -> None:
        for place in (self._scratch,) if self._uid is None else SHARED_PLACES:
            empty(place)
        if self._uid is not None:
            remove_sysv_objects(self._uid)

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
            if self._uid is not None:
                become_user(self._uid, processes=limits["processes"])
            exit_code = self._becomes(self._code, self._source)
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


def become_user(uid: int, *, processes: int) -> None:
    """Gives up everything of root. The kernel's memory killer takes this process first, never the runner."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    # Room above the limit, so that the watcher sees the excess before the kernel refuses.
    most = processes + 16
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.umask(0o077)


def empty(directory: str) -> None:
    """Removes whatever a run left in a directory."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(directory)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def remove_sysv_objects(uid: int) -> None:
    """Removes System V shared memory, semaphores and queues: they outlive processes and could carry state."""
    calls = []
    for kind, remover in SYSV_REMOVERS.items():
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{kind}") as file:
            first = [(remover, int(row.split()[1])) for row in file.read().splitlines()[1:]]
            calls += [(name, n, 0, IPC_RMID) if kind == "sem" else (name, n, IPC_RMID, 0) for name, n in first]
    if calls:
        libc = ctypes.CDLL(None)
        os.waitpid(as_user(uid, lambda: [getattr(libc, name)(*arguments) for name, *arguments in calls]), 0)


def as_user(uid: int, action: Callable[[], object]) -> int:
    """Does something in a process of a user, as only owners may; returns the process, which is to be reaped."""
    process = os.fork()
    if process == 0:
        try:
            os.setresuid(uid, uid, uid)
            action()
        finally:
            os._exit(0)
    return process


def oom_kills() -> int:
    """How many processes of this container the kernel has killed for memory; 0 where it does not say."""
    for path in OOM_COUNTERS:
        with contextlib.suppress(OSError), open(path) as file:
            counts = dict(row.split() for row in file)
            return int(counts.get("oom_kill", 0))
    return 0


def probe() -> float:
    """Seconds that a fixed loop takes: how fast this core is at the moment."""
    start_s = time.perf_counter()
    for _ in range(PROBE_STEPS):
        pass
    return time.perf_counter() - start_s


def run_fresh(_: types.CodeType, source: str) -> int:
    """Replaces this process by a fresh interpreter; its start is part of the measured time."""
    program = os.memfd_create("program", 0)
    os.write(program, source.encode("utf-8", "surrogatepass"))
    os.lseek(program, 0, os.SEEK_SET)
    os.write(3, STARTED.pack(time.monotonic()))
    os.close(3)
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


# Further languages are further ways to become a program: take the compiled code and its source, return the exit status.
LANGUAGES = {"python3": run_as_main, "python3_fresh": run_fresh}


def watch(child: int, limits: dict, *, uid: int | None) -> dict:
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
    kill_descendants(uid)
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
    # A forked process shares the runner's own pages; only what it adds counts, but for the first.
    shared_bytes = resident_bytes(os.getpid())
    used_bytes = resident_bytes(child)
    used_bytes += sum(max(0, resident_bytes(process) - shared_bytes) for process in tree[1:])
    return "memory" if used_bytes > limits["memory_bytes"] else ""


def resident_bytes(process: int) -> int:
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * PAGE_BYTES
    return 0


def descendants(root: int) -> list[int]:
    """A process and everything below it, as far as it still runs."""
    found = [root]
    for process in found:
        found += _children(process)
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


def kill_descendants(uid: int | None) -> None:
    """Kills and reaps everything that still hangs below this process.

    Killing one by one loses the race against a fork bomb; a signal to all processes of a user at once does not.
    """
    while orphans := _children(os.getpid()):
        if uid is not None:
            orphans.append(as_user(uid, lambda: os.kill(-1, signal.SIGKILL)))
        for process in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for process in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, 0)


def _start_of(descriptor: int, *, default: float) -> float:
    """When the program itself began, by the child's clock reading from just before its first instruction."""
    is_written = select.select([descriptor], [], [], 0)[0]
    text = os.read(descriptor, STARTED.size) if is_written else b""
    return STARTED.unpack(text)[0] if len(text) == STARTED.size else default


if __name__ == "__main__":
    main()
