"""Edge: runs inside the isolation boundary. Compiles a program once and forks one fresh child for each test.

Standard library alone, so that `sandbox.bundle` can send it as text to any interpreter of an image. Speaks
length-prefixed JSON on its own standard input and output: `program` compiles, `input` stores one test's input in a
private file, `run` runs the compiled program on it. It holds no expected output and decides no verdict that needs one.

With `--uid N` it runs as root in a container: every program gets the user N, and whatever a program may write to is
emptied after each run. It refuses to do that anywhere else.
"""

import base64
import gc
import json
import os
import signal
import struct
import sys
import tempfile
import traceback
import warnings
from typing import BinaryIO

from sandbox.inside import clocks, containment, languages

HEADER = struct.Struct(">I")
STDERR_BYTES = 4096
FIRST_PROCESS = 1


def main() -> None:
    """Serves requests until standard input ends."""
    control_in, control_out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "r+b", buffering=0) as null:
        for descriptor in (0, 1):
            os.dup2(null.fileno(), descriptor)
    containment.adopt_orphans()
    uid = int(sys.argv[2]) if sys.argv[1:2] == ["--uid"] else None
    require_container(uid)
    with tempfile.TemporaryDirectory(prefix="runner-", dir=None if uid is None else "/inputs") as directory:
        runner = Runner(directory, uid=uid)
        gc.collect()
        gc.freeze()
        while (request := receive(control_in)) is not None:
            send(control_out, runner.answers[request["do"]](request))


def require_container(uid: int | None) -> None:
    """Ends this process where it would empty directories that, outside a container, belong to everyone."""
    if uid is not None and os.getpid() != FIRST_PROCESS:
        raise SystemExit(f"--uid {uid}: expected to be the first process of a container")


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
        require_container(uid)
        self._directory = directory
        self._uid = uid
        self._scratch = "/tmp" if uid is not None else os.path.join(directory, "scratch")
        os.makedirs(self._scratch, exist_ok=True)
        self._code, self._source = None, ""
        self._becomes = languages.run_as_main
        self._probe_s = 0.0
        self._oom_kills = containment.oom_kills()
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
        self._becomes = languages.LANGUAGES[request["language"]]
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
        before_s = (self._probe_s or clocks.probe()) if request["probes"] else 0.0
        try:
            child = os.fork()
            if child == 0:
                self._become_program(source, output, errors, started_write, limits)
            os.close(started_write)
            started_write = -1
            report = containment.watch(child, limits, uid=self._uid)
            kills = containment.oom_kills() if report["exit"] == -signal.SIGKILL else self._oom_kills
            report["oom_killed"], self._oom_kills = kills > self._oom_kills, kills
            start = clocks.start_of(started_read, default_s=report.pop("forked_s"))
            report["cpu_s"] = max(0.0, report["cpu_s"] - start.cpu_s)
            report["wall_s"] = clocks.program_s(
                start, ended_s=report.pop("ended_s"), cpu_s=report["cpu_s"], waited_s=report.pop("waited_s")
            )
            report["output_bytes"] = os.fstat(output).st_size
            kept = min(report["output_bytes"], limits["output_bytes"] + 1)
            report["output"] = base64.b64encode(os.pread(output, kept, 0)).decode()
            skipped = max(0, os.fstat(errors).st_size - STDERR_BYTES)
            report["errors"] = os.pread(errors, STDERR_BYTES, skipped).decode("utf-8", "replace")
            # The probe after one run is the probe before the next.
            self._probe_s = clocks.probe() if request["probes"] else 0.0
            report["probe_s"] = max(before_s, self._probe_s)
            return report
        finally:
            for descriptor in (output, errors, started_read, started_write, source):
                if descriptor >= 0:
                    os.close(descriptor)
            self._clean_scratch()

    def _clean_scratch(self) -> None:
        for place in (self._scratch,) if self._uid is None else containment.SHARED_PLACES:
            containment.empty(place)
        if self._uid is not None:
            containment.remove_sysv_objects(self._uid)

    def _become_program(self, source: int, output: int, errors: int, started: int, limits: dict) -> None:
        """In the child, never returns: takes its streams and limits, then runs the program as `__main__`."""
        try:
            os.setsid()
            for target, descriptor in enumerate((source, output, errors)):
                os.dup2(descriptor, target)
            os.dup2(started, clocks.START_DESCRIPTOR)
            os.closerange(clocks.START_DESCRIPTOR + 1, 256)
            os.chdir(self._scratch)
            containment.limit(limits)
            if self._uid is not None:
                containment.become_user(self._uid, processes=limits["processes"])
            exit_code = self._becomes(self._code, self._source)
        except BaseException:
            traceback.print_exc()
            exit_code = 1
        finally:
            os._exit(exit_code)
