"""Edge: speaks to one runner, wherever it runs, and keeps track of what that runner already holds.

A backend supplies a function that opens a channel to a fresh runner; everything else is the same for all backends. A
worker never retries and never judges: `service.pool` decides what follows a loss, `timing` what a report means.
"""

import base64
import collections
import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from sandbox import protocol, runner
from sandbox.backends.grouping import HELD_BYTES, bytes_of, file_of, groups_of
from sandbox.inside import containment, held, languages
from sandbox.timing import conventions, estimate, interactive, restlessness

# How long a runner may take beyond the longest possible run before it counts as lost.
GRACE_S = 30.0
# An abandoned request that does not come to the end of a run by itself within this time is torn off.
ABANDON_S = 0.5
# A core is busy with others where programs wait for it more than this share of their time, over so many runs.
BUSY_SHARE, RECENT_RUNS = 0.1, 32
# Longer than any probe: JSON has no infinity.
ANY_S = 1e6


class WorkerLost(RuntimeError):
    """The runner went away in the middle of a request, stopped answering, or never started."""


class RunAbandoned(RuntimeError):
    """Nobody waits for the answer any more: the request was ended between two runs."""


class WorkerAbsent(WorkerLost):
    """No runner can be started at the moment: nothing has run, and waiting may help."""


class Channel(Protocol):
    """A byte stream to one fresh runner. All methods raise OSError where the runner is gone.

    `send` writes all of a message. `receive` returns exactly `size` bytes, or raises TimeoutError (an OSError) where
    they have not all arrived within `timeout_s`. `hang_up` makes the runner end itself and what it runs, and a
    `receive` under way in another thread fail; unlike the rest it may be called from any thread. `close` ends the
    runner with whatever it is running.
    """

    def send(self, message: bytes) -> None: ...

    def receive(self, size: int, *, timeout_s: float) -> bytes: ...

    def hang_up(self) -> None: ...

    def close(self) -> None: ...


