"""Runs one request on one worker: every test, its repeats, and the estimate of its duration.

Repeats of a test are spread over the whole request (round after round over all tests) and not taken back to back,
because a slow spell of a shared host lasts longer than a few runs. Only tests that succeed are repeated. A short probe
of fixed work before and after each repeated run tells slow spells of the core from slow programs.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from sandbox import protocol, verdicts
from sandbox.protocol import RunRequest, Suite, TestResult, Verdict

# Runs whose probes are within this ratio of the fastest probe of the request count as undisturbed.
CLEAN_RATIO = 1.08
# How many repeats the spread over the whole request weighs in the spread of one test.
PRIOR_RUNS = 4
DETAIL_CHARACTERS = 400
# Requests are small: this many fit into any pipe, so that asking never waits for an answer to be read.
AHEAD = 8


class Worker(Protocol):
    name: str

    def compile(self, program: str, *, language: str) -> str | None: ...

    def run(
        self, suite: Suite, tests: Sequence[int], *, limits: protocol.Limits, probes: bool, ahead: int = 1
    ) -> Iterator[Mapping[str, object]]: ...


class Timing(NamedTuple):
    """One successful run: the program's seconds, and the slower of the probes around it (0 without probes)."""

    wall_s: float
    cpu_s: float
    probe_s: float


def measure(worker: Worker, request: RunRequest, suite: Suite) -> tuple[TestResult, ...]:
    """Results of all tests of a request, in the order asked for; stops at the first failure where it is told to."""
    tests = range(len(suite.inputs)) if request.tests is None else request.tests
    error = worker.compile(request.program, language=request.language)
    if error is not None:
        failed = tests[:1] if request.stops_early else tests
        return tuple(TestResult(t, Verdict.COMPILE_ERROR, 0.0, worker=worker.name, detail=error) for t in failed)
    timings: dict[int, list[Timing]] = {}
    results = _first_round(worker, request, suite, tests=tests, timings=timings)
    for _ in range(request.repeats - 1):
        for test, report in _reports(worker, request, suite, tuple(timings)):
            if _judged(report, suite, test, request) is Verdict.SUCCESS:
                timings[test].append(_timing(report))
    return estimated(results, timings) if request.repeats > 1 else tuple(results)


def _reports(
    worker: Worker, request: RunRequest, suite: Suite, tests: Sequence[int]
) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Each test with the report of one run of it. Only where nothing stops early may runs be under way unasked for."""
    ahead = 1 if request.stops_early else AHEAD
    reports = worker.run(suite, tests, limits=request.limits, probes=request.repeats > 1, ahead=ahead)
    return zip(tests, reports, strict=True)


def _timing(report: Mapping[str, object]) -> Timing:
    return Timing(float(report["wall_s"]), float(report["cpu_s"]), float(report["probe_s"]))


def _first_round(
    worker: Worker, request: RunRequest, suite: Suite, *, tests: Sequence[int], timings: dict[int, list[Timing]]
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


def _judged(report: Mapping[str, object], suite: Suite, test: int, request: RunRequest) -> Verdict:
    return verdicts.verdict_of(report, expected=suite.expected[test], checker=suite.checker, limits=request.limits)


def _result(report: Mapping[str, object], test: int, verdict: Verdict, worker: str, request: RunRequest) -> TestResult:
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


def estimated(results: Sequence[TestResult], timings: Mapping[int, Sequence[Timing]]) -> tuple[TestResult, ...]:
    """Replaces the seconds of repeated tests by their estimate and its standard deviation.

    The estimate is the smallest of the undisturbed runs, because disturbance only ever adds; of all runs where none
    was undisturbed. Few repeats say little about a spread, so that each test's relative spread is drawn towards the
    spread over all tests of the request, as if that had been seen in PRIOR_RUNS more runs.
    """
    probes = [timing.probe_s for runs in timings.values() for timing in runs]
    fastest_probe_s = min(probes, default=0.0)
    variances = {test: _relative_variance(runs) for test, runs in timings.items() if len(runs) > 1}
    pooled = statistics.fmean(variances.values()) if variances else 0.0
    estimates = []
    for result in results:
        runs = timings.get(result.test, ())
        if len(runs) < 2:
            estimates.append(result)
            continue
        clean = [run for run in runs if run.probe_s <= CLEAN_RATIO * fastest_probe_s] or runs
        wall_s = min(run.wall_s for run in clean)
        weight = len(runs) - 1
        variance = (PRIOR_RUNS * pooled + weight * variances[result.test]) / (PRIOR_RUNS + weight)
        estimates.append(
            dataclasses.replace(
                result,
                wall_s=wall_s,
                cpu_s=min(run.cpu_s for run in clean),
                wall_std_s=wall_s * math.sqrt(variance),
                runs=len(runs),
            )
        )
    return tuple(estimates)


def _relative_variance(runs: Sequence[Timing]) -> float:
    walls = [run.wall_s for run in runs]
    return statistics.variance(walls) / max(min(walls), 1e-9) ** 2
