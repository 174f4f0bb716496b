"""Requests, results and verdicts that cross the sandbox's border, as frozen dataclasses with a JSON form.

Everything that talks to the sandbox speaks these types: the local backend, the container backend, the HTTP service and
its client. This module validates what a caller asks for and never runs anything.
"""

import dataclasses
import enum
import functools
import hashlib
import math
import typing
from collections.abc import Callable, Iterable

from sandbox.inside import languages
from sandbox.messages import InvalidRequestError, conform_fields, from_dict, from_json, parse_json, require, to_json
from sandbox.suite import (
    INPUT_BYTES,
    MEBIBYTE,
    MOST_INPUT_BYTES,
    MOST_SECONDS,
    SERVICE_CAP_S,
    Call,
    Interactor,
    JudgeProgram,
    Limits,
    ProblemPrograms,
    StoredInput,
    Suite,
    limits_of_run,
    require_files,
    suite_judged_by,
)

Seconds = typing.TypeVar("Seconds")

Z_95 = 1.96
MOST_REPEATS = 100
PYTHONS = ("python3", "python3_fresh", "pypy3")
# Environment variable that holds the token of a service, for the server and for its clients.
TOKEN_VARIABLE = "OPTIMRL_SANDBOX_TOKEN"
# Environment variable that names a file of certificate authorities, by which clients know servers over https.
CA_VARIABLE = "OPTIMRL_SANDBOX_CA"


class Verdict(enum.StrEnum):
    """What became of one program on one test; closed, so that a `match` over it is complete.

    SANDBOX_FAULT alone says nothing about the program: such a test is masked, never punished.
    """

    SUCCESS = "success"
    WRONG_OUTPUT = "wrong_output"
    RUNTIME_ERROR = "runtime_error"
    COMPILE_ERROR = "compile_error"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    PROCESS_LIMIT = "process_limit"
    SANDBOX_FAULT = "sandbox_fault"


