"""Edge: runs inside the isolation boundary. Compiles a program once and forks one fresh child for each test.

Standard library alone, so that `sandbox.bundle` can send it as text to any interpreter of an image, and little of it:
every forked process pays for what this one holds. Speaks length-prefixed JSON on its own standard input and output:
`program` compiles, `input` stores one test's input in a private file, `run` runs the compiled program on it. It holds
no expected output and decides no verdict that needs one.

Its argument is the directory for those files. With `--uid N` after it, it runs as root in a container: every program
gets the user N, and whatever a program may write to is emptied after each run. It refuses to do that anywhere else.
"""

import binascii
import gc
import json
import os
import signal
import struct
import sys
import time
from typing import BinaryIO

from sandbox.inside import clocks, containment, counter, languages, zygote

HEADER = struct.Struct(">I")
STDERR_BYTES = 4096
FIRST_PROCESS = 1
MEBIBYTE = 1 << 20
TOOL_LIMITS = {
    "wall_s": 30.0,
    "memory_bytes": 1024 * MEBIBYTE,
    "output_bytes": 16 * MEBIBYTE,
    "processes": 64,
    "file_bytes": 64 * MEBIBYTE,
}


def main() -> None:
    """Serves requests until standard input ends."""
    is_layout_fixed = containment.fix_layout()
    control_in, control_out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "r+b", buffering=0) as null:
        for descriptor in (0, 1):
            os.dup2(null.fileno(), descriptor)
    uid = int(sys.argv[3]) if sys.argv[2:3] == ["--uid"] else None
    runner = Runner(sys.argv[1], uid=uid, is_layout_fixed=is_layout_fixed)
    if uid is None:
        containment.adopt_orphans()
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
    """State between requests: the process that holds the program, and the files that hold the inputs of tests."""

    def __init__(self, directory: str, *, uid: int | None, is_layout_fixed: bool = False) -> None:
        require_container(uid)
        self._is_layout_fixed = is_layout_fixed
        self._directory = directory
        self._home = zygote.Home("/tmp" if uid is not None else os.path.join(directory, "scratch"), uid)
        os.makedirs(self._home.scratch, exist_ok=True)
        self._zygote: zygote.Zygote | None = None
        self._counter: counter.Counter | None = None
        self._probe_s = 0.0
        self._oom_kills = containment.oom_kills()
        self.answers = {"input": self._store, "forget": self._forget, "program": self._prepare, "run": self._run}

    def _store(self, request: dict) -> dict:
        with open(self._path(request), "wb") as file:
            file.write(languages.encoded(request["text"]))
        return {}

    def _path(self, request: dict) -> str:
        return f"{self._directory}/{request['suite']}-{request['test']}"

    def _forget(self, _: dict) -> dict:
        for entry in list(os.scandir(self._directory)):
            if entry.is_file():
                os.unlink(entry.path)
        return {}

    def _prepare(self, request: dict) -> dict:
        """Puts a process that holds the program in place of the one before."""
        if self._zygote:
            self._zygote.close()
            self._zygote = None
        if self._counter:
            self._counter.close()
            self._counter = None
        os.closerange(languages.PROGRAM_DESCRIPTOR, languages.PROGRAM_DESCRIPTOR + 1)
        language, text = languages.LANGUAGES[request["language"]], request["text"]
        if language.tool and not os.access(language.tool[0], os.X_OK):
            return {"error": f"{language.tool[0]} is not in this image", "is_unavailable": True}
        try:
            if language.needs_file:
                languages.put_in_memory(languages.encoded(text))
            if language.tool:
                self._use_tool(language)
            self._zygote = zygote.Zygote(lambda: language.prepare(text), home=self._home)
            self._counter = counter.instructions_of(self._zygote.process)
        except languages.Rejected as error:
            return {"error": str(error)}
        return {"error": None, "is_layout_fixed": self._is_layout_fixed}

    def _use_tool(self, language: languages.Language) -> None:
        """Lets the tool read the program; what it leaves takes the program's place. Raises Rejected with its words."""
        tool = zygote.Zygote(lambda: lambda: os.execve(language.tool[0], language.tool, os.environ), home=self._home)
        try:
            with open(f"/proc/self/fd/{languages.PROGRAM_DESCRIPTOR}", "rb", buffering=0) as source:
                report = self._executed(tool, source.fileno(), TOOL_LIMITS)
            if report["exit"]:
                raise languages.Rejected(report["killed_for"] or report["errors"] or f"status {report['exit']}")
            if language.leaves_binary:
                binary = os.open(f"{self._home.scratch}/{languages.BINARY}", os.O_RDONLY | os.O_NOFOLLOW)
                with open(binary, "rb") as file:
                    languages.put_in_memory(file.read())
        finally:
            tool.close()
            self._clean_scratch()

    def _run(self, request: dict) -> dict:
        before_s = (self._probe_s or clocks.probe()) if request["probes"] else 0.0
        counted = self._counter.read() if self._counter else 0
        try:
            with open(self._path(request), "rb", buffering=0) as source:
                report = self._executed(self._zygote, source.fileno(), request["limits"])
        finally:
            self._clean_scratch()
        report["instructions"] = self._counter.read() - counted if self._counter else None
        # The probe after one run is the probe before the next.
        self._probe_s = clocks.probe() if request["probes"] else 0.0
        return report | {"probe_s": min(before_s, self._probe_s)}

    def _executed(self, zygote: zygote.Zygote, source: int, limits: dict) -> dict:
        """Runs the program of a zygote once and reports what it used and wrote."""
        output, errors = os.memfd_create("output"), os.memfd_create("errors")
        started, mark = os.pipe()
        try:
            forked_s = time.monotonic()
            child = zygote.start((source, output, errors, mark), limits)
            killed_for = containment.ended_for(zygote, child, limits)
            ended = zygote.ended()
            containment.kill_descendants(self._home.uid, but=zygote.process)
            start = clocks.start_of(started, default_s=forked_s)
            cpu_s = max(0.0, ended.cpu_s - start.cpu_s)
            status = os.waitstatus_to_exitcode(ended.status)
            output_bytes = os.fstat(output).st_size
            kept = os.pread(output, min(output_bytes, int(limits["output_bytes"]) + 1), 0)
            return {
                "exit": status,
                "killed_for": killed_for,
                "oom_killed": status == -signal.SIGKILL and self._is_oom_killed(),
                "wall_s": clocks.program_s(start, ended_s=ended.at_s, cpu_s=cpu_s, waited_s=ended.waited_s),
                "cpu_s": cpu_s,
                "peak_memory_bytes": ended.peak_memory_kib * 1024,
                "output_bytes": output_bytes,
                "output": binascii.b2a_base64(kept, newline=False).decode(),
                "errors": _end_of(errors),
            }
        finally:
            for descriptor in (output, errors, started, mark):
                os.close(descriptor)

    def _is_oom_killed(self) -> bool:
        before, self._oom_kills = self._oom_kills, containment.oom_kills()
        return self._oom_kills > before

    def _clean_scratch(self) -> None:
        for place in (self._home.scratch,) if self._home.uid is None else containment.SHARED_PLACES:
            containment.empty_directory(place)
        if self._home.uid is not None:
            containment.remove_sysv_objects(self._home.uid)


def _end_of(errors: int) -> str:
    skipped = max(0, os.fstat(errors).st_size - STDERR_BYTES)
    return os.pread(errors, STDERR_BYTES, skipped).decode("utf-8", "replace")