class SandboxWorker:
    """One runner together with the inputs and the program that it holds. Not safe for use from several threads at once.

    The runner starts when it is first needed. After `stop` or a loss the next request starts a fresh one, which holds
    nothing: call `compile` again before `run`.

    Attributes:
      name: how results and messages call this worker.
      run_count: runs answered by the current runner.
      history: probes of its core over the last minute.
      spreads: how far runs of one test lay apart in its last requests.
      is_layout_fixed: whether programs run at addresses that are not randomised.
      input_parts: reads a stored input in parts, at least one; None where there are no such inputs.
      conditions: how the runner isolates runs and accounts for processor time; empty before the first program.
    """

    def __init__(
        self, name: str, *, open_channel: Callable[[], Channel], open_judge: Callable[[], Channel] | None = None
    ) -> None:
        """Name a worker; nothing is started yet.

        Args:
          name: for results and messages.
          open_channel: starts a fresh runner and connects to it. An OSError from it becomes WorkerAbsent.
          open_judge: the same for the runner in which programs of problems judge outputs; None for no other way.
        """
        self._open_judge = open_judge or open_channel
        self._judge: SandboxWorker | None = None
        self.input_parts: Callable[[protocol.StoredInput], Iterator[bytes]] | None = None
        self.name = name
        self._open_channel = open_channel
        self._channel: Channel | None = None
        self._held: set[tuple[str, int]] = set()
        self._held_bytes = 0
        self._program: tuple[tuple[object, ...], str | None] | None = None
        self._interactor: protocol.JudgeProgram | None = None
        self.run_count = 0
        self.history = restlessness.SpeedHistory()
        self.spreads = estimate.Spreads()
        self._waits = collections.deque[tuple[float, float]](maxlen=RECENT_RUNS)
        self.is_layout_fixed = False
        self.conditions: dict[str, str] = {}
        self._is_abandoned = threading.Event()
        self._lock = threading.Lock()

    def abandon(self) -> None:
        """End the request under way, from another thread: after its present run, or with it where that takes long.

        It then raises RunAbandoned or WorkerLost where it runs. Call `resume` before the next request.
        """
        self._is_abandoned.set()
        if self._judge is not None:
            self._judge.abandon()
        timer = threading.Timer(ABANDON_S, self._tear_off)
        timer.daemon = True
        timer.start()

    def resume(self) -> None:
        """Take requests again after `abandon`; without effect otherwise."""
        with self._lock:
            self._is_abandoned.clear()
        if self._judge is not None:
            self._judge.resume()

    def _tear_off(self) -> None:
        with self._lock:
            if self._is_abandoned.is_set() and (channel := self._channel) is not None:
                channel.hang_up()

    def compile(
        self,
        program: str,
        *,
        language: str,
        files: Mapping[str, str] | None = None,
        arguments: Sequence[str] | None = None,
    ) -> str | None:
        """Make `program` the current one, unless it is already.

        Args:
          program: source text.
          language: a key of `inside.languages.LANGUAGES`.
          files: further files by name, beside the program's own.
          arguments: of a program that judges outputs; None for any other.

        Returns:
          Why the program does not compile, in the compiler's words; None where it does.

        Raises:
          InvalidRequestError: the image lacks what the language needs.
          WorkerAbsent: no runner can be started at the moment.
          WorkerLost: the runner died or did not answer in time.
        """
        key = (program, language, tuple(sorted((files or {}).items())), None if arguments is None else tuple(arguments))
        if self._program is None or self._program[0] != key:
            request = {"do": "program", "text": program, "language": language, "files": dict(files or {})}
            own = {} if arguments is None else {"arguments": [*arguments], "role": languages.JUDGE}
            answer = self._ask(request | own)
            protocol.require(
                "is_unavailable" not in answer, "language", language, f"one of this image ({answer['error']})"
            )
            self._program = (key, answer["error"])
            self.is_layout_fixed = answer.get("is_layout_fixed", self.is_layout_fixed)
            self.conditions |= {name: answer[name] for name in ("isolation", "accounting", "users") if name in answer}
        return self._program[1]

    def run(
        self,
        suite: protocol.Suite,
        tests: Sequence[int],
        *,
        limits: Callable[[int], protocol.Limits],
        probes: bool,
        ahead: int = 1,
        patience_s: Callable[[int], float] = lambda _: 0.0,
        feedback: Mapping[str, str] | None = None,
    ) -> Iterator[Mapping[str, object]]:
        """Run the current program once on each test, one after the other; needs a program that `compile` accepted.

        Up to `ahead` runs are requested before their reports are read, so that the runner never waits for the
        connection. A caller that stops iterating while others are under way loses the runner and those runs: with
        `ahead` = 1 stopping costs nothing.

        Args:
          suite: holds the inputs; those that the runner lacks are sent first.
          tests: indices into `suite.inputs`; an index may occur more than once.
          limits: what a run on a test may use, by the test's index.
          probes: whether to time a fixed loop around each run.
          ahead: most runs under way at a time, at least 1.
          patience_s: how long a run on a test may wait for a slow spell of the core to end, by the test's index.
          feedback: files by name that the suite's interactor left after the pass before; None before the first one.

        Yields:
          One report per test, in order, as `sandbox.runner` makes it: `exit` (status, or minus the signal),
          `killed_for` (the limit that ended the run, "time", "memory" or "processes"; else empty), `oom_killed`,
          `wall_s` (the program's own seconds, see `clocks.program_s`), `cpu_s`, `peak_memory_bytes`, `output_bytes`,
          `output` (bytes, cut one beyond the limit), `errors` (the end of standard error), `instructions` (None where
          they are not counted), `at_s` (when it began), `waited_s` (how long others kept it from its core) and
          `probe_s` (0 without probes). After a conversation `interactor` holds the same of the interactor; its output
          is what it wrote, or its folder's files as JSON.

        Raises:
          InvalidRequestError: the inputs do not fit into the runner's file system.
          WorkerAbsent: no runner can be started at the moment.
          WorkerLost: the runner died or did not answer in time.
          RunAbandoned: `abandon` was called.
        """
        request, partner_s = {"do": "run", "probes": probes, "calm_s": min(self.history.calm_s, ANY_S)}, 0.0
        if suite.interactor:
            self._hold_interactor(suite.interactor)
            request |= interactive.conversation_of(suite.interactor)
            partner_s = suite.interactor.limits.wall_s
            suite = interactive.packed_suite(suite, suite.interactor, feedback=feedback or {})
        request["suite"] = suite.sha256

        def asked(test: int) -> dict:
            own = {"test": test, "file": file_of(suite, test), "patience_s": patience_s(test)}
            return request | own | {"limits": protocol.limits_of_run(limits(test))}

        for group in groups_of(suite, tests):
            self._hold(suite, group)
            reports = (limits(test) for test in group)
            yield from self._run_group(map(asked, group), reports, ahead=ahead, partner_s=partner_s)

    def _run_group(
        self, requests: Iterator[dict], limits: Iterator[protocol.Limits], *, ahead: int, partner_s: float
    ) -> Iterator[Mapping[str, object]]:
        """Send requests, up to `ahead` of them before their reports are read, and yield the reports in order.

        Half of them travel in one message: to carry one through an engine costs about as much as a run.
        """
        on_their_way = 0
        try:
            while True:
                sent = [*itertools.islice(requests, ahead - on_their_way)] if on_their_way <= ahead // 2 else []
                if sent and self._is_abandoned.is_set():
                    raise RunAbandoned(f"worker {self.name}: nobody waits for this request any more")
                if sent:
                    self._send(*sent)
                on_their_way += len(sent)
                if not on_their_way:
                    return
                on_their_way -= 1
                yield self._report(next(limits), partner_s=partner_s)
        finally:
            # Answers to runs that nobody listens to any more must not be taken for answers to later requests.
            if on_their_way:
                self.stop()

    def judge(
        self,
        judge: protocol.JudgeProgram,
        *,
        input_text: str,
        output: str,
        answer: str,
        feedback: Mapping[str, str] | None = None,
    ) -> Mapping[str, object]:
        """Let a problem's own program judge an output, in a runner in which nothing else ever runs.

        Args:
          judge: the program.
          input_text: the test's input.
          output: what the program under test printed.
          answer: what the suite expects.
          feedback: files by name that the judge left after the pass before; None where there is one pass alone.

        Returns:
          The report of the judge's run, as `run` yields it; with `feedback` its output is that folder's files as JSON.

        Raises:
          InvalidRequestError: the judge does not compile.
          WorkerLost, RunAbandoned: as `run`.
        """
        if self._judge is None:
            self._judge = SandboxWorker(f"{self.name}-judge", open_channel=self._open_judge)
        arguments = conventions.arguments_of(judge)
        error = self._judge.compile(judge.program, language=judge.language, files=judge.files, arguments=arguments)
        protocol.require(error is None, "suite.judge.program", judge.language, f"a program that compiles ({error})")
        suite = protocol.Suite((conventions.packed(input_text, output, answer, feedback=feedback),), (None,))
        (report,) = self._judge.run(suite, [0], limits=lambda _: judge.limits, probes=False)
        return report

    def _hold_interactor(self, interactor: protocol.JudgeProgram) -> None:
        """Make an interactor the current one, unless it is already."""
        if self._interactor == interactor:
            return
        answer = self._ask(
            {
                "do": "interactor",
                "text": interactor.program,
                "language": interactor.language,
                "files": interactor.files,
                "arguments": conventions.arguments_of(interactor),
                "role": languages.INTERACTOR,
            }
        )
        error, field = answer["error"], "suite.interactor.program"
        protocol.require(error is None, field, interactor.language, f"a program that compiles ({error})")
        self._interactor = interactor

    def stop(self) -> None:
        """End the runner and whatever it is running; does nothing where none was started."""
        if self._judge is not None:
            self._judge.stop()
        channel, self._channel = self._channel, None
        self._held.clear()
        self._held_bytes = 0
        self._program = self._interactor = None
        self.run_count = 0
        if channel is not None:
            channel.close()

    def _hold(self, suite: protocol.Suite, tests: Sequence[int]) -> None:
        """Send the inputs that the runner lacks, all of them before the first answer is read.

        Where they would not fit beside what it holds, it is told to forget everything first.
        """
        lacking = [test for test in dict.fromkeys(tests) if (suite.sha256, test) not in self._held]
        lacking_bytes = bytes_of(suite, lacking)
        if self._held and self._held_bytes + lacking_bytes > HELD_BYTES:
            self._ask({"do": "forget"})
            self._held.clear()
            lacking, lacking_bytes, self._held_bytes = [*dict.fromkeys(tests)], bytes_of(suite, tests), 0
        texts = [test for test in lacking if not file_of(suite, test)]
        for test in texts:
            self._send({"do": "input", "suite": suite.sha256, "test": test, "text": suite.text_of(test)})
        refusals = [self._receive("input", timeout_s=GRACE_S).get("error") for _ in texts]
        stored = (suite.inputs[test] for test in lacking if test not in texts)
        refusals += [self._stream(item) for item in stored if not isinstance(item, str)]
        self._held |= {(suite.sha256, test) for test in lacking}
        if reason := next(filter(None, refusals), None):
            self.stop()
            raise protocol.InvalidRequestError(
                f"suite.inputs: expected inputs that this backend has room for: {reason}"
            )
        self._held_bytes += lacking_bytes

    def _stream(self, stored: protocol.StoredInput) -> str | None:
        """Send a stored input in parts, so that neither side holds it in memory; return why it was refused."""
        assert self.input_parts is not None
        for n, part in enumerate(self.input_parts(stored)):
            content = base64.b64encode(part).decode()
            request = {"do": "append", "file": stored.sha256, "content": content, "is_first": n == 0}
            if error := self._ask(request).get("error"):
                return error
        return None

    def _report(self, limits: protocol.Limits, *, partner_s: float) -> Mapping[str, object]:
        """Wait for the report of one run, at most as long as it and its partner can last, and a grace."""
        longest_s = containment.MOST_EXTENSION * 2 * (limits.wall_s + partner_s)
        answer = self._receive("run", timeout_s=longest_s + GRACE_S)
        for part in filter(None, (answer, answer.get("interactor"))):
            part["output"] = base64.b64decode(part.get("output", ""))
        self.run_count += 1
        self.history = self.history.after(answer["speeds"])
        self._note_waits(answer["waited_s"], answer["wall_s"])
        return answer

    def _note_waits(self, waited_s: float, wall_s: float) -> None:
        """Say in `conditions` whether others had the core for a part of the last runs that cannot be overlooked."""
        self._waits.append((waited_s, wall_s))
        waits_s, walls_s = zip(*self._waits, strict=True)
        self.conditions.pop("busy", None)
        if sum(waits_s) > BUSY_SHARE * (sum(waits_s) + sum(walls_s)):
            self.conditions["busy"] = "yes"

    def _ask(self, request: dict) -> dict:
        """Send one request and wait for its answer."""
        self._send(request)
        return self._receive(request["do"], timeout_s=containment.MOST_EXTENSION * held.TOOL_LIMITS["wall_s"] + GRACE_S)

    def _send(self, *requests: dict) -> None:
        """Send requests in one message, starting a runner where there is none."""
        if self._channel is None:
            try:
                self._channel = self._open_channel()
            except OSError as error:
                raise WorkerAbsent(f"worker {self.name} cannot be started: {error}") from error
        with self._losses(requests[0]["do"]):
            self._channel.send(b"".join(map(runner.packed, requests)))

    def _receive(self, what: str, *, timeout_s: float) -> dict:
        with self._losses(what):
            if self._channel is None:
                raise ConnectionError("the runner has ended")
            (size,) = runner.HEADER.unpack(self._channel.receive(runner.HEADER.size, timeout_s=timeout_s))
            return json.loads(self._channel.receive(size, timeout_s=timeout_s))

    @contextlib.contextmanager
    def _losses(self, what: str) -> Iterator[None]:
        """Turn errors of the channel into WorkerLost, and give up on the runner."""
        try:
            yield
        except OSError as error:
            self.stop()
            raise WorkerLost(f"worker {self.name} was lost during {what!r}: {error}") from error
