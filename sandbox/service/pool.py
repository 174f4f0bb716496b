"""Edge: a fixed set of workers behind a bounded queue, with counts of what happened to them.

A worker that is lost in the middle of a request is replaced, and the request runs again from its start on whichever
worker is free; it is answered once. Workers are recycled after a number of runs and set aside for a while when they
keep failing. A request that no attempt could settle is answered with `sandbox_fault` on every test.
"""

import collections
import concurrent.futures
import dataclasses
import logging
import pathlib
import queue
import threading
import time
from collections.abc import Mapping, Sequence

from sandbox.backends import engine_settings
from sandbox.backends.worker import RunAbandoned, SandboxWorker, WorkerAbsent, WorkerLost
from sandbox.inside.languages import LANGUAGES
from sandbox.protocol import Limits, RunRequest, RunResult, StoredInput, Suite, TestResult, Verdict, require
from sandbox.service import health
from sandbox.service.input_files import InputFiles, parts_of
from sandbox.service.suites import Suites
from sandbox.timing import checkers, estimate, measurement
from sandbox.timing.earlier import EarlierRequests

_LOG = logging.getLogger(__name__)
ATTEMPTS = 3
QUARANTINE_S = 5.0
# An engine that restarts is away for seconds: the longest wait for it, in pauses that double.
PATIENCE_S = 60.0
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
# What a program and its interactor, in the same container, take from the same stock.
SHARED_LIMITS = {"memory_bytes", "processes"}


class PoolFull(RuntimeError):
    """The queue holds as much as it may: ask again later. Nothing was lost."""


@dataclasses.dataclass(frozen=True)
class PoolSettings:
    """Bounds of a pool.

    Attributes:
      recycle_after: runs of a worker before it is replaced.
      queue_limit: requests that wait or run at the same time.
      suite_characters: characters of all suites together; the oldest make room.
      input_bytes: the same for inputs that are files; one alone may have less, if the backend says so.
    """

    recycle_after: int = 20_000
    queue_limit: int = 1_000_000
    suite_characters: int = 1 << 40
    input_bytes: int = 8 << 30


class _Job:
    """One request on its way through the pool.

    Attributes:
      worker: what runs it at the moment.
      is_cancelled: whether nobody waits for it any more.
    """

    def __init__(self) -> None:
        self.worker: SandboxWorker | None = None
        self.is_cancelled = False


