"""What becomes of a test that the service could not settle, or timed in a bad moment (App. C.4 and C.6).

Pure. Seconds of this machine never stand for seconds of the service: a run on this machine may settle whether a program
is correct, never how fast it is. The paper's alternatives are fields of `FallbackPolicy`; POLICIES names the usual
ones.
"""

import dataclasses
from collections.abc import Callable, Mapping

from sandbox.protocol import RunRequest, RunResult, TestResult, Verdict, require
from sandbox.service import health

Conversion = Callable[[TestResult, TestResult, float], TestResult]


def keep_fault(fault: TestResult, local: TestResult, limit_s: float) -> TestResult:
    """Keep the fault, which masks the rollout."""
    return fault


def keep_local_verdict(fault: TestResult, local: TestResult, limit_s: float) -> TestResult:
    """Keep this machine's verdict with the limit as its seconds: its own say nothing about the service's."""
    return dataclasses.replace(local, wall_s=limit_s, cpu_s=limit_s, wall_std_s=0.0)


def count_as_timeout(fault: TestResult, local: TestResult, limit_s: float) -> TestResult:
    """Turn a success of this machine into a timeout at the limit, and keep any other verdict."""
    verdict = Verdict.TIME_LIMIT if local.verdict is Verdict.SUCCESS else local.verdict
    return dataclasses.replace(
        keep_local_verdict(fault, local, limit_s), verdict=verdict, detail=local.detail or fault.detail
    )


CONVERSIONS: dict[str, Conversion] = {"discard": keep_fault, "keep": keep_local_verdict, "timeout": count_as_timeout}
# To keep a success on an optimization test would need its seconds, which nobody has.
CHOICES = {
    "correctness": ("discard", "keep", "timeout"),
    "optimization": ("discard", "timeout"),
    "quarantine": ("mark", "discard"),
    "backend": ("local", "docker"),
}
MOST_RETRIES = 10
# Verdicts that decide about a program whatever the other tests say.
HARD_FAILURES = frozenset(Verdict) - {Verdict.SUCCESS, Verdict.TIME_LIMIT, Verdict.SANDBOX_FAULT}


@dataclasses.dataclass(frozen=True)
class FallbackPolicy:
    """What a client does about a service that does not settle a test or is not itself.

    Attributes:
      correctness: what this machine's verdict is worth on a test that is not an optimization test: nothing (`discard`),
        itself (`keep`), or a timeout where it is a success (`timeout`). The last fails a correct program (App. C.5) and
        is there to be studied.
      optimization: the same on optimization tests, `discard` or `timeout`.
      retries: how often a request that came back unsettled or from a degraded service is sent again at once, to another
        server where there is one; 0 to 10.
      quarantine: what becomes of durations from a degraded moment (`measured_under["degraded"]`): `mark` leaves them
        with their mark, `discard` makes faults of them.
      backend: what runs programs on this machine, `local` or `docker`; `local` has no container around them.

    Raises:
      InvalidRequestError: a field holds a value that is not among its choices.
    """

    correctness: str = "discard"
    optimization: str = "discard"
    retries: int = 1
    quarantine: str = "mark"
    backend: str = "local"

    def __post_init__(self) -> None:
        for field, choices in CHOICES.items():
            value = getattr(self, field)
            require(value in choices, f"fallback_policy.{field}", value, f"one of {', '.join(choices)}")
        is_count = isinstance(self.retries, int) and not isinstance(self.retries, bool)
        is_short = is_count and 0 <= self.retries <= MOST_RETRIES
        require(is_short, "fallback_policy.retries", self.retries, f"a whole number in [0, {MOST_RETRIES}]")


POLICIES: dict[str, FallbackPolicy] = {
    "discard": FallbackPolicy(),
    # The paper's: a local success settles correctness, and on an optimization test is a timeout.
    "conservative": FallbackPolicy(correctness="keep", optimization="timeout"),
    "correctness_only": FallbackPolicy(correctness="keep"),
}


def policy_of(value: str | FallbackPolicy) -> FallbackPolicy:
    """Return the policy of a name, or the policy itself; raise InvalidRequestError for a name that POLICIES has not."""
    if isinstance(value, FallbackPolicy):
        return value
    require(value in POLICIES, "fallback_policy", value, f"one of {', '.join(POLICIES)}, or a FallbackPolicy")
    return POLICIES[value]


def unsettled_tests(request: RunRequest, result: RunResult) -> tuple[int, ...]:
    """Return the tests that still need a verdict (App. C.4).

    There are none after a definite failure where the request stops early: it has decided about the program.
    """
    if request.stops_early and any(item.verdict in HARD_FAILURES for item in result.results):
        return ()
    return tuple(item.test for item in result.results if item.verdict is Verdict.SANDBOX_FAULT and not item.fault)


def worth_running(request: RunRequest, tests: tuple[int, ...], *, policy: FallbackPolicy) -> tuple[int, ...]:
    """Return those of `tests` on which a verdict of this machine would count under a policy.

    There are none where the request does not say which tests are optimization tests.
    """
    if request.optimization_tests is None:
        return ()
    return tuple(test for test in tests if _conversion(request, test, policy) is not keep_fault)


def reported(
    request: RunRequest, result: RunResult, local: Mapping[int, TestResult], *, policy: FallbackPolicy
) -> tuple[TestResult, ...]:
    """Return what to report for every test, given the runs of this machine.

    Args:
      request: the request.
      result: the service's answer to it.
      local: results of this machine by test, for the tests that were run here; may be empty.
      policy: what those results are worth.

    Returns:
      Results in the order of `result`. A fault stays where nothing else is known of its test; after a definite failure
      of a request that stops early the faults are left out, as tests are after any early stop.
    """
    settled = []
    for item in result.results:
        run = local.get(item.test)
        if item.verdict is not Verdict.SANDBOX_FAULT:
            item = quarantined(request, item, result.measured_under) if policy.quarantine == "discard" else item
        elif run is not None and run.verdict is not Verdict.SANDBOX_FAULT:
            item = _conversion(request, item.test, policy)(item, run, request.limits_of(item.test).wall_s)
        settled.append(item)
    if request.stops_early and any(item.verdict in HARD_FAILURES for item in settled):
        return tuple(item for item in settled if item.verdict is not Verdict.SANDBOX_FAULT)
    return tuple(settled)


def quarantined(request: RunRequest, item: TestResult, measured_under: Mapping[str, str]) -> TestResult:
    """Return a fault where the test's seconds matter and a degraded service measured them, else the result itself."""
    reason = health.degraded_by(measured_under)
    matters = request.optimization_tests is None or item.test in request.optimization_tests
    if not (reason and matters) or item.verdict in HARD_FAILURES:
        return item
    detail = f"measured while the service was degraded ({reason})"
    return TestResult(item.test, Verdict.SANDBOX_FAULT, 0.0, runs=item.runs, worker=item.worker, detail=detail)


def _conversion(request: RunRequest, test: int, policy: FallbackPolicy) -> Conversion:
    is_optimization = test in (request.optimization_tests or ())
    return CONVERSIONS[policy.optimization if is_optimization else policy.correctness]
