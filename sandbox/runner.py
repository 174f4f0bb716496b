"""Edge: runs inside the isolation boundary. Compiles a program once and forks one fresh child for each test.

Uses the standard library alone, so that `sandbox.bundle` can send it as text to any interpreter of an image, and little
of it: every forked process pays for what this one holds. Speaks length-prefixed JSON on its standard input and output:
`program` compiles, `input` stores one test's input in a private file, `run` runs the compiled program on it, `forget`
deletes the stored inputs. It never sees an expected output and never decides a verdict that needs one.

Theory of operation. From the outside to the inside:

    client    submits to a pool in its own process or to servers over HTTP; decides what a fault means; knows nothing
              of containers.
    server    (sandbox.server) one pool behind HTTP: who may ask, and how much.
    pool      (service.pool) one thread per worker; hands each request to a free worker, and to another if it is lost.
    worker    (backends.worker) the far end of two pipes into a container; knows which inputs the runner holds; waits
              a bounded time for each answer and then kills the container.
    runner    (this module) first process of the container, root with few capabilities. Never touches anything a program
              wrote, except its two output files. Checks on the run every 20 ms and ends it at a limit.
    spawner   (inside.spawner) one process, child of the runner, forked before the first request: forks zygotes, which
              therefore hold nothing of earlier programs, and leaves them to the runner.
    zygote    (inside.zygote) one process per program, child of the runner, in the control group of programs. Holds the
              compiled program as bytes, has its own mounts, and forks when it is told to.
    first     (inside.worlds) one process per run, child of the zygote: process 1 of a fresh world with its own
              processes, mounts and System V objects. Notes when the program ends, kills the rest of its world, reports.
    program   child of the first: a user without any privileges, under limits. Its own code starts at the bottom of the
              stack of an interpreter that looks freshly started.

Who tells whom: worker -> runner by the container's standard streams; runner -> zygote by a pipe of orders and one of
answers; first -> zygote by a pipe that no program holds; program -> runner by a single mark when it begins, through a
pipe that is closed before its first instruction. Everything else about the program is read from the kernel.

Who ends whom: the runner kills the first of a world, and the kernel everything in it; it never kills by a number or
name that a program could choose. A runner whose standard input ends exits, and the container ends with it, so that
nothing outlives a client that was killed. A worker that gets no answer removes the container. Nobody kills a worker.

What is measured where: the beginning by the program's process just before its first instruction; the end by its parent,
while the dead process can still be asked how long it ran and waited; the processor time of everything that ran by the
meter of the control group, at both moments; peak memory by the group. `inside.clocks` turns these into seconds.

Arguments: the directory for inputs and, in a container, `--uid N` (the user that every program becomes) and `--world`
or `--clean` (a world for each run, or a cleaning of the known places after each). A runner that cleans empties
directories which belong to everyone outside a container: with `--uid` it insists on being a container's first process.
"""

import binascii
import gc
import os
import sys
import time
import typing
from typing import BinaryIO

from sandbox.inside import (
    clocks,
    containment,
    counter,
    groups,
    inputs,
    kernel,
    languages,
    python,
    spawner,
    speed,
    wire,
    zygote,
)

STDERR_BYTES = 4096
FIRST_PROCESS = 1
MEBIBYTE = 1 << 20
TOOL_LIMITS = {
    "wall_s": 10.0,
    "cpu_s": 10.0,
    "memory_bytes": 1024 * MEBIBYTE,
    "output_bytes": 64 * MEBIBYTE,
    "processes": 64,
    "file_bytes": 64 * MEBIBYTE,
}
OUT_OF_MEMORY: dict[str, object] = {
    "exit": -9,
    "at_s": 0.0,
    "waited_s": 0.0,
    "killed_for": "memory",
    "oom_killed": True,
    "wall_s": 0.0,
    "cpu_s": 0.0,
    "peak_memory_bytes": 0,
    "output_bytes": 0,
    "errors": "",
}
# Where the streams of requests and answers lie while the interpreter's own are plain files.
CONTROL_IN, CONTROL_OUT = 248, 249


