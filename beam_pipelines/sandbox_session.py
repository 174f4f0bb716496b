"""Edge: runs solutions and generators in the sandbox for the stages that need to see what programs do.

A stage hands over a problem, tests and solutions and gets executions back. One client is shared by all stages of a
process; equal requests are answered from the store, so that a restarted build goes on where it was killed.
"""

import contextlib
import dataclasses
import functools
import json
import pathlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from beam_pipelines import matrices
from beam_pipelines.answer_files import AnswerFiles
from beam_pipelines.records import Solution, Test
from beam_pipelines.remote_files import is_remote
from sandbox import client as sandbox_client
from sandbox import protocol

# Of inputs. Clients and workers keep every suite in memory, so that this bounds what a long build takes there.
RENEWED_AFTER_CHARACTERS = 64 << 20
# A suite as a service takes it by default, with room for what else is in the message.
SUITE_BYTES = 60 << 20
# After these a run that stops early goes on.
GOES_ON = (protocol.Verdict.SUCCESS, protocol.Verdict.TIME_LIMIT)


@dataclasses.dataclass(frozen=True)
class Connection:
    """How to reach the sandbox, as plain values that travel to workers.

    Attributes:
      address: `local`, `docker`, or the URLs of services.
      workers: programs at the same time.
      store: of executions: a local file, not used by workers that do not see its directory, or a remote directory of
        files, which all workers share; empty for none.
      limit_s: cap of one execution, seconds.
      memory_bytes: memory of one execution.
      checkpoints: directory in which stages keep what took them long; empty for none.
    """

    address: str
    workers: int
    store: str
    limit_s: float
    memory_bytes: int
    checkpoints: str = ""


@dataclasses.dataclass(frozen=True)
class Spent:
    """What the sandbox has done.

    Attributes:
      executions: runs of programs.
      program_s: wall seconds that the programs ran.
      waited_s: wall seconds that the caller waited.
    """

    executions: int = 0
    program_s: float = 0.0
    waited_s: float = 0.0

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(
            self.executions - other.executions, self.program_s - other.program_s, self.waited_s - other.waited_s
        )


@dataclasses.dataclass(frozen=True)
class Runs:
    """What came of running solutions on tests.

    Attributes:
      executions: [k, s].
      outputs: `outputs[s][k]` is what the solution printed; None where it was not asked for or never ran.
    """

    executions: matrices.Executions
    outputs: tuple[tuple[str | None, ...], ...]


@dataclasses.dataclass
class _SharedClient:
    """A client, with the characters of inputs uploaded through it and the number of runs under way on it."""

    client: sandbox_client.Client
    characters: int = 0
    users: int = 0