@dataclasses.dataclass(frozen=True)
class RunRequest:
    """One program on some tests of an uploaded suite.

    Attributes:
      program: source code, which reads standard input and writes standard output.
      suite_sha256: content address of the suite.
      tests: indices into the suite in the order to run them, at least one; None for all.
      limits: what each run may use.
      test_limits: limits for each of the tests asked for in place of `limits`, null where those hold; None for none.
      scales_limits: whether seconds of all these limits are multiplied by the language's `limits_factor`, up to the
        longest limit; answers then name it in `measured_under`.
      repeats: timed executions of a test on average, 1 to 100. A test whose two fastest runs agree leaves to others
        what it does not need.
      language: a name of `sandbox.inside.languages.LANGUAGES`.
      files: further files of the program by name, such as modules that it imports or headers that it includes; they lie
        beside the program's own file, which it may read but not write.
      seed: makes otherwise equal requests different, so that each is measured; programs do not see it.
      returns_output: whether results carry the program's standard output.
      stops_early: whether to stop at the first failure, a time limit on a test of `optimization_tests` excepted. Tests
        that were not reached are absent from the result.
      optimization_tests: indices of the tests whose durations matter; None where nobody said, which is taken for all
        by an early stop and rules out a fallback.
      precision: how closely the two fastest runs of a test have to agree, as a share of them in (0, 1].
      decisions_s: one duration for each test asked for at which something is decided, such as a reference to be
        beaten. A test near its own, or near its limit, is measured twice as precisely.

    Raises:
      InvalidRequestError: a field is of a wrong type or out of its range.
    """

    program: str
    suite_sha256: str
    tests: tuple[int, ...] | None = None
    limits: Limits = Limits()
    repeats: int = 1
    language: str = "python3"
    seed: int = 0
    returns_output: bool = False
    stops_early: bool = False
    optimization_tests: tuple[int, ...] | None = None
    precision: float = 0.02
    decisions_s: tuple[float, ...] | None = None
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    test_limits: tuple[Limits | None, ...] | None = None
    scales_limits: bool = False

    def __post_init__(self) -> None:
        conform_fields(self)
        require_files(self.files, "files")
        is_one_each = None in (self.tests, self.test_limits) or len(self.tests or ()) == len(self.test_limits or ())
        require(is_one_each, "test_limits", self.test_limits, "one for each of the tests asked for")
        require(1 <= self.repeats <= MOST_REPEATS, "repeats", self.repeats, f"a whole number in [1, {MOST_REPEATS}]")
        is_digest = len(self.suite_sha256) == 64 and set(self.suite_sha256) <= set("0123456789abcdef")
        require(is_digest, "suite_sha256", self.suite_sha256, "64 hexadecimal digits")
        for field in ("tests", "optimization_tests"):
            indices = getattr(self, field)
            is_index = indices is None or min(indices, default=0) >= 0
            require(is_index, field, indices, "whole numbers that are not negative")
        require(self.tests != (), "tests", self.tests, "at least one test, or null for all")
        require(0 < self.precision <= 1, "precision", self.precision, "a share in (0, 1]")
        if self.decisions_s is not None:
            are_seconds = min(self.decisions_s, default=1.0) > 0
            require(are_seconds, "decisions_s", self.decisions_s, "positive seconds")
            is_one_each = self.tests is None or len(self.tests) == len(self.decisions_s)
            require(is_one_each, "decisions_s", self.decisions_s, "one for each of the tests asked for")

    @functools.cached_property
    def sha256(self) -> str:
        """Content address of the question asked: equal requests may share one stored answer."""
        return hashlib.sha256(to_json(self).encode("utf-8", "surrogatepass")).hexdigest()

    def limits_of(self, test: int) -> Limits:
        """Return the limits under which a test runs."""
        limits = self.unscaled_limits_of(test)
        return limits if self.limits_factor == 1 else _scaled(limits, self.limits_factor)

    def unscaled_limits_of(self, test: int) -> Limits:
        """Return the limits of a test as they were given."""
        return self._own_limits.get(test) or self.limits

    @functools.cached_property
    def limits_factor(self) -> float:
        """By how much the seconds of limits are multiplied: 1 unless `scales_limits`."""
        if not self.scales_limits or self.language not in languages.LANGUAGES:
            return 1.0
        return languages.LANGUAGES[self.language].limits_factor

    @functools.cached_property
    def _own_limits(self) -> dict[int, Limits | None]:
        own = self.test_limits or ()
        return dict(zip(range(len(own)) if self.tests is None else self.tests, own, strict=True)) if own else {}


def _scaled(limits: Limits, factor: float) -> Limits:
    """Multiply the seconds of limits, up to the longest that a limit may be."""
    cpu_s = None if limits.cpu_s is None else min(MOST_SECONDS, factor * limits.cpu_s)
    return dataclasses.replace(limits, wall_s=min(MOST_SECONDS, factor * limits.wall_s), cpu_s=cpu_s)


def require_fit(request: RunRequest, suite: Suite) -> None:
    """Check that a suite has the tests, and as many as the decisions, that a request asks for.

    Raises:
      InvalidRequestError: an index of `tests` is too large, or `decisions_s` is not one for each test.
    """
    is_python = suite.call is None or request.language in PYTHONS
    require(is_python, "language", request.language, f"one of {', '.join(PYTHONS)} where tests call a function")
    for field in ("tests", "optimization_tests"):
        for test in getattr(request, field) or ():
            require(test < len(suite.inputs), field, test, f"indices below {len(suite.inputs)}")
    for field in ("decisions_s", "test_limits"):
        values = getattr(request, field)
        if request.tests is None and values is not None:
            expected = f"one for each of the {len(suite.inputs)} tests"
            require(len(values) == len(suite.inputs), field, values, expected)