def main() -> python.MainProgram | None:
    """Serve requests until standard input ends; return the program in a process that is to run one, else None.

    Programs come back by way of `zygote.Born`, and run once the interpreter's own text has ended.

    Raises:
      SystemExit: `--uid` was given outside a container.
    """
    uid = int(sys.argv[3]) if sys.argv[2:3] == ["--uid"] else None
    require_container(uid)
    is_layout_fixed = kernel.fix_layout()
    if not _has_control():
        _restart_on_files()
    try:
        runner = Runner(sys.argv[1], uid=uid, is_isolated="--world" in sys.argv, is_layout_fixed=is_layout_fixed)
        # Without a buffer: what was read ahead, nobody could wait for.
        source = typing.cast(BinaryIO, os.fdopen(CONTROL_IN, "rb", buffering=0, closefd=False))
        runner.serve(source, os.fdopen(CONTROL_OUT, "wb", closefd=False))
    except zygote.Born as born:
        nursery = born.zygote
    except EOFError:
        containment.kill_descendants(uid)
        return None
    else:
        return None
    # The runner's stack has been left: what follows starts as deep as in a fresh interpreter.
    return nursery.serve()


def _has_control() -> bool:
    """Tell whether this interpreter was already restarted, with its requests on CONTROL_IN."""
    try:
        os.fstat(CONTROL_IN)
    except OSError:
        return False
    return True


def _restart_on_files() -> None:
    """Restart this interpreter on empty in-memory files: programs inherit its streams, and theirs are files too."""
    os.dup2(0, CONTROL_IN)
    os.dup2(1, CONTROL_OUT)
    for target, name in enumerate(("input", "output", "errors")):
        if target < 2 or "--uid" in sys.argv:
            os.dup2(os.memfd_create(name), target)
    kernel.restart(sys.orig_argv)


def require_container(uid: int | None) -> None:
    """Refuse to run where cleaning would empty directories that, outside a container, belong to everyone.

    Args:
      uid: the user of programs; None, for a runner without a container, is always accepted.

    Raises:
      SystemExit: `uid` is given and this process is not the first of a container.
    """
    if uid is not None and os.getpid() != FIRST_PROCESS:
        raise SystemExit(f"--uid {uid}: expected to be the first process of a container")


