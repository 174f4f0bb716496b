"""Inside the isolation boundary: one program made ready to run: written down, compiled, held by a zygote, executed.

The runner holds the program under test and, where tests are conversations, the interactor that talks to it. Each has a
home, a user and a control group of its own; `Holder` is what both have in common.
"""

import os
import time

from sandbox.inside import clocks, containment, counter, groups, languages, spawner, zygote

STDERR_BYTES = 4096
MEBIBYTE = 1 << 20
# Nobody can tell how long the parts of a compiler waited for the core of a busy host: processor time counts. The wall
# limit ends those that only wait; it is extended for a tool that gets at least this share of a core.
WORKING_SHARE = 0.02
TOOL_LIMITS = {
    "wall_s": 40.0,
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
    "elapsed_s": 0.0,
    "peak_memory_bytes": 0,
    "output_bytes": 0,
    "errors": "",
}


class Holder:
    """Holds one program at a time, in a home.

    Attributes:
      home: where the program runs, and as whom.
      control: the stream of requests, watched for its other end while something runs; None watches nothing.
      zygote: the process that holds the program; None before the first.
      bounds: of the control group of the home.
      meter: of the processor time of everything that runs here; None where there is none.
    """

    def __init__(self, home: zygote.Home, forks: spawner.Spawner) -> None:
        """Make the directories of a home; nothing is forked before the first program arrives.

        Args:
          home: one of those that the spawner was made for.
          forks: forks the zygotes.
        """
        for path in (home.scratch, home.program):
            os.makedirs(path, exist_ok=True)
        self.home = home
        self.control: int | None = None
        self.zygote: zygote.Zygote | None = None
        self.bounds = containment.GroupBounds(home.group)
        self._spawner = forks
        self._counter: counter.Counter | None = None
        self.meter = home.group.meter() if home.group else None
        places = (home.scratch,) if home.uid is None else containment.SHARED_PLACES
        self._places = [place for place in places if os.access(place, os.W_OK)]
        self._request: dict = {}

    def prepare(self, request: dict) -> dict:
        """Compile a program and replace the process that held the one before.

        Args:
          request: `text`, `language`, `files` by name, and for programs of problems `role` and `arguments`.

        Returns:
          `error` (the compiler's words, None where it compiles) and `accounting`, where processor seconds come from.
          `is_unavailable` marks a language whose tool is missing from the image.
        """
        self._drop()
        language = languages.LANGUAGES[request["language"]]
        if language.needs and not os.access(language.needs, os.X_OK):
            missing = f"{language.needs} is not in this image; it has {', '.join(languages.present())}"
            return {"error": missing, "is_unavailable": True}
        path = self._write(language, languages.encoded(request["text"]), request.get("files", {}))
        try:
            made, warnings = self._use_tool(request["language"], path)
        except languages.Rejected as error:
            return {"error": str(error)}
        made_here, arguments = b"" if language.leaves_binary else made, tuple(request.get("arguments", ()))
        program = languages.Prepared(
            path, made_here, languages.encoded(warnings), arguments, role=request.get("role", "")
        )
        if language.leaves_binary:
            languages.put_in_memory(made)
        self.bounds.impose(TOOL_LIMITS)
        is_isolated = self.home.is_isolated
        self.zygote = self._spawner.fork_zygote(
            request["language"], "become", program, home=self.home, is_isolated=is_isolated
        )
        self._counter = counter.instructions_of(self.zygote.process)
        if self.home.group is None:
            self.meter = groups.tree_meter(self.zygote.process)
        self._request = request
        return {"error": None, "accounting": self.meter.kind if self.meter else "leader"}

    def prepare_again(self) -> None:
        """Replace a zygote that was lost, once nothing is left of what it had forked."""
        self._drop()
        self.end_stragglers()
        self.prepare(self._request)

    def execute(self, source: int, limits: dict) -> tuple[dict, bytes]:
        """Run the program once; see `_executed`.

        Raises:
          EOFError: whoever asked for the run was gone before it ended.
          zygote.Lost: the zygote ended.
        """
        assert self.zygote is not None
        return self._executed(self.zygote, source, limits)

    def instructions(self) -> int | None:
        """Return how many instructions everything that ran has executed so far; None where they are not counted."""
        return self._counter.read() if self._counter else None

    def clean(self) -> None:
        """Empty every place that one run could leave to the next, and remove its System V objects."""
        for place in self._places:
            containment.empty_directory(place)
        if self.home.uid is not None:
            containment.remove_sysv_objects(self.home.uid)

    def _drop(self) -> None:
        """End the process that holds the program and close everything that was opened for it."""
        if self.zygote:
            self._spawner.close_zygote(self.zygote)
        if self._counter:
            self._counter.close()
        if self.meter and self.home.group is None:
            os.close(self.meter.descriptor)
            self.meter = None
        self.zygote = self._counter = None
        os.closerange(languages.PROGRAM_DESCRIPTOR, languages.PROGRAM_DESCRIPTOR + 1)

    def _write(self, language: languages.Language, text: bytes, files: dict[str, str]) -> str:
        """Write the program's files where programs may read but not write them; return the path of the main one."""
        containment.empty_directory(self.home.program)
        path = f"{self.home.program}/{language.file}"
        for target, content in ((path, text), *((f"{self.home.program}/{name}", files[name]) for name in files)):
            with open(target, "wb") as file:
                file.write(content if isinstance(content, bytes) else languages.encoded(content))
        return path

    def _use_tool(self, name: str, path: str) -> tuple[bytes, str]:
        """Run the language's tool, such as a compiler, on the program under limits of its own.

        Returns what the tool made (its standard output, or the binary that it left) and the warnings that it printed;
        raises Rejected where it refused the program, crashed, exceeded a limit or left nothing.
        """
        language = languages.LANGUAGES[name]
        self.bounds.impose(TOOL_LIMITS)
        tool = self._spawner.fork_zygote(name, "tool", languages.Prepared(path), home=self.home, is_isolated=False)
        try:
            with open(path, "rb", buffering=0) as source:
                report, output = self._executed(tool, source.fileno(), TOOL_LIMITS, given_s=self._given_to_tool_s())
            if report["killed_for"] or report["oom_killed"]:
                raise languages.Rejected(f"the compiler exceeded its limit of {report['killed_for'] or 'memory'}")
            if report["exit"] < 0:
                raise languages.Rejected(f"the compiler crashed (signal {-report['exit']})")
            if report["exit"]:
                raise languages.Rejected(report["errors"] or f"status {report['exit']}")
            if not language.leaves_binary:
                return output, report["errors"]
            binary = os.open(f"{self.home.scratch}/{languages.PROGRAM_FILE}", os.O_RDONLY | os.O_NOFOLLOW)
            with open(binary, "rb") as file:
                return file.read(), report["errors"]
        except FileNotFoundError:
            raise languages.Rejected("the compiler left no program") from None
        finally:
            self._spawner.close_zygote(tool)
            self.clean()

    def _given_to_tool_s(self) -> containment.Given:
        """Return what extends the wall limit of a tool that is at work and has not got its core."""
        began_s, used_s = time.monotonic(), self.meter.read_s() if self.meter else 0.0

        def given_s() -> float:
            elapsed_s = time.monotonic() - began_s
            is_working = self.meter is not None and self.meter.read_s() - used_s >= WORKING_SHARE * elapsed_s
            return (containment.MOST_EXTENSION - 1) * TOOL_LIMITS["wall_s"] if is_working else 0.0

        return given_s

    def _executed(
        self, child: zygote.Zygote, source: int, limits: dict, *, given_s: containment.Given = lambda: 0.0
    ) -> tuple[dict, bytes]:
        """Run the program of a zygote once, with the file at descriptor `source` as its standard input.

        Returns how the run ended and what it used, and its standard output: cut one byte beyond `output_bytes`, so that
        an excess can be told from an exact fit.
        """
        output, errors = os.memfd_create("output"), os.memfd_create("errors")
        started, mark = os.pipe()
        try:
            bytes_before, kills_before = self.bounds.impose(limits)
            watch = containment.RunWatch(child, limits, group=self.home.group, meter=self.meter, given_s=given_s)
            child.start((source, output, errors, mark, -1), limits)
            killed_for = watch.ended_for(control=self.control)
            ended = child.ended()
            if not child.is_isolated:
                self.end_stragglers()
            start = clocks.start_of(started, default=watch.forked)
            output_bytes = os.fstat(output).st_size
            kept = os.pread(output, min(output_bytes, int(limits["output_bytes"]) + 1), 0)
            return {
                "exit": os.waitstatus_to_exitcode(ended.status),
                "at_s": start.at_s,
                "waited_s": clocks.foreign_wait_s(start, ended.reading),
                "killed_for": killed_for,
                "oom_killed": self.bounds.kills > kills_before,
                "wall_s": clocks.program_s(start, ended.reading, is_metered=ended.is_metered),
                "cpu_s": max(0.0, ended.used_s - start.used_s),
                "peak_memory_bytes": max(ended.peak_memory_kib * 1024, self.bounds.peak_bytes - bytes_before),
                "output_bytes": output_bytes,
                "errors": end_of(errors),
            }, kept
        except zygote.Lost as lost:
            raise zygote.Lost(" ".join((str(lost), *end_of(errors).splitlines()[-1:]))) from None
        finally:
            for descriptor in (output, errors, started, mark):
                os.close(descriptor)

    def end_stragglers(self) -> None:
        """End what runs have left behind that had no world which ended with them."""
        containment.kill_descendants(self.home.uid, but=self._spawner.living)


def end_of(errors: int) -> str:
    """Return the last STDERR_BYTES of a run's standard error, where the exception stands."""
    skipped = max(0, os.fstat(errors).st_size - STDERR_BYTES)
    return os.pread(errors, STDERR_BYTES, skipped).decode("utf-8", "replace")
