"""Edge: runs candidate programs in the sandbox and returns statuses and seconds for each stored test.

Stands between rollouts (text) and the environment (arrays). It never decides what a duration is worth.
"""

import dataclasses
import logging
import math
import pathlib
from collections.abc import Callable, Collection, Sequence

import numpy as np

from optimrl_jax import arrays
from optimrl_jax.data.dataset import ProblemRecord
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.settings import SandboxSettings
from sandbox import client as sandbox_client
from sandbox import protocol

_LOG = logging.getLogger(__name__)
LOCAL = "local"


@dataclasses.dataclass(frozen=True, eq=False)
class CandidateRun:
    """What one program did on the tests of its problem, in stored order.

    Attributes:
      status: int8 `[k]`, `arrays.Status`; NOT_RUN for tests that were not asked for or not reached.
      duration_s: float32 `[k]` measured seconds; the service cap for a timeout, 0 where nothing ran.
      drift: maps stored seconds to what the service would measure in the state in which it measured these.
      is_fallback: whether a test was settled on the client's machine, because the service did not settle it.
    """

    status: np.ndarray
    duration_s: np.ndarray
    drift: arrays.AffineMap = arrays.AffineMap()
    is_fallback: bool = False


class Executor:
    """Runs (record, program) pairs through one sandbox client, with one uploaded test suite for each problem."""

    def __init__(
        self, client: sandbox_client.Client, settings: SandboxSettings, *, uses_own_limits: bool = False
    ) -> None:
        """Wrap an open sandbox client.

        Args:
          client: connected, see `connect_sandbox`; the caller closes it.
          settings: limits, repeats and clock of the measurements.
          uses_own_limits: cap each run at the problem's own time limit, where it has one that is shorter than
            `sandbox.limit_s`.
        """
        self._client = client
        self._settings = settings
        self._uses_own_limits = uses_own_limits
        self._suites: dict[str, protocol.Suite] = {}
        self._drifts: set[str] = set()

    def execute(
        self,
        attempts: Sequence[tuple[ProblemRecord, str]],
        *,
        kinds: Collection[int],
        stops_early: bool = False,
        reads_references: bool = False,
        on_result: Callable[[int], None] | None = None,
    ) -> list[CandidateRun]:
        """Run programs on the tests of their problems.

        Equal programs on equal tests are executed once where `sandbox.reuse` is "always". A program's failure is a
        status; a fault of the sandbox is Status.FAULT.

        Args:
          attempts: (problem, program) pairs.
          kinds: values of `arrays.TestKind`; only tests of these kinds run.
          stops_early: end a program at its first test that neither succeeds nor times out; later tests stay NOT_RUN.
          reads_references: whether the seconds will be compared with stored ones of references. One reference of each
            problem then runs with the programs where `sandbox.calibration` is "references", and all runs of the problem
            have the drift that it shows.
          on_result: called with the number of programs done so far, after each one.

        Returns:
          One CandidateRun for each attempt, in order; all NOT_RUN where the problem has no test of these kinds.
        """
        anchors = self._anchors(attempts) if reads_references else {}
        everything = [*attempts, *((record, record.reference_program[at]) for record, at in anchors.values())]
        requests = [self._request(*attempt, kinds=kinds, stops_early=stops_early) for attempt in everything]
        asked = {index: request for index, request in enumerate(requests) if request is not None}
        done = _counter(on_result, most=len(attempts))
        results = self._client.run_many(list(asked.values()), on_result=done)
        answers = dict(zip(asked, results, strict=True))
        self._warn_of(results)
        runs = [self._run_of(record, answers.get(index)) for index, (record, _) in enumerate(everything)]
        found, timed_again = runs[: len(attempts)], zip(anchors.items(), runs[len(attempts) :], strict=True)
        drifts = {problem: drift_of(*anchor, run) for (problem, anchor), run in timed_again}
        return [
            dataclasses.replace(run, drift=drifts.get(record.id, run.drift))
            for run, (record, _) in zip(found, attempts, strict=True)
        ]

    def _anchors(self, attempts: Sequence[tuple[ProblemRecord, str]]) -> dict[str, tuple[ProblemRecord, int]]:
        """Choose the reference of each problem whose seconds now say how far stored ones have drifted."""
        if self._settings.calibration != "references":
            return {}
        records = {record.id: record for record, _ in attempts if record.is_usable.any()}
        return {problem: (record, anchor_of(record)) for problem, record in records.items()}

    def _warn_of(self, answers: Sequence[protocol.RunResult]) -> None:
        """Log what the service reports of itself: bursts of faults, timings under degradation, and clock drift."""
        if self._client.windows.is_degraded:
            rates = ", ".join(f"{name} {share:.2%}" for name, share in self._client.rates._asdict().items())
            _LOG.warning("a burst of faults in the sandbox; shares of all programs so far: %s", rates)
        degraded = sum("degraded" in answer.measured_under for answer in answers)
        if degraded:
            _LOG.warning("%d of %d programs were timed while the sandbox was degraded", degraded, len(answers))
        for answer in answers:
            version = answer.measured_under.get("calibration", "")
            if version.startswith("drift-") and version not in self._drifts:
                self._drifts.add(version)
                slope, offset_s = sandbox_client.map_of(answer)
                _LOG.warning("%s: stored seconds now read as %.3f * stored %+.4f s", version, slope, offset_s)

    def _request(
        self, record: ProblemRecord, program: str, *, kinds: Collection[int], stops_early: bool
    ) -> protocol.RunRequest | None:
        tests = record.tests_of(frozenset(int(kind) for kind in kinds))
        if not tests:
            return None
        return protocol.RunRequest(
            program=program,
            suite_sha256=self._suite_of(record),
            tests=tests,
            limits=protocol.Limits(wall_s=self._limit_s(record), memory_bytes=record.memory_limit_bytes),
            repeats=self._settings.repeats,
            precision=self._settings.precision,
            decisions_s=self._decisions_s(record, tests),
            stops_early=stops_early,
            optimization_tests=record.tests_of(frozenset({int(arrays.TestKind.OPTIMIZATION)})),
        )

    def _limit_s(self, record: ProblemRecord) -> float:
        """Return the cap of one run in seconds.

        A contest's own limit is meant for its own machine: few families use it.
        """
        own_s = record.time_limit_s if self._uses_own_limits and record.time_limit_s > 0 else math.inf
        return min(own_s, self._settings.limit_s)

    def _decisions_s(self, record: ProblemRecord, tests: Sequence[int]) -> tuple[float, ...] | None:
        """Return, for each test, the stored seconds of the percentile that decides; the cap if it has no reference."""
        if not self._settings.decision_percent or self._settings.repeats == 1:
            return None
        usable_s = [record.duration_s[test][record.is_usable[test]] for test in tests]
        percent, limit_s = self._settings.decision_percent, self._settings.limit_s
        return tuple(float(np.percentile(found_s, percent)) if len(found_s) else limit_s for found_s in usable_s)

    def _suite_of(self, record: ProblemRecord) -> str:
        if record.id not in self._suites:
            self._suites[record.id] = protocol.suite_judged_by(
                record.checker, inputs=record.test_input, expected=record.test_output
            )
        # On every call, because a client forgets the oldest suites; for one that it still holds this costs nothing.
        return self._client.upload(self._suites[record.id])

    def _run_of(self, record: ProblemRecord, answer: protocol.RunResult | None) -> CandidateRun:
        status = np.full(len(record.test_input), int(arrays.Status.NOT_RUN), np.int8)
        duration_s = np.zeros(len(record.test_input), np.float32)
        for result in answer.results if answer else ():
            status[result.test] = arrays.STATUS_OF_VERDICT[result.verdict]
            is_timeout = result.verdict is protocol.Verdict.TIME_LIMIT
            measured_s = result.wall_s if self._settings.duration == "wall" else result.cpu_s
            duration_s[result.test] = arrays.CAP_S if is_timeout else measured_s
            if result.verdict is protocol.Verdict.SUCCESS and not 0 < measured_s < math.inf:
                # Every run takes time: impossible seconds are a fault of the instrument, not a fast program.
                status[result.test], duration_s[result.test] = arrays.Status.FAULT, 0.0
        if answer is None:
            return CandidateRun(status, duration_s)
        follows = self._settings.calibration == "follow"
        drift = arrays.AffineMap(*sandbox_client.map_of(answer)) if follows else arrays.AffineMap()
        return CandidateRun(status, duration_s, drift, "fallback" in answer.measured_under)


