"""Edge: runs inside the isolation boundary. Compiles a program once and forks one fresh child for each test.

Uses the standard library alone, so that `sandbox.bundle` can send it as text to any interpreter of an image, and little
of it: every forked process pays for what this one holds. Speaks length-prefixed JSON on its standard input and output:
`program` compiles, `input` stores one test's input in a private file, `run` runs the compiled program on it, `forget`
deletes the stored inputs; `interactor` compiles the program that others talk to, `converse` lets them talk. Only
interactors see an expected output here, in a world of their own. It never decides a verdict.

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
              compiled program as bytes, has its own mounts, and forks when it is told to. Notes when the program ends,
              ends its world, reports.
    first     (inside.worlds) one process per run, child of the zygote: process 1 of a fresh world with its own
              processes, mounts and System V objects. Sleeps, so that they last as long as it does.
    program   child of the zygote, born into that world: a user without any privileges, under limits. Its own code
              starts at the bottom of the stack of an interpreter that looks freshly started.

Who tells whom: worker -> runner by the container's standard streams; runner -> zygote by a pipe of orders and one of
answers; program -> runner by a single mark when it begins, through a pipe that is closed before its first instruction.
Everything else about the program is read from the kernel.

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
import json
import os
import select
import struct
import sys
import time
import typing
from typing import BinaryIO

from sandbox.inside import (
    clocks,
    containment,
    groups,
    held,
    inputs,
    interactive,
    kernel,
    languages,
    spawner,
    speed,
    worlds,
    zygote,
)

FIRST_PROCESS = 1
# Where a container has a disk, for inputs that would not fit into its memory.
LARGE = "/large"
HEADER = struct.Struct(">I")
# No answer waits longer than this before the run begins for whose answer it waits.
GATHER_S = 0.01
# What is added to the number of a program's user for that of the interactor: more than there are workers and judges.
INTERACTOR_UIDS = 4096
# Where the container's own streams lie while those of the interpreter are plain files.
MOST_REASON = 500
CONTROL_ERRORS, CONTROL_IN, CONTROL_OUT = 247, 248, 249


def main() -> None:
    """Serve requests until standard input ends.

    A process that is to run a program comes back by way of `zygote.Born`, and runs it once the interpreter's own text
    has ended.

    Raises:
      SystemExit: `--uid` was given outside a container.
    """
    uid = int(sys.argv[3]) if sys.argv[2:3] == ["--uid"] else None
    require_container(uid)
    is_layout_fixed = kernel.fix_layout()
    if not _has_control():
        _restart_on_files()
    kernel.forget_restart()
    try:
        runner = Runner(sys.argv[1], uid=uid, is_isolated="--world" in sys.argv, is_layout_fixed=is_layout_fixed)
        # Without a buffer: what was read ahead, nobody could wait for.
        source = typing.cast(BinaryIO, os.fdopen(CONTROL_IN, "rb", buffering=0, closefd=False))
        runner.serve(source, os.fdopen(CONTROL_OUT, "wb", closefd=False))
    except zygote.Born as born:
        nursery = born.zygote
    except EOFError:
        containment.kill_descendants(uid)
        return
    except Exception as error:
        _explain(error)
        raise
    else:
        return
    # The runner's stack has been left: what follows starts as deep as in a fresh interpreter.
    nursery.serve()


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
    os.dup2(2, CONTROL_ERRORS)
    for target, name in enumerate(("input", "output", "errors")):
        if target < 2 or "--uid" in sys.argv:
            os.dup2(os.memfd_create(name), target)
    kernel.restart(sys.orig_argv)


def _explain(error: Exception) -> None:
    """Say in one line why this runner ends, to whoever opened its container."""
    zygotes = held.end_of(2) if "--uid" in sys.argv else ""
    reason = " ".join((f"{type(error).__name__}: {error}", *zygotes.splitlines()[-1:]))
    os.write(CONTROL_ERRORS, f"{reason[:MOST_REASON]}\n".encode())


def receive(source: BinaryIO) -> dict | None:
    """Read one message: four bytes of length, big-endian, then that much JSON; None at the end of the stream."""
    head = _exactly(source, HEADER.size)
    return json.loads(_exactly(source, *HEADER.unpack(head))) if len(head) == HEADER.size else None


def _exactly(source: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, or what there is before the end of the stream."""
    parts = []
    while size and (part := source.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def packed(message: dict) -> bytes:
    """Return one message in the form that `receive` reads."""
    body = json.dumps(message).encode()
    return HEADER.pack(len(body)) + body


def require_container(uid: int | None) -> None:
    """Refuse to run where cleaning would empty directories that, outside a container, belong to everyone.

    Args:
      uid: the user of programs; None, for a runner without a container, is always accepted.

    Raises:
      SystemExit: `uid` is given and this process is not the first of a container.
    """
    if uid is not None and os.getpid() != FIRST_PROCESS:
        raise SystemExit(f"--uid {uid}: expected to be the first process of a container")


def is_readable(source: BinaryIO) -> bool:
    """Tell whether there is something to read, the end of the stream included; never waits."""
    return bool(select.select([source], [], [], 0.0)[0])


def may_wait(request: dict, following: dict | None, *, waits_since_s: float) -> bool:
    """Tell whether an answer may wait until the next request is answered too.

    Args:
      request: what the answer is to.
      following: the next request; None where there is none yet, or will never be.
      waits_since_s: moment (`time.monotonic`) since when the first answer of those that wait does.
    """
    if following is None or {request["do"], following["do"]} != {"run"}:
        return False
    # Who asked expects an answer within a multiple of the limit of its run: the next run may not have a greater one.
    is_in_time = following["limits"]["wall_s"] <= request["limits"]["wall_s"]
    return is_in_time and time.monotonic() - waits_since_s < GATHER_S


class Runner:
    """State between requests: the process that holds the program, and the files that hold the inputs of tests.

    Attributes:
      answers: the function that answers each kind of request, by the request's `do`.
    """

    def __init__(
        self, directory: str, *, uid: int | None, is_isolated: bool = False, is_layout_fixed: bool = False
    ) -> None:
        """Open the control group and the directories of programs; no zygote is forked before the first program arrives.

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
        else:
            worlds.furnish()
        self._inputs = inputs.Inputs(directory, large=directory if uid is None else LARGE)
        homes = _homes(directory, uid, is_isolated=is_isolated)
        # Before the first request, and with nothing left to collect: a zygote has what this process holds now.
        gc.collect()
        gc.freeze()
        forks = spawner.Spawner(*homes)
        self._program, self._interactor = (held.Holder(home, forks) for home in homes)
        self._probe_s = 0.0
        self._speed = speed.SpeedLog()
        self._conditions = {
            "is_layout_fixed": is_layout_fixed,
            "isolation": "world" if is_isolated else "clean" if uid is not None else "none",
            "users": "host" if clocks.said("/proc/self/uid_map").split()[:2] == [b"0", b"0"] else "mapped",
        }
        self.answers = {
            "input": self._inputs.store,
            "append": self._inputs.append,
            "forget": self._inputs.forget,
            "program": self._prepare,
            "interactor": self._interactor.prepare,
            "run": self._run,
            "converse": self._run,
        }

    def serve(self, source: BinaryIO, target: BinaryIO) -> None:
        """Answer requests from `source` on `target`, one after the other, until `source` ends or hangs up.

        Answers to short runs wait for each other: to carry a message to its reader costs about as much as a run.

        Raises:
          EOFError: whoever asked for a run was gone before it ended.
          zygote.Lost: a zygote ended, and not because memory ran out.
        """
        self._program.control = source.fileno()
        request, waits_since_s = self._next(source), 0.0
        while request is not None:
            target.write(packed(self.answers[request["do"]](request)))
            waits_since_s = waits_since_s or time.monotonic()
            following = self._next(source) if is_readable(source) else None
            if not may_wait(request, following, waits_since_s=waits_since_s):
                target.flush()
                waits_since_s = 0.0
            request = following or self._next(source)

    def _next(self, source: BinaryIO) -> dict | None:
        """Wait for the next request, and look at the speed of this core meanwhile."""
        self._speed.probe_until_readable(source.fileno())
        return receive(source)

    def _prepare(self, request: dict) -> dict:
        """Hold another program; answer with what `Holder.prepare` says and the conditions of measurement."""
        return self._conditions | self._program.prepare(request)

    def _run(self, request: dict) -> dict:
        """Run the current program on one stored input and report what `Holder.execute` measured, or `converse`.

        The report also holds `output` (base64), `instructions` (None where they cannot be counted), `probe_s`, the
        faster of the probes before and after (0 where the request wants none), and `speeds`, all probes since the last
        report. A run waits up to `patience_s` for a probe of at most `calm_s`.
        """
        before_s = self._probe_s if request["probes"] else 0.0
        if request["probes"] and (not before_s or before_s > request["calm_s"]):
            before_s = self._speed.probe_until_calm(below_s=request["calm_s"], patience_s=request["patience_s"])
        program = self._program
        counted = program.instructions()
        try:
            report, output = self._execute(request)
        finally:
            for holder in (program, self._interactor):
                if not holder.home.is_isolated:
                    holder.clean()
        report["output"] = binascii.b2a_base64(output, newline=False).decode()
        now = program.instructions()
        report["instructions"] = None if counted is None or now is None else now - counted
        # The probe after one run is the probe before the next.
        self._probe_s = self._speed.probe() if request["probes"] else 0.0
        self._speed.probe_if_due()
        return report | {"probe_s": min(before_s, self._probe_s), "speeds": self._speed.collect()}

    def _execute(self, request: dict) -> tuple[dict, bytes]:
        """Run the current program on one stored input, or let it talk to the interactor; return report and output."""
        is_alone = request["do"] == "run"
        kills = self._program.bounds.kills
        source = self._inputs.open_copy(request, is_sealed=is_alone)
        try:
            if is_alone:
                return self._program.execute(source, request["limits"])
            report, output = interactive.converse(self._program, self._interactor, request, files=source)
            written = os.pread(source, int(request["interactor_limits"]["output_bytes"]), 0)
            report["interactor"]["output"] = binascii.b2a_base64(written, newline=False).decode()
            return report, output
        except zygote.Lost:
            if not is_alone or self._program.bounds.kills == kills:
                raise
            # Memory that no process holds (files, pipes) can make the kernel kill a bystander of the program.
            self._program.prepare_again()
            return dict(held.OUT_OF_MEMORY), b""
        finally:
            os.close(source)


def _homes(directory: str, uid: int | None, *, is_isolated: bool) -> tuple[zygote.Home, zygote.Home]:
    """Say where programs under test run and where interactors do, which have a world of their own wherever they can."""
    if uid is None:
        tested, partner = (os.path.join(directory, name) for name in ("tested", languages.INTERACTOR))
        return (
            zygote.Home(f"{tested}/scratch", f"{tested}/program", None),
            zygote.Home(f"{partner}/scratch", f"{partner}/program", None),
        )
    return (
        zygote.Home("/tmp", "/program", uid, groups.open_group(groups.RUNS), is_isolated),
        zygote.Home("/tmp", "/interactor", uid + INTERACTOR_UIDS, groups.open_group(groups.INTERACTORS), True),
    )