@dataclasses.dataclass(frozen=True)
class TestResult:
    """What one program did on one test.

    Attributes:
      test: index into the suite.
      verdict: what became of it; one execution that fails fails the test.
      wall_s: estimated wall seconds of the program itself over `runs` executions; the limit after a time limit.
      cpu_s: user plus system seconds.
      wall_std_s: standard deviation of the estimate `wall_s`; 0 for a test that was not timed, such as a failed one.
      runs: executions.
      peak_memory_bytes: peak memory of the first execution, or of the one that failed.
      instructions: fewest user-space instructions of a run; None where the host does not count them.
      worker: name of the worker that ran it.
      output: standard output; None unless it was asked for and is UTF-8.
      detail: end of standard error, or the reason of a fault; empty after a success.
      endings: number of executions by the verdict of each.
      fault: whose a `sandbox_fault` is: "problem" where the problem's own judge failed; empty for the sandbox's.
    """

    __test__: typing.ClassVar[bool] = False

    test: int
    verdict: Verdict
    wall_s: float
    cpu_s: float = 0.0
    wall_std_s: float = 0.0
    runs: int = 1
    peak_memory_bytes: int = 0
    instructions: int | None = None
    worker: str = ""
    output: str | None = None
    detail: str = ""
    endings: dict[str, int] = dataclasses.field(default_factory=dict)
    fault: str = ""

    @property
    def interval_s(self) -> tuple[float, float]:
        """Seconds (low, high) between which another measurement of the same program and test falls in 95 of 100 cases.

        The other measurement varies as much as this one, hence the square root of two.
        """
        reach_s = Z_95 * math.sqrt(2) * self.wall_std_s
        return max(0.0, self.wall_s - reach_s), self.wall_s + reach_s


def estimate_s(seconds: Iterable[Seconds], *, smaller: Callable[..., Seconds] = min) -> Seconds:
    """Estimate a program's seconds from those of its successful runs, at least one: the smallest of them.

    Every duration of this project is estimated here, those of candidates and those of stored references: two estimators
    would put the same program in two places. The smallest of more runs is smaller, so both need as many repeats.

    Args:
      seconds: of one program, or of many at once as arrays of one shape, an array a run.
      smaller: returns the smaller of two of them; for arrays `numpy.fmin`, which passes over what is not a number.
    """
    return functools.reduce(smaller, seconds)


@dataclasses.dataclass(frozen=True)
class RunResult:
    """The answer to a RunRequest.

    Attributes:
      request_sha256: content address of the request.
      results: the executed tests in the order asked for.
      measured_under: service, backend, image, host and calibration by name, so that a stored duration can be traced.
        `limits_factor` is present where limits were scaled, `degraded` where its seconds are doubtful, `busy` where
        others had the core for a part of the last runs, `precision` is "missed" where the host did not allow the
        precision asked for, and `fallback` is present where some verdicts come from the client's own machine.
    """

    request_sha256: str
    results: tuple[TestResult, ...]
    measured_under: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_faulted(self) -> bool:
        """True where the sandbox, or the problem's judge, failed on any test: such a run is masked, never rewarded."""
        return any(result.verdict is Verdict.SANDBOX_FAULT for result in self.results)

    @property
    def is_unsettled(self) -> bool:
        """True where the sandbox itself failed on any test, so that asking again may help."""
        return any(result.verdict is Verdict.SANDBOX_FAULT and not result.fault for result in self.results)


__all__ = [
    "CA_VARIABLE", "INPUT_BYTES", "MEBIBYTE", "MOST_INPUT_BYTES", "MOST_SECONDS", "SERVICE_CAP_S", "TOKEN_VARIABLE",
    "Call", "Interactor", "InvalidRequestError", "JudgeProgram", "Limits", "ProblemPrograms", "RunRequest", "RunResult",
    "StoredInput", "Suite", "TestResult", "Verdict", "estimate_s", "from_dict", "from_json", "limits_of_run",
    "parse_json", "require", "require_fit", "suite_judged_by", "to_json",
]  # fmt: skip
