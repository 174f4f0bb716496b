"""Runs one request on one worker: every test, its repeats, and the estimate of its duration.

Repeats of a test are spread over the whole request (round after round over all tests) and not taken back to back,
because a slow spell of a shared host lasts longer than a few runs. Only tests that succeed are repeated.
"""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Protocol

from sandbox import protocol, verdicts
from sandbox.protocol import RunRequest, Suite, TestResult, Verdict

CONTINUES = (Verdict.SUCCESS, Verdict.TIME_LIMIT)
DETAIL_CHARACTERS = 400


class Worker(Protocol):
    name: str

    def compile(self, program: str) -> str | None: ...

    def run(self, suite: Suite, test: int, *, limits: protocol.Limits) -> Mapping[str, object]: ...


def measure(worker: Worker, request: RunRequest, suite: Suite) -> tuple[TestResult, ...]:
    """Results of all tests of a request, in the order asked for; stops at the first failure where it is told to."""
    tests = range(len(suite.inputs)) if request.tests is None else request.tests
    error = worker.compile(request.program)
    if error is not None:
        failed = tests[:1] if request.stops_early else tests
        return tuple(TestResult(t, Verdict.COMPILE_ERROR, 0.0, worker=worker.name, detail=error) for t in failed)
    first = _first_round(worker, request, suite, tests)
    again = [result.test for result in first if result.verdict is Verdict.SUCCESS]
    measured = {result.test: [result.wall_s] for result in first}
    for _ in range(request.repeats - 1):
        for test in again:
            report = worker.run(suite, test, limits=request.limits)
            if _judged(report, suite, test, request) is Verdict.SUCCESS:
                measured[test].append(float(report["wall_s"]))
    return tuple(_estimated(result, measured[result.test]) for result in first)


def _first_round(worker: Worker, request: RunRequest, suite: Suite, tests: Sequence[int]) -> list[TestResult]:
    results = []
    for test in tests:
        report = worker.run(suite, test, limits=request.limits)
        verdict = _judged(report, suite, test, request)
        results.append(_result(report, test, verdict, worker.name, request))
        if request.stops_early and verdict not in CONTINUES:
            break
    return results


def _judged(report: Mapping[str, object], suite: Suite, test: int, request: RunRequest) -> Verdict:
    return verdicts.verdict_of(report, expected=suite.expected[test], checker=suite.checker, limits=request.limits)


def _result(
    report: Mapping[str, object], test: int, verdict: Verdict, worker: str, request: RunRequest
) -> TestResult:
    is_timeout = verdict is Verdict.TIME_LIMIT
    return TestResult(
        test=test,
        verdict=verdict,
        wall_s=request.limits.wall_s if is_timeout else float(report["wall_s"]),
        cpu_s=float(report["cpu_s"]),
        peak_memory_bytes=int(report["peak_memory_bytes"]),
        worker=worker,
        output=verdicts.text_of(report["output"]) if request.returns_output else None,
        detail="" if verdict is Verdict.SUCCESS else str(report["errors"])[-DETAIL_CHARACTERS:],
    )


def _estimated(result: TestResult, wall_s: list[float]) -> TestResult:
    """The smallest of the repeats: a disturbed run is only ever slower. Its deviation is that of a single run."""
    if len(wall_s) == 1:
        return result
    return dataclasses.replace(result, wall_s=min(wall_s), wall_std_s=statistics.stdev(wall_s), runs=len(wall_s))
