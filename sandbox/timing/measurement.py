"""Runs one request on one worker: every test, and repeats where its runs do not agree yet.

Repeats of a test are spread over the whole request (round after round over all tests) and not taken back to back,
because a slow spell of a shared host lasts longer than a few runs. Every execution counts: one that fails fails its
test, whatever the others did, and the answer says how all of them ended. Tests that have failed are not repeated. The
executions of a request are a budget: a test whose runs agree leaves its share to those that do not, and to those near a
decision. A short probe of fixed work around each repeated run tells a slow core from a slow program.
"""

import dataclasses
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from sandbox import protocol
from sandbox.protocol import RunRequest, Suite, TestResult, Verdict
from sandbox.timing import estimate, verdicts
from sandbox.timing.estimate import Timing

Report = Mapping[str, typing.Any]

DETAIL_CHARACTERS = 400
# Requests are small: this many fit into any pipe, so that asking never waits for an answer to be read.
AHEAD = 8


class ProgramExecutor(Protocol):
    name: str
    fastest_probe_s: float
    is_layout_fixed: bool

    def compile(self, program: str, *, language: str) -> str | None: ...

    def run(
        self, suite: Suite, tests: Sequence[int], *, limits: protocol.Limits, probes: bool, ahead: int = 1
    ) -> Iterator[Report]: ...


def measure(worker: ProgramExecutor, request: RunRequest, suite: Suite) -> tuple[TestResult, ...]:
    """Results of all tests of a request, in the order asked for; stops at the first failure where it is told to."""
    tests = range(len(suite.inputs)) if request.tests is None else request.tests
    error = worker.compile(request.program, language=request.language)
    if error is not None:
        failed = tests[:1] if request.stops_early else tests
        return tuple(TestResult(t, Verdict.COMPILE_ERROR, 0.0, worker=worker.name, detail=error) for t in failed)
    timings: dict[int, list[Timing]] = {}
    results = _first_round(worker, request, suite, tests=tests, timings=timings)
    results = _repeat(worker, request, suite, results=results, timings=timings)
    floor_share = estimate.FLOOR_SHARE if worker.is_layout_fixed else estimate.RANDOM_LAYOUT_SHARE
    return estimate.estimated(results, timings, fastest_probe_s=worker.fastest_probe_s, floor_share=floor_share)


def _repeat(
    worker: ProgramExecutor,
    request: RunRequest,
    suite: Suite,
    *,
    results: Sequence[TestResult],
    timings: dict[int, list[Timing]],
) -> list[TestResult]:
    """Spends the executions that are left, in rounds over the tests that need them.

    Returns the results with the verdict of the first execution that failed, where one did, and the number of endings.
    """
    decisions_s = _decisions_s(request, suite)
    left = (request.repeats - 1) * len(timings)
    executions = dict.fromkeys(timings, 1)
    failures: dict[int, TestResult] = {}
    while left > 0:
        steady = {test: runs for test, runs in timings.items() if test not in failures}
        needy = estimate.tests_to_repeat(steady, precision=request.precision, decisions_s=decisions_s)
        needy = [test for test in needy if executions[test] < estimate.MOST_SHARES * request.repeats][:left]
        if not needy:
            break
        left -= len(needy)
        for test, report in _reports(worker, request, suite, sorted(needy)):
            executions[test] += 1
            verdict = _judged(report, suite, test, request)
            if verdict is Verdict.SUCCESS:
                timings[test].append(_timing(report))
            else:
                failures[test] = _result(report, test, verdict, worker.name, request)
    for test, failure in failures.items():
        endings = {str(Verdict.SUCCESS): len(timings.pop(test)), str(failure.verdict): 1}
        failures[test] = dataclasses.replace(failure, runs=executions[test], endings=endings)
    return [failures.get(result.test, result) for result in results]


def _decisions_s(request: RunRequest, suite: Suite) -> dict[int, Collection[float]]:
    """Seconds at which something depends on each test: its limit, and what the request says."""
    limit_s = request.limits.wall_s
    tests = range(len(suite.inputs)) if request.tests is None else request.tests
    own_s = request.decisions_s or (limit_s,) * len(tests)
    return {test: (limit_s, decision_s) for test, decision_s in zip(tests, own_s, strict=True)}


def _reports(
    worker: ProgramExecutor, request: RunRequest, suite: Suite, tests: Sequence[int]
) -> Iterator[tuple[int, Report]]:
    """Each test with the report of one run of it. Only where nothing stops early may runs be under way unasked for."""
    ahead = 1 if request.stops_early else AHEAD
    reports = worker.run(suite, tests, limits=request.limits, probes=request.repeats > 1, ahead=ahead)
    return zip(tests, reports, strict=True)


def _timing(report: Report) -> Timing:
    return Timing(float(report["wall_s"]), float(report["cpu_s"]), float(report["probe_s"]), report["instructions"])


def _first_round(
    worker: ProgramExecutor,
    request: RunRequest,
    suite: Suite,
    *,
    tests: Sequence[int],
    timings: dict[int, list[Timing]],
) -> list[TestResult]:
    """One run of each test; `timings` receives those of the tests that succeed."""
    results = []
    for test, report in _reports(worker, request, suite, tests):
        verdict = _judged(report, suite, test, request)
        results.append(_result(report, test, verdict, worker.name, request))
        if verdict is Verdict.SUCCESS:
            timings[test] = [_timing(report)]
        if request.stops_early and not _continues(request, test, verdict):
            break
    return results


def _continues(request: RunRequest, test: int, verdict: Verdict) -> bool:
    """False where nothing that follows can matter: after a failure, or a time limit on a test that has to be passed."""
    tolerates = request.optimization_tests is None or test in request.optimization_tests
    return verdict is Verdict.SUCCESS or (verdict is Verdict.TIME_LIMIT and tolerates)


def _judged(report: Report, suite: Suite, test: int, request: RunRequest) -> Verdict:
    return verdicts.verdict_of(report, expected=suite.expected[test], checker=suite.checker, limits=request.limits)


def _result(report: Report, test: int, verdict: Verdict, worker: str, request: RunRequest) -> TestResult:
    is_timeout = verdict is Verdict.TIME_LIMIT
    return TestResult(
        test=test,
        verdict=verdict,
        wall_s=request.limits.wall_s if is_timeout else float(report["wall_s"]),
        cpu_s=float(report["cpu_s"]),
        peak_memory_bytes=int(report["peak_memory_bytes"]),
        instructions=report["instructions"],
        worker=worker,
        endings={str(verdict): 1},
        output=verdicts.text_of(report["output"]) if request.returns_output else None,
        detail="" if verdict is Verdict.SUCCESS else str(report["errors"])[-DETAIL_CHARACTERS:],
    )