class Pool:
    """Workers that share one queue, are replaced when they wear out, and outlive their losses.

    Safe to use from several threads.

    Attributes:
      workers: the workers.
      measured_under: what every answer names as having measured it.
      counts: events since the start: `requests`, `runs`, `unsettled`, `refused`, `cancelled`, `moved` (requests that
        went to another worker after their first runs, since those met a slow core), `lost_workers`,
        `recycled_workers` and `quarantined_workers`; `queued` is the number of requests that wait or run now.
      windows: the same requests in windows.
      input_files: inputs that were uploaded as files.
    """

    def __init__(
        self,
        workers: Sequence[SandboxWorker],
        *,
        measured_under: dict[str, str],
        settings: PoolSettings | None = None,
        most: Mapping[str, int] | None = None,
        largest_input_bytes: int | None = None,
    ) -> None:
        """Share workers among requests.

        Args:
          workers: at least one; the pool stops them when it closes.
          measured_under: what every answer names as having measured it.
          settings: bounds of the pool; None for the defaults.
          most: the largest limits that the backend can give, by the names of `Limits`; None for no bounds.
          largest_input_bytes: of an input that is a file; None for no other bound than that of all together.
        """
        self.workers = list(workers)
        self._most = most or {}
        self.measured_under = measured_under
        self.counts: collections.Counter[str] = collections.Counter()
        self.windows = health.Windows()
        self._settings = settings or PoolSettings()
        self._suites = Suites(characters=self._settings.suite_characters)
        self._earlier = EarlierRequests()
        self._lock = threading.Lock()
        self._is_closing = threading.Event()
        self._jobs: dict[concurrent.futures.Future[RunResult], _Job] = {}
        self._idle: queue.SimpleQueue[SandboxWorker] = queue.SimpleQueue()
        self.input_files = InputFiles(
            most_bytes=self._settings.input_bytes, largest_bytes=largest_input_bytes or self._settings.input_bytes
        )
        for worker in self.workers:
            worker.input_parts = lambda stored: parts_of(self.input_files.path_of(stored))
            self._idle.put(worker)
        self._threads = concurrent.futures.ThreadPoolExecutor(len(self.workers), thread_name_prefix="sandbox")

    def upload(self, suite: Suite) -> str:
        """Hold a suite and return its hash; the oldest suites are dropped to stay within the pool's bound."""
        checkers.checker_named(suite.checker)
        for program in filter(None, (suite.judge, suite.interactor)):
            self._require_runnable(program.language, program.limits, path=f"{program.FIELD}.")
        self.input_files.require_all(suite)
        return self._suites.put(suite)

    def upload_input(self, path: str | pathlib.Path) -> StoredInput:
        """Hold a copy of a file as an input; the oldest ones are dropped to stay within the pool's bound."""
        return self.input_files.put(path)

    def suite_of(self, request: RunRequest) -> Suite:
        """Return the suite of a request; raise InvalidRequestError, naming the field, if it cannot run here."""
        for limits in (request.limits, *filter(None, request.test_limits or ())):
            self._require_runnable(request.language, limits)
        suite = self._suites.of(request)
        if suite.interactor:
            self._require_room(request, suite.interactor.limits)
        return suite

    def _require_room(self, request: RunRequest, partner: Limits) -> None:
        """Refuse limits that the backend cannot give to a program and its interactor at the same time."""
        for name in SHARED_LIMITS & self._most.keys():
            asked = max(getattr(limits, name) for limits in (request.limits, *filter(None, request.test_limits or ())))
            total, field = asked + getattr(partner, name), f"limits.{name} + suite.interactor.limits.{name}"
            require(total <= self._most[name], field, total, f"at most {self._most[name]}, for both together")

    def _require_runnable(self, language: str, limits: Limits, *, path: str = "") -> None:
        """Refuse a language that does not exist and a limit that the backend cannot give; `path` leads to both."""
        require(language in LANGUAGES, f"{path}language", language, f"one of {', '.join(LANGUAGES)}")
        for name, most in self._most.items():
            asked = getattr(limits, name)
            require(
                asked <= most, f"{path}limits.{name}", asked, f"at most {most}, the most that this backend can give"
            )

    def submit(self, request: RunRequest) -> concurrent.futures.Future[RunResult]:
        """Queue a request.

        Args:
          request: names a suite that was uploaded.

        Returns:
          A future of the answer. A test that could not be settled is a `sandbox_fault` in it, not an exception.

        Raises:
          PoolFull: the queue is at its limit.
          InvalidRequestError: the request cannot run here.
        """
        suite = self.suite_of(request)
        with self._lock:
            if self.counts["queued"] >= self._settings.queue_limit:
                self.counts["refused"] += 1
                raise PoolFull(f"{self.counts['queued']} requests wait or run")
            self.counts["queued"] += 1
        job = _Job()
        try:
            future = self._threads.submit(self._answer, request, suite, job)
        except RuntimeError as error:
            self._count(queued=-1)
            raise PoolFull(f"this pool is closing: {error}") from None
        with self._lock:
            self._jobs[future] = job
        future.add_done_callback(self._dequeue)
        return future

    def cancel(self, future: concurrent.futures.Future[RunResult]) -> None:
        """Drop a request that nobody waits for any more: at once where it waits, else within a second.

        Its future is cancelled, or raises RunAbandoned. Without effect on one that has been answered.
        """
        if future.cancel():
            self._count(cancelled=1)
            return
        with self._lock:
            job = self._jobs.get(future)
            if job is None or job.is_cancelled:
                return
            job.is_cancelled = True
            self.counts["cancelled"] += 1
            if job.worker is not None:
                job.worker.abandon()

    def close(self, *, drain_s: float | None = None) -> None:
        """Drop what waits, finish what runs, and stop all workers.

        Args:
          drain_s: seconds after which what still runs is abandoned as well; None waits as long as it takes.
        """
        self._is_closing.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if drain_s is not None:
            with self._lock:
                running = list(self._jobs)
            for future in concurrent.futures.wait(running, timeout=drain_s).not_done:
                self.cancel(future)
        self._threads.shutdown(wait=True)
        with concurrent.futures.ThreadPoolExecutor(len(self.workers)) as stopping:
            list(stopping.map(lambda worker: worker.stop(), self.workers))
        self.input_files.close()

    def _dequeue(self, future: concurrent.futures.Future[RunResult]) -> None:
        with self._lock:
            self._jobs.pop(future, None)
            self.counts["queued"] -= 1

    def _count(self, **changes: int) -> None:
        with self._lock:
            self.counts.update(changes)

    def _settle(self, **changes: int) -> None:
        with self._lock:
            self.counts.update(changes)
            self.windows = self.windows.after("unsettled" in changes)

    def _answer(self, request: RunRequest, suite: Suite, job: _Job) -> RunResult:
        reason, name, attempt, waited_s, pause_s = "", "", 0, 0.0, FIRST_PAUSE_S
        begun: measurement.Begun | None = None
        while attempt < ATTEMPTS:
            worker = self._idle.get()
            is_lost, name = False, worker.name
            try:
                self._take(job, worker)
                if begun is None:
                    begun = measurement.begin(worker, request, suite)
                    if begun.met_spell and not self._idle.empty():
                        # Slow spells of a shared host often hold one core alone: the rest runs on another.
                        self._count(moved=1)
                        continue
                results = measurement.finish(worker, request, suite, begun=begun)
            except WorkerAbsent as absent:
                reason = str(absent)
                if waited_s >= PATIENCE_S or self._is_closing.is_set():
                    break
            except WorkerLost as lost:
                if job.is_cancelled:
                    raise RunAbandoned(str(lost)) from lost
                is_lost, reason, begun = True, str(lost), None
                attempt += 1
                self._count(lost_workers=1)
                _LOG.warning("%s (attempt %d of %d)", lost, attempt, ATTEMPTS)
            else:
                self._settle(requests=1, runs=sum(result.runs for result in results))
                results = self._earlier.informed(results, request, at_s=time.monotonic())
                under = self.measured_under | worker.conditions
                if estimate.misses_precision(results, request):
                    under["precision"] = "missed"
                if request.scales_limits:
                    under["limits_factor"] = f"{request.limits_factor:g}"
                return RunResult(request.sha256, results, under)
            finally:
                self._release(job, worker)
                self._return(worker, is_suspect=is_lost and attempt > 1)
            if not is_lost:
                _LOG.warning("%s; trying again in %.1f s", reason, pause_s)
                self._is_closing.wait(pause_s)
                waited_s, pause_s = waited_s + pause_s, min(LONGEST_PAUSE_S, 2 * pause_s)
        self._settle(requests=1, unsettled=1)
        tests = range(len(suite.inputs)) if request.tests is None else request.tests
        faults = tuple(TestResult(t, Verdict.SANDBOX_FAULT, 0.0, worker=name, detail=reason) for t in tests)
        return RunResult(request.sha256, faults, self.measured_under)

    def _take(self, job: _Job, worker: SandboxWorker) -> None:
        """Note which worker runs a job; raise RunAbandoned where nobody waits for it any more."""
        with self._lock:
            if job.is_cancelled:
                raise RunAbandoned("nobody waits for this request any more")
            job.worker = worker

    def _release(self, job: _Job, worker: SandboxWorker) -> None:
        """Part a job from its worker, so that a late `cancel` cannot hit the worker's next job."""
        with self._lock:
            job.worker = None
            worker.resume()

    def _return(self, worker: SandboxWorker, *, is_suspect: bool) -> None:
        """Put a worker back: a worn one is restarted, and one that keeps failing rests if there are others."""
        if worker.run_count >= self._settings.recycle_after:
            worker.stop()
            self._count(recycled_workers=1)
        if is_suspect and len(self.workers) > 1 and not self._is_closing.is_set():
            self._count(quarantined_workers=1)
            timer = threading.Timer(QUARANTINE_S, self._idle.put, [worker])
            timer.daemon = True
            timer.start()
        else:
            self._idle.put(worker)


