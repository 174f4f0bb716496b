"""Runs one request on one worker: every test, and repeats where its runs do not agree yet.

Repeats of a test are spread over the whole request (round after round over all tests) and not taken back to back,
because a slow spell of a shared host lasts longer than a few runs. Every execution counts: one that fails fails its
test, whatever the others did, and the answer says how all of them ended. Tests that have failed are not repeated. The
executions of a request are a budget: a test whose runs agree leaves its share to those that do not, and to those near a
decision. A short probe of fixed work around each repeated run tells a slow core from a slow program: a repeat waits a
little for a slow spell to end, and runs within one settle nothing.
"""

import dataclasses
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from sandbox import protocol
from sandbox.protocol import RunRequest, Suite, TestResult, Verdict
from sandbox.timing import calls, estimate, passes, restlessness, verdicts
from sandbox.timing.conventions import DETAIL_CHARACTERS, Judgement
from sandbox.timing.estimate import Timing

Report = Mapping[str, typing.Any]
LimitsOfTest = Callable[[int], protocol.Limits]

# Requests are small: this many fit into any pipe, so that asking never waits for an answer to be read.
AHEAD = 8
# No repeat waits longer than this for a slow spell to end.
MOST_PATIENCE_S = 1.0


class ProgramExecutor(passes.PassExecutor, Protocol):
    """What compiles and runs one program at a time, and judges its outputs: a worker.

    `compile` returns None, or the compiler's message where the program is not one. `run` yields one report for each
    test in their order; up to `ahead` runs may be under way before their reports are asked for.

    Attributes:
      name: name of the worker in results.
      history: probes of its core over the last minute.
      spreads: how far runs of one test lay apart in its last requests; `measure` keeps it.
      is_layout_fixed: whether programs run without address randomization.
    """

    name: str
    history: restlessness.SpeedHistory
    spreads: estimate.Spreads
    is_layout_fixed: bool

    def compile(self, program: str, *, language: str, files: Mapping[str, str] | None = None) -> str | None: ...

    def run(
        self,
        suite: Suite,
        tests: Sequence[int],
        *,
        limits: LimitsOfTest,
        probes: bool,
        ahead: int = 1,
        patience_s: Callable[[int], float] = ...,
        feedback: Mapping[str, str] | None = None,
    ) -> Iterator[Report]: ...


class Begun(NamedTuple):
    """A request of which every test ran once, as far as it was to.

    Attributes:
      program: what runs, with the harness around it where the suite calls a function.
      results: one for each test that was reached, with the seconds of its one run.
      timings: the successful runs by test.
      met_spell: whether most runs met a core so slow that another core, or another moment, would serve better.
    """

    program: str
    results: tuple[TestResult, ...]
    timings: Mapping[int, Sequence[Timing]]
    met_spell: bool


def measure(worker: ProgramExecutor, request: RunRequest, suite: Suite) -> tuple[TestResult, ...]:
    """Run one request on one worker: `begin`, then `finish`."""
    return finish(worker, request, suite, begun=begin(worker, request, suite))


def begin(worker: ProgramExecutor, request: RunRequest, suite: Suite) -> Begun:
    """Run each test of a request once.

    Args:
      worker: runs the program.
      request: what to run; it has to fit `suite`.
      suite: inputs and expected outputs.

    Returns:
      Results in the order of the tests asked for: of all of them, or up to the first failure where the request stops
      early. A program that does not compile fails each test (the first alone where the request stops early).

    Raises:
      WorkerLost, WorkerAbsent: from `worker`, where no verdict about the program is possible.
    """
    tests = range(len(suite.inputs)) if request.tests is None else request.tests
    program, error = _compile(worker, request, suite)
    if error is not None:
        failed = tests[:1] if request.stops_early else tests
        results = [TestResult(t, Verdict.COMPILE_ERROR, 0.0, worker=worker.name, detail=error) for t in failed]
        return Begun(program, tuple(results), {}, False)
    timings: dict[int, list[Timing]] = {}
    results = _first_round(worker, request, suite, tests=tests, timings=timings)
    spell_s = worker.history.spell_s
    slow = sum(run.probe_s > spell_s for runs in timings.values() for run in runs)
    return Begun(program, tuple(results), timings, request.repeats > 1 and 2 * slow > len(timings))


def finish(worker: ProgramExecutor, request: RunRequest, suite: Suite, *, begun: Begun) -> tuple[TestResult, ...]:
    """Spend the executions that a request has left, and estimate the seconds of its tests.

    Args:
      worker: runs the program; another one than began is welcome, if it comes from the same host.
      request: what to run.
      suite: inputs and expected outputs.
      begun: what `begin` found.

    Returns:
      Results in the order of `begun.results`.

    Raises:
      WorkerLost, WorkerAbsent: as `begin`.
    """
    timings = {test: [*runs] for test, runs in begun.timings.items()}
    if timings and request.repeats > 1:
        # Nothing happens where this worker holds already what runs.
        worker.compile(begun.program, language=request.language, files=request.files)
    own = [dataclasses.replace(r, worker=worker.name) if r.test in timings else r for r in begun.results]
    results = _repeat(worker, request, suite, results=own, timings=timings)
    floor_share = estimate.FLOOR_SHARE if worker.is_layout_fixed else estimate.RANDOM_LAYOUT_SHARE
    past, worker.spreads = worker.spreads, worker.spreads.after(timings)
    return estimate.estimated(results, timings, history=worker.history, past=past, floor_share=floor_share)