class SandboxSession:
    """Runs programs through one sandbox client and counts what that took; safe to use from several threads.

    Clients and their workers keep every suite that they were sent, so that the client is renewed now and then: new runs
    go to a new one, and the old one is closed by its last user.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._shared = _SharedClient(_connect(connection))
        self._files = AnswerFiles(connection.store) if is_remote(connection.store) else None
        # By thread, because a runner decides several problems at once and each is charged for its own runs alone.
        self._of_thread = threading.local()
        self.measured_under: tuple[tuple[str, str], ...] = ()

    @property
    def spent(self) -> Spent:
        """What the sandbox did for the calling thread so far."""
        return getattr(self._of_thread, "spent", Spent())

    def run(
        self,
        solutions: Sequence[Solution],
        tests: Sequence[Test],
        *,
        checker: str = "lines",
        files: Mapping[str, str] | None = None,
        stops_early: bool = False,
        returns_output: bool = False,
        output_bytes: int | None = None,
        round_index: int = 0,
    ) -> Runs:
        """Run all solutions on all tests, in as many suites as keep each below SUITE_BYTES, where one test does.

        Args:
          solutions: programs, each in its own language.
          tests: where the expected output is None, any clean exit is a success.
          checker: name of the output comparison, or a program that judges, as `protocol.suite_judged_by` reads it.
          files: further files of every program by name; None for none.
          stops_early: end a solution's run at its first failure; pairs after it are not run.
          returns_output: bring the programs' outputs back.
          output_bytes: limit of one output; None for the sandbox's own.
          round_index: tells repeated measurements of the same pair apart; within one round equal programs run once.

        Returns:
          Executions [k, s] and, where asked for, outputs.

        Raises:
          InvalidRequestError: the sandbox does not know the checker or a language, or a judge does not compile.
        """
        if not solutions or not tests:
            return _runs([[] for _ in solutions], tests=len(tests))
        limits = protocol.Limits(wall_s=self._connection.limit_s, memory_bytes=self._connection.memory_bytes)
        if output_bytes is not None:
            limits = dataclasses.replace(limits, output_bytes=output_bytes)
        ask = functools.partial(
            protocol.RunRequest,
            files=dict(files or {}),
            limits=limits,
            seed=round_index,
            stops_early=stops_early,
            returns_output=returns_output,
        )
        start = time.monotonic()
        found: list[list[protocol.TestResult]] = [[] for _ in solutions]
        going = range(len(solutions))
        for part in fitting_parts(tests):
            inputs, expected = zip(*((tests[t].input, tests[t].output) for t in part), strict=True)
            suite = protocol.suite_judged_by(checker, inputs=inputs, expected=expected)
            requests = [ask(solutions[s].program, suite.sha256, language=solutions[s].language) for s in going]
            for s, results in zip(going, self._results(suite, requests), strict=True):
                found[s] += [dataclasses.replace(one, test=part[one.test]) for one in results] if part[0] else results
            going = [s for s in going if not stops_early or _goes_on(found[s], part)]
            if not going:
                break
        self._count(found, waited_s=time.monotonic() - start)
        return _runs(found, tests=len(tests))

    def _results(
        self, suite: protocol.Suite, requests: Sequence[protocol.RunRequest]
    ) -> list[tuple[protocol.TestResult, ...]]:
        """Return the results of each request on a suite, and note what they were measured under."""
        answers = self._answer(suite, requests)
        if answers[0].measured_under:
            self.measured_under = tuple(sorted(answers[0].measured_under.items()))
        return [answer.results for answer in answers]

    def _answer(self, suite: protocol.Suite, requests: Sequence[protocol.RunRequest]) -> list[protocol.RunResult]:
        """Answer requests on a suite from the files that all workers share, else by the sandbox."""
        if self._files and (kept := self._files.get(requests)):
            return kept
        with self._client(sum(len(suite.text_of(test)) for test in range(len(suite.inputs)))) as client:
            client.upload(suite)
            answers = client.run_many(requests)
        if self._files:
            self._files.put(requests, answers)
        return answers

    def close(self) -> None:
        """End the client and its workers."""
        self._shared.client.close()

    @contextlib.contextmanager
    def _client(self, characters: int) -> Iterator[sandbox_client.Client]:
        """Lend a client with room for one more suite of that size, and keep it open until the block ends."""
        with self._lock:
            used = self._shared.characters
            retired = self._shared if used and used + characters > RENEWED_AFTER_CHARACTERS else None
            if retired:
                self._shared = _SharedClient(_connect(self._connection))
            shared = self._shared
            shared.characters += characters
            shared.users += 1
            is_idle = retired is not None and retired.users == 0
        if retired and is_idle:
            retired.client.close()
        try:
            yield shared.client
        finally:
            with self._lock:
                shared.users -= 1
                is_last_of_old = shared.users == 0 and shared is not self._shared
            if is_last_of_old:
                shared.client.close()

    def _count(self, found: Sequence[Sequence[protocol.TestResult]], *, waited_s: float) -> None:
        cells = [result for results in found for result in results]
        spent = self.spent
        self._of_thread.spent = Spent(
            executions=spent.executions + sum(cell.runs for cell in cells),
            program_s=spent.program_s + sum(cell.wall_s * cell.runs for cell in cells),
            waited_s=spent.waited_s + waited_s,
        )


def fitting_parts(tests: Sequence[Test]) -> Iterator[range]:
    """Yield the tests in order, as indices, in parts of at most SUITE_BYTES; a larger test is a part of its own."""
    start, part_bytes = 0, 0
    for index, test in enumerate(tests):
        test_bytes = len(json.dumps((test.input, test.output)))
        if index > start and part_bytes + test_bytes > SUITE_BYTES:
            yield range(start, index)
            start, part_bytes = index, 0
        part_bytes += test_bytes
    yield range(start, len(tests))


def _goes_on(results: Sequence[protocol.TestResult], part: range) -> bool:
    """Tell whether a run that stops early did not stop in a part."""
    return bool(results) and results[-1].test == part[-1] and results[-1].verdict in GOES_ON


def _runs(found: Sequence[Sequence[protocol.TestResult]], *, tests: int) -> Runs:
    executions = matrices.not_run(tests, len(found))
    outputs: list[list[str | None]] = [[None] * tests for _ in found]
    for s, results in enumerate(found):
        for result in results:
            cell = (result.test, s)
            executions.verdict[cell] = matrices.verdict_code(result.verdict)
            executions.wall_s[cell], executions.std_s[cell] = result.wall_s, result.wall_std_s
            executions.runs[cell] = result.runs
            outputs[s][result.test] = result.output
    return Runs(executions, tuple(map(tuple, outputs)))


def _connect(connection: Connection) -> sandbox_client.Client:
    """Connect a client, without stored executions where the worker cannot see their directory."""
    # A worker on another host may share no file system with the driver: it goes without a local store.
    is_here = not is_remote(connection.store) and pathlib.Path(connection.store).parent.is_dir()
    store = connection.store if is_here else ""
    return sandbox_client.connect(connection.address, workers=connection.workers, store=store)


_LOCK = threading.Lock()
_SHARED: dict[Connection, tuple[SandboxSession, int]] = {}


def acquire_session(connection: Connection) -> SandboxSession:
    """Return the session that all stages of this process share, connecting on the first call.

    Every call needs one `release_session` with an equal connection.

    Args:
      connection: how to reach the sandbox.

    Raises:
      OSError, ValueError: no sandbox answers at that address.
    """
    with _LOCK:
        session, users = _SHARED.get(connection) or (SandboxSession(connection), 0)
        _SHARED[connection] = (session, users + 1)
        return session


def release_session(connection: Connection) -> None:
    """Give the shared session back; the last user closes it and its workers.

    Raises:
      KeyError: no session of this connection is held.
    """
    with _LOCK:
        session, users = _SHARED.pop(connection)
        if users > 1:
            _SHARED[connection] = (session, users - 1)
        else:
            session.close()


@contextlib.contextmanager
def all_sessions_closed() -> Iterator[None]:
    """Close every session of this process at the end of the block, however it ends.

    A driver may hold one there from its first look at the sandbox to its last, or end before its stages are torn down.
    """
    try:
        yield
    finally:
        with _LOCK:
            for session, _ in _SHARED.values():
                session.close()
            _SHARED.clear()