def open_pool(backend: str, *, workers: int, settings: PoolSettings | None = None) -> Pool:
    """Open a pool on a backend by name.

    Args:
      backend: a key of BACKENDS; those of containers may have settings behind it, see `backends.engine_settings`.
      workers: programs that run at the same time, 1 to 1024.
      settings: its bounds; None for the defaults.

    Raises:
      InvalidRequestError: no such backend, a wrong setting of it, or a wrong number of workers.
      DockerUnavailable: the engine or the image is missing, or its containers cannot run programs; an OSError.
    """
    name, engine = engine_settings.parse_backend(backend)
    require(name in BACKENDS, "backend", backend, f"one of {', '.join(BACKENDS)}")
    require(isinstance(workers, int) and 1 <= workers <= 1024, "workers", workers, "a whole number in [1, 1024]")
    if name == "local":
        is_alone = engine == engine_settings.EngineSettings()
        require(is_alone, "backend", backend, "local alone: it has no engine that settings could be for")
        return _local(workers, settings)
    return _contained(workers, settings, engine, isolation=BACKENDS[name])


def _local(workers: int, settings: PoolSettings | None) -> Pool:
    from sandbox.backends import local

    return Pool(local.local_workers(workers), measured_under=local.local_identity(), settings=settings)


def _contained(
    workers: int, settings: PoolSettings | None, engine: engine_settings.EngineSettings, *, isolation: str
) -> Pool:
    # Imported here, because the SDK is slow to import and trusted code does not need it.
    from sandbox.backends import docker
    from sandbox.backends.engine import Engine

    where = Engine(engine)
    opened = docker.docker_workers(workers, isolation=isolation, where=where)
    identity = where.identity() | ({"isolation": "clean"} if isolation == "clean" else {})
    most_bytes = engine.input_bytes
    return Pool(opened, measured_under=identity, settings=settings, most=docker.MOST, largest_input_bytes=most_bytes)


# How runs are kept apart, by the name of the backend: "world" (a fresh world for each), "clean" (containers that are
# cleaned after each, not made anew: faster, and for trusted code only), and not at all.
BACKENDS = {"local": "none", "docker": "world", "docker_clean": "clean"}