def anchor_of(record: ProblemRecord) -> int:
    """Return the reference a quarter down the leaderboard by mean seconds: near it, ranks of fast programs are decided.

    Args:
      record: with at least one usable duration.
    """
    seconds = np.where(record.is_usable, record.duration_s, np.nan)
    timed = np.flatnonzero(record.is_usable.any(axis=0))
    order = timed[np.argsort(np.nanmean(seconds[:, timed], axis=0), kind="stable")]
    return int(order[(len(order) - 1) // 4])


def drift_of(record: ProblemRecord, anchor: int, run: CandidateRun) -> arrays.AffineMap:
    """Say how stored seconds read now: the median over tests of what a reference takes now over what is stored.

    Optimization tests decide where there are any: they alone are ranked, and their stored seconds may be of more runs.

    Args:
      record: the problem.
      anchor: index of the reference.
      run: what the reference did now.

    Returns:
      A map through 0; the identity where no test of the reference succeeded both times.
    """
    both = record.is_usable[:, anchor] & (record.duration_s[:, anchor] > 0) & (run.status == arrays.Status.SUCCESS)
    decisive = both & (record.test_kind == arrays.TestKind.OPTIMIZATION)
    compared = decisive if decisive.any() else both
    if not compared.any():
        return arrays.AffineMap()
    return arrays.AffineMap(float(np.median(run.duration_s[compared] / record.duration_s[compared, anchor])), 0.0)


def connect_sandbox(settings: SandboxSettings, *, pass_store: str = "") -> sandbox_client.Client:
    """Connect to the sandbox at `settings.address`.

    Equal requests of one call are executed once where `sandbox.reuse` is "always".

    Args:
      settings: address, workers, reuse and what to do when a service gives up on a program.
      pass_store: file for the answers of one timing pass, with which a killed pass can go on; if empty,
        `sandbox.store`, where it is set, answers across passes.

    Returns:
      A connected client; a context manager that closes the connection.

    Raises:
      UserError: if no service answers at the address, or the address is malformed.
    """
    if settings.address == LOCAL:
        _LOG.warning("sandbox.address = local: programs run on this machine, as this user, without isolation")
    store = pass_store or settings.store
    if store and (pathlib.Path(store).is_dir() or not pathlib.Path(store).parent.is_dir()):
        raise UserError(f"sandbox.store = {store!r}: expected a file in an existing directory")
    try:
        return sandbox_client.connect(
            settings.address,
            workers=settings.workers,
            store=store or None,
            reuse=settings.reuse,
            fallback_policy=sandbox_client.FallbackPolicy(
                correctness=settings.fallback_correctness,
                optimization=settings.fallback_optimization,
                retries=settings.fallback_retries,
                quarantine=settings.quarantine,
                backend=settings.fallback_backend,
            ),
        )
    except (OSError, ValueError) as error:
        raise UserError(f"sandbox.address = {settings.address!r}: expected a sandbox that answers ({error})") from None


def _counter(on_result: Callable[[int], None] | None, *, most: int) -> Callable[[object], None] | None:
    if on_result is None:
        return None
    done = [0]

    def count(_: object) -> None:
        done[0] += 1
        on_result(min(done[0], most))

    return count
