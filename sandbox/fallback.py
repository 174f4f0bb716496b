"""What becomes of a test that the service could not settle, after the paper (L2243-L2257, L2450-L2470). Pure.

A policy takes the unsettled result, the result of a run on this machine and whether the test's duration matters, and
returns what to report. Seconds of this machine never stand for seconds of the service: a local run may settle whether a
program is correct, never how fast it is.
"""

import dataclasses
from collections.abc import Callable

from sandbox.protocol import RunRequest, TestResult, Verdict

Policy = Callable[[TestResult, TestResult, bool, float], TestResult]


def discard(fault: TestResult, local: TestResult, is_optimization: bool, limit_s: float) -> TestResult:
    """The test stays a fault, which masks the rollout."""
    return fault


def conservative(fault: TestResult, local: TestResult, is_optimization: bool, limit_s: float) -> TestResult:
    """The paper's policy: a local verdict stands, but a local success on an optimization test is a timeout."""
    if local.verdict is Verdict.SUCCESS and is_optimization:
        return dataclasses.replace(local, verdict=Verdict.TIME_LIMIT, wall_s=limit_s, detail=fault.detail)
    return local


def correctness_only(fault: TestResult, local: TestResult, is_optimization: bool, limit_s: float) -> TestResult:
    """A local verdict stands on correctness tests; optimization tests stay faults, which no reward ever sees."""
    return fault if is_optimization else local


POLICIES: dict[str, Policy] = {
    "discard": discard,
    "conservative": conservative,
    "correctness_only": correctness_only,
}


def settle(request: RunRequest, fault: TestResult, local: TestResult, *, policy: Policy) -> TestResult:
    """What to report for one unsettled test.

    Where the request does not say which tests are optimization tests, or the local run failed too, the fault stays.
    """
    if request.optimization_tests is None or local.verdict is Verdict.SANDBOX_FAULT:
        return fault
    return policy(fault, local, fault.test in request.optimization_tests, request.limits.wall_s)