def _compile(worker: ProgramExecutor, request: RunRequest, suite: Suite) -> tuple[str, str | None]:
    """Make the request's program the worker's; return what runs, and why it does not compile, if so."""
    program = request.program
    error = worker.compile(program, language=request.language, files=request.files)
    if error is None and suite.call:
        # The program alone was compiled first, so that its own mistakes are compile errors.
        program = calls.harness(program, suite.call)
        error = worker.compile(program, language=request.language, files=request.files)
    return program, error


def _repeat(
    worker: ProgramExecutor,
    request: RunRequest,
    suite: Suite,
    *,
    results: Sequence[TestResult],
    timings: dict[int, list[Timing]],
) -> list[TestResult]:
    """Spend the executions that are left, in rounds over the tests that need them.

    Returns the results with the verdict of the first execution that failed, where one did, and the number of endings.
    """
    decisions_s = _decisions_s(request, suite)
    left = (request.repeats - 1) * len(timings)
    executions = dict.fromkeys(timings, 1)
    failures: dict[int, TestResult] = {}
    while left > 0:
        steady = {test: runs for test, runs in timings.items() if test not in failures}
        calm_s = worker.history.calm_s
        needy = estimate.tests_to_repeat(steady, precision=request.precision, decisions_s=decisions_s, calm_s=calm_s)
        needy = [test for test in needy if executions[test] < estimate.MOST_SHARES * request.repeats][:left]
        if not needy:
            break
        left -= len(needy)
        patience_s = {test: _patience_s(timings[test]) for test in needy}
        for test, report in _reports(worker, request, suite, sorted(needy), patience_s=patience_s):
            executions[test] += 1
            report, judgement = passes.judge_execution(worker, report, suite, test, request)
            if judgement.verdict is Verdict.SUCCESS:
                timings[test].append(_timing(report))
            else:
                failures[test] = _result(report, test, judgement, worker.name, request)
    for test, failure in failures.items():
        endings = {str(Verdict.SUCCESS): len(timings.pop(test)), str(failure.verdict): 1}
        failures[test] = dataclasses.replace(failure, runs=executions[test], endings=endings)
    return [failures.get(result.test, result) for result in results]


def _decisions_s(request: RunRequest, suite: Suite) -> dict[int, Collection[float]]:
    """Collect the seconds at which something is decided, by test: its limit, and what the request says."""
    tests = range(len(suite.inputs)) if request.tests is None else request.tests
    limits_s = [request.limits_of(test).wall_s for test in tests]
    own_s = request.decisions_s or limits_s
    return {test: values_s for test, *values_s in zip(tests, limits_s, own_s, strict=True)}


def _patience_s(runs: Sequence[Timing]) -> float:
    """Return how long a repeat may wait for a slow spell to end: no longer than it takes itself."""
    return min(MOST_PATIENCE_S, min(run.wall_s for run in runs))


def _reports(
    worker: ProgramExecutor,
    request: RunRequest,
    suite: Suite,
    tests: Sequence[int],
    *,
    patience_s: Mapping[int, float] | None = None,
) -> Iterator[tuple[int, Report]]:
    """Run each test once and yield it with its report; runs are under way ahead only where nothing stops early."""
    patience_s = patience_s or {}
    # A judge that works while the next run is under way would have its core.
    ahead = 1 if request.stops_early or suite.judge else AHEAD
    # The further passes of a test run between it and the next, so that the worker is asked for one test at a time.
    groups = [[test] for test in tests] if passes.has_passes(suite) else [tests]
    for group in groups:
        reports = worker.run(
            suite,
            group,
            limits=request.limits_of,
            probes=request.repeats > 1,
            ahead=ahead,
            patience_s=lambda test: patience_s.get(test, 0.0),
        )
        yield from zip(group, reports, strict=True)


def _timing(report: Report) -> Timing:
    wall_s, cpu_s, probe_s, at_s = (float(report[name]) for name in ("wall_s", "cpu_s", "probe_s", "at_s"))
    return Timing(wall_s, cpu_s, probe_s, report["instructions"], at_s=at_s)


def _first_round(
    worker: ProgramExecutor,
    request: RunRequest,
    suite: Suite,
    *,
    tests: Sequence[int],
    timings: dict[int, list[Timing]],
) -> list[TestResult]:
    """Run each test once; `timings` receives the runs that succeed."""
    results = []
    for test, report in _reports(worker, request, suite, tests):
        report, judgement = passes.judge_execution(worker, report, suite, test, request)
        results.append(_result(report, test, judgement, worker.name, request))
        if judgement.verdict is Verdict.SUCCESS:
            timings[test] = [_timing(report)]
        if request.stops_early and not _continues(request, test, judgement.verdict):
            break
    return results


def _continues(request: RunRequest, test: int, verdict: Verdict) -> bool:
    """Return False where nothing that follows can matter: after a failure, or a time limit on a test to be passed."""
    tolerates = request.optimization_tests is None or test in request.optimization_tests
    return verdict is Verdict.SUCCESS or (verdict is Verdict.TIME_LIMIT and tolerates)


def _result(report: Report, test: int, judgement: Judgement, worker: str, request: RunRequest) -> TestResult:
    verdict = judgement.verdict
    is_timeout = verdict is Verdict.TIME_LIMIT
    return TestResult(
        test=test,
        verdict=verdict,
        wall_s=request.limits_of(test).wall_s if is_timeout else float(report["wall_s"]),
        cpu_s=float(report["cpu_s"]),
        peak_memory_bytes=int(report["peak_memory_bytes"]),
        instructions=report["instructions"],
        worker=worker,
        endings={str(verdict): 1},
        output=verdicts.text_of(report["output"]) if request.returns_output else None,
        detail=judgement.detail or ("" if verdict is Verdict.SUCCESS else str(report["errors"])[-DETAIL_CHARACTERS:]),
        fault=judgement.fault,
    )