class Runner:
    """State between requests: the process that holds the program, and the files that hold the inputs of tests.

    Attributes:
      answers: the function that answers each kind of request, by the request's `do`.
    """

    def __init__(
        self, directory: str, *, uid: int | None, is_isolated: bool = False, is_layout_fixed: bool = False
    ) -> None:
        """Open the control group and the directories of programs; nothing is forked before the first program arrives.

        Args:
          directory: where inputs are stored; without a container also the parent of the programs' directories.
          uid: the user that programs become; None where they stay this process's user, for trusted code.
          is_isolated: gives every run a world of its own; otherwise the known places are cleaned after each.
          is_layout_fixed: whether addresses are not randomised, which is passed on to whoever reads the durations.

        Raises:
          SystemExit: `uid` is given outside a container.
        """
        require_container(uid)
        if uid is None:
            kernel.adopt_orphans()
        self._inputs = inputs.Inputs(directory)
        group = groups.open_group() if uid is not None else None
        scratch = "/tmp" if uid is not None else os.path.join(directory, "scratch")
        program = "/program" if uid is not None else os.path.join(directory, "program")
        self._home = zygote.Home(scratch, program, uid, group, is_isolated)
        for path in (scratch, program):
            os.makedirs(path, exist_ok=True)
        # Before the first request, and with nothing left to collect: a zygote has what this process holds now.
        gc.collect()
        gc.freeze()
        self._spawner = spawner.Spawner(self._home)
        self._zygote: zygote.Zygote | None = None
        self._counter: counter.Counter | None = None
        self._meter = group.meter() if group else None
        self._bounds = containment.GroupBounds(group)
        self._control: int | None = None
        self._probe_s = 0.0
        self._speed = speed.SpeedLog()
        self._conditions = {
            "is_layout_fixed": is_layout_fixed,
            "isolation": "world" if is_isolated else "clean" if uid is not None else "none",
        }
        self._prepared: dict = {}
        self.answers = {
            "input": self._inputs.store,
            "forget": self._inputs.forget,
            "program": self._prepare,
            "run": self._run,
        }

    def serve(self, source: BinaryIO, target: BinaryIO) -> None:
        """Answer requests from `source` on `target`, one after the other, until `source` ends or hangs up.

        Raises:
          EOFError: whoever asked for a run was gone before it ended.
          zygote.Lost: a zygote ended, and not because memory ran out.
        """
        self._control = source.fileno()
        while (request := self._next(source)) is not None:
            wire.send(target, self.answers[request["do"]](request))

    def _next(self, source: BinaryIO) -> dict | None:
        """Wait for the next request, and look at the speed of this core meanwhile."""
        self._speed.probe_until_readable(source.fileno())
        return wire.receive(source)

    def _prepare(self, request: dict) -> dict:
        """Compile a program and replace the process that held the one before.

        Returns:
          `error` (the compiler's words, None where it compiles) and the conditions of measurement: `is_layout_fixed`,
          `isolation`, `accounting`. `is_unavailable` marks a language whose tool is missing from the image.
        """
        self._drop_program()
        language = languages.LANGUAGES[request["language"]]
        if language.needs and not os.access(language.needs, os.X_OK):
            missing = f"{language.needs} is not in this image; it has {', '.join(languages.present())}"
            return {"error": missing, "is_unavailable": True}
        path = self._write_program(language, languages.encoded(request["text"]), request.get("files", {}))
        try:
            made, warnings = self._use_tool(request["language"], path)
        except languages.Rejected as error:
            return {"error": str(error), **self._conditions}
        made_here, arguments = b"" if language.leaves_binary else made, request.get("arguments")
        program = languages.Prepared(
            path, made_here, languages.encoded(warnings), tuple(arguments or ()), is_judge=arguments is not None
        )
        if language.leaves_binary:
            languages.put_in_memory(made)
        self._bounds.impose(TOOL_LIMITS)
        self._zygote = self._spawner.zygote(request["language"], "become", program, is_isolated=self._home.is_isolated)
        self._counter = counter.instructions_of(self._zygote.process)
        if self._home.group is None:
            self._meter = groups.tree_meter(self._zygote.process)
        accounting = self._meter.kind if self._meter else "leader"
        self._prepared = request
        return {"error": None, **self._conditions, "accounting": accounting}

    def _drop_program(self) -> None:
        """End the process that holds the program and close everything that was opened for it."""
        for held in (self._zygote, self._counter):
            if held:
                held.close()
        if self._meter and self._home.group is None:
            os.close(self._meter.descriptor)
            self._meter = None
        self._zygote = self._counter = None
        os.closerange(languages.PROGRAM_DESCRIPTOR, languages.PROGRAM_DESCRIPTOR + 1)

    def _write_program(self, language: languages.Language, text: bytes, files: dict[str, str]) -> str:
        """Write the program's files where programs may read but not write them; return the path of the main one."""
        containment.empty_directory(self._home.program)
        path = f"{self._home.program}/{language.file}"
        for target, content in ((path, text), *((f"{self._home.program}/{name}", files[name]) for name in files)):
            with open(target, "wb") as file:
                file.write(content if isinstance(content, bytes) else languages.encoded(content))
        return path

    def _use_tool(self, name: str, path: str) -> tuple[bytes, str]:
        """Run the language's tool, such as a compiler, on the program under limits of its own.

        Returns what the tool made (its standard output, or the binary that it left) and the warnings that it printed;
        raises Rejected where it refused the program, crashed, exceeded a limit or left nothing.
        """
        language = languages.LANGUAGES[name]
        self._bounds.impose(TOOL_LIMITS)
        tool = self._spawner.zygote(name, "tool", languages.Prepared(path), is_isolated=False)
        try:
            with open(path, "rb", buffering=0) as source:
                report, output = self._executed(tool, source.fileno(), TOOL_LIMITS)
            if report["killed_for"] or report["oom_killed"]:
                raise languages.Rejected(f"the compiler exceeded its limit of {report['killed_for'] or 'memory'}")
            if report["exit"] < 0:
                raise languages.Rejected(f"the compiler crashed (signal {-report['exit']})")
            if report["exit"]:
                raise languages.Rejected(report["errors"] or f"status {report['exit']}")
            if not language.leaves_binary:
                return output, report["errors"]
            binary = os.open(f"{self._home.scratch}/{languages.PROGRAM_FILE}", os.O_RDONLY | os.O_NOFOLLOW)
            with open(binary, "rb") as file:
                return file.read(), report["errors"]
        except FileNotFoundError:
            raise languages.Rejected("the compiler left no program") from None
        finally:
            tool.close()
            self._clean()

    def _run(self, request: dict) -> dict:
        """Run the current program on one stored input and report what `_executed` measured.

        The report also holds `output` (base64), `instructions` (None where they cannot be counted), `probe_s`, the
        faster of the probes before and after (0 where the request wants none), and `speeds`, all probes since the last
        report. A run waits up to `patience_s` for a probe of at most `calm_s`.
        """
        before_s = self._probe_s if request["probes"] else 0.0
        if request["probes"] and (not before_s or before_s > request["calm_s"]):
            before_s = self._speed.probe_until_calm(below_s=request["calm_s"], patience_s=request["patience_s"])
        counted, kills = self._counter.read() if self._counter else 0, self._bounds.kills
        try:
            assert self._zygote is not None
            source = self._inputs.open_copy(request)
            try:
                report, output = self._executed(self._zygote, source, request["limits"])
            finally:
                os.close(source)
        except zygote.Lost:
            if self._bounds.kills == kills:
                raise
            # Memory that no process holds (files, pipes) can make the kernel kill a bystander of the program.
            report, output = dict(OUT_OF_MEMORY), b""
            self._prepare(self._prepared)
        finally:
            if not self._home.is_isolated:
                self._clean()
        report["output"] = binascii.b2a_base64(output, newline=False).decode()
        report["instructions"] = self._counter.read() - counted if self._counter else None
        # The probe after one run is the probe before the next.
        self._probe_s = self._speed.probe() if request["probes"] else 0.0
        self._speed.probe_if_due()
        return report | {"probe_s": min(before_s, self._probe_s), "speeds": self._speed.collect()}

    def _executed(self, zygote: zygote.Zygote, source: int, limits: dict) -> tuple[dict, bytes]:
        """Run the program of a zygote once, with the file at descriptor `source` as its standard input.

        Returns how the run ended and what it used, and its standard output: cut one byte beyond `output_bytes`, so that
        an excess can be told from an exact fit.
        """
        output, errors = os.memfd_create("output"), os.memfd_create("errors")
        started, mark = os.pipe()
        try:
            bytes_before, kills_before = self._bounds.impose(limits)
            watch = containment.RunWatch(zygote, limits, group=self._home.group, meter=self._meter)
            forked = clocks.Reading(time.monotonic(), self._meter.read_s() if self._meter else 0.0, 0.0, 0.0)
            child = zygote.start((source, output, errors, mark), limits)
            killed_for = watch.ended_for(child, control=self._control)
            ended = zygote.ended()
            if not self._home.is_isolated:
                containment.kill_descendants(self._home.uid, but=(zygote.process, self._spawner.process))
            start = clocks.start_of(started, default=forked)
            output_bytes = os.fstat(output).st_size
            kept = os.pread(output, min(output_bytes, int(limits["output_bytes"]) + 1), 0)
            return {
                "exit": os.waitstatus_to_exitcode(ended.status),
                "at_s": start.at_s,
                "waited_s": clocks.foreign_wait_s(start, ended.reading),
                "killed_for": killed_for,
                "oom_killed": self._bounds.kills > kills_before,
                "wall_s": clocks.program_s(start, ended.reading, is_metered=ended.is_metered),
                "cpu_s": max(0.0, ended.used_s - start.used_s),
                "peak_memory_bytes": max(ended.peak_memory_kib * 1024, self._bounds.peak_bytes - bytes_before),
                "output_bytes": output_bytes,
                "errors": _end_of(errors),
            }, kept
        finally:
            for descriptor in (output, errors, started, mark):
                os.close(descriptor)

    def _clean(self) -> None:
        """Empty every place that one run could leave to the next, and remove its System V objects."""
        for place in (self._home.scratch,) if self._home.uid is None else containment.SHARED_PLACES:
            containment.empty_directory(place)
        if self._home.uid is not None:
            containment.remove_sysv_objects(self._home.uid)


def _end_of(errors: int) -> str:
    """Return the last STDERR_BYTES of a run's standard error, where the exception stands."""
    skipped = max(0, os.fstat(errors).st_size - STDERR_BYTES)
    return os.pread(errors, STDERR_BYTES, skipped).decode("utf-8", "replace")
