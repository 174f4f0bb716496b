"""Edge: the client through which all other packages reach the sandbox, whatever runs the programs.

`connect()` gives a client; `upload` a suite once, then `run_many` requests. A caller's mistake raises
InvalidRequestError, a program's failure is a verdict, and a fault of the sandbox is retried and then reported as
`sandbox_fault`, which is never a statement about the program.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from sandbox.protocol import (
    CA_VARIABLE,
    TOKEN_VARIABLE,
    InvalidRequestError,
    RunRequest,
    RunResult,
    StoredInput,
    Suite,
    require,
)
from sandbox.service import fallback, health, pool
from sandbox.service.fallback import FallbackPolicy
from sandbox.service.store import Store
from sandbox.timing import checkers, drift
from sandbox.timing.checkers import checker_named

REUSE = ("always", "never")


class Service(Protocol):
    """What answers requests: a pool of this process, or servers elsewhere.

    Attributes:
      measured_under: service, backend, image and host by name; every answer carries them.
      counts: events since the start by name: `requests`, `unsettled`, `recovered` and others.
      windows: the same requests in windows, in which bursts of unsettled ones show.
    """

    measured_under: dict[str, str]
    counts: collections.Counter[str]
    windows: health.Windows

    def upload(self, suite: Suite) -> str: ...

    def upload_input(self, path: str | pathlib.Path) -> StoredInput: ...

    def suite_of(self, request: RunRequest) -> Suite: ...

    def submit(self, request: RunRequest) -> concurrent.futures.Future[RunResult]: ...

    def cancel(self, future: concurrent.futures.Future[RunResult]) -> None: ...

    def close(self) -> None: ...


def connect(
    address: str = "local",
    *,
    workers: int = 2,
    store: str | pathlib.Path | None = None,
    reuse: str = "always",
    token: str | None = None,
    ca: str | pathlib.Path | None = None,
    fallback_policy: str | FallbackPolicy = "discard",
) -> "Client":
    """Open a client on local workers or on servers; close it with `close` or by leaving its `with` block.

    Args:
      address: `local` (processes of this machine, for trusted code only), `docker` (containers of this machine),
        `docker_clean` (containers that are cleaned between runs, for trusted code), or the URLs of servers separated by
        commas. Settings of the container engine may stand behind the name, as in `docker?runtime=crun`: see
        `sandbox.backends.engine_settings`.
      workers: how many programs run at the same time, or how many requests are under way to servers; 1 to 1024.
      store: file of stored answers, made where it does not exist; None keeps none.
      reuse: `always` answers equal requests from the store and runs equal requests of one batch once; `never` runs
        every request and leaves the store alone.
      token: the servers' token; None takes the environment variable OPTIMRL_SANDBOX_TOKEN.
      ca: PEM file of the authorities, or of the certificates themselves, by which https:// servers are known; None
        takes the environment variable OPTIMRL_SANDBOX_CA, and the usual authorities where that is not set.
      fallback_policy: what becomes of a test that the servers could not settle, as a `FallbackPolicy` or the name of
        one; local pools have no fallback.

    Returns:
      A connected client.

    Raises:
      InvalidRequestError: an argument is wrong, the engine does not offer a setting, or a server refuses the token or
        is no sandbox server.
      OSError: no server or no container engine answers, or the store cannot be opened.
    """
    require(isinstance(workers, int) and 1 <= workers <= 1024, "workers", workers, "a whole number in [1, 1024]")
    require(reuse in REUSE, "reuse", reuse, f"one of {', '.join(REUSE)}")
    policy = fallback.policy_of(fallback_policy)
    token = os.environ.get(TOKEN_VARIABLE, "") if token is None else token
    ca = ca or os.environ.get(CA_VARIABLE) or None
    service = _service(address, workers=workers, token=token, ca=ca, policy=policy)
    return Client(service, store=Store(store) if store and reuse == "always" else None, reuse=reuse, threads=workers)


def _service(
    address: str, *, workers: int, token: str, ca: str | pathlib.Path | None, policy: FallbackPolicy
) -> Service:
    if address.partition("?")[0] in pool.BACKENDS:
        return pool.open_pool(address, workers=workers)
    is_url = all(part.startswith(("http://", "https://")) for part in address.split(","))
    require(is_url, "address", address, f"{', '.join(pool.BACKENDS)} or http(s)://host:port, several after commas")
    # Imported here, because HTTP is slow to import and local pools do not need it.
    from sandbox.service import remote

    return remote.Remote(address.split(","), concurrency=workers, token=token, ca=ca, policy=policy)


def map_of(answer: RunResult) -> drift.AffineMap:
    """Return the map that brings stored seconds to the clock of this answer: slope * stored_s + offset_s.

    It is the identity until the service's probes have shown a lasting drift; see sandbox.timing.drift.

    Args:
      answer: a result; its `measured_under` carries the map.
    """
    return drift.map_under(answer.measured_under)


class _Asking:
    """One request that may be given up while its future is still to come; safe to use from two threads."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._future: concurrent.futures.Future[RunResult] | None = None
        self._is_cancelled = False

    def note(self, future: concurrent.futures.Future[RunResult]) -> None:
        """Take the future of the request, which is cancelled if the request has been given up."""
        with self._lock:
            self._future = future
            is_cancelled = self._is_cancelled
        if is_cancelled:
            self._service.cancel(future)

    def cancel(self) -> None:
        """Give the request up."""
        with self._lock:
            self._is_cancelled = True
            future = self._future
        if future:
            self._service.cancel(future)


class Client:
    """Runs requests on a service, through a store of answers; safe to use from several threads."""

    def __init__(self, service: Service, *, store: Store | None, reuse: str, threads: int) -> None:
        self.service = service
        self._store = store
        self._reuse = reuse
        self._concurrency = threads
        self._threads = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="sandbox-client")

    @property
    def measured_under(self) -> dict[str, str]:
        """Service, backend, image and host that measure, by name."""
        return self.service.measured_under

    @property
    def rates(self) -> health.Rates:
        """Shares of the requests so far that the service settled alone, that the fallback recovered, and neither."""
        return health.rates(self.service.counts)

    @property
    def windows(self) -> health.Windows:
        """The same requests in windows, in which bursts of unsettled ones show."""
        return self.service.windows

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish the requests that run, drop those that wait, and end all workers."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.service.close()
        self._threads.shutdown(wait=True)
        if self._store:
            self._store.close()
            self._store = None

    @contextlib.contextmanager
    def timing_pass(self, store: str | pathlib.Path | None) -> Iterator["Client"]:
        """Give a client on the same service whose answers come from another store, and go into no other.

        What the two ask for at the same time shares the workers; no answer of one ever serves the other.

        Args:
          store: file of the answers of the pass, made where it does not exist; None keeps none.
        """
        kept = Store(store) if store and self._reuse == "always" else None
        client = Client(self.service, store=kept, reuse=self._reuse, threads=self._concurrency)
        try:
            yield client
        finally:
            client.end_pass()

    def end_pass(self) -> None:
        """Drop the requests that wait and close the store; the service goes on."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        if self._store:
            self._store.close()
            self._store = None

    def upload(self, suite: Suite) -> str:
        """Make a suite known to the service.

        Args:
          suite: inputs, expected outputs and checker. A suite that is known already costs nothing.

        Returns:
          The suite's SHA-256, under which requests name it.

        Raises:
          InvalidRequestError: the suite names a checker that does not exist.
        """
        checkers.checker_named(suite.checker)
        return self.service.upload(suite)

    def upload_input(self, path: str | pathlib.Path) -> StoredInput:
        """Make a file known to the service as an input of suites, in place of a text; it is read in parts.

        Args:
          path: a file of at most what the backend or the servers take (512 MiB, if no setting says otherwise), which
            stays as it is while its suite is in use.

        Returns:
          What stands for it in `Suite.inputs`.

        Raises:
          InvalidRequestError: the file is too large.
          OSError: it cannot be read, or copied.
        """
        return self.service.upload_input(path)

    def run(self, request: RunRequest) -> RunResult:
        """Run one request and wait for its answer; see `run_many`."""
        return self.run_many([request])[0]

    async def arun(self, request: RunRequest) -> RunResult:
        """Run one request without blocking the event loop; see `run_many`.

        Where the task that waits is cancelled, the work is dropped as well: at once where it waits for a worker, within
        a second where it runs, here or on a server.
        """
        asking = _Asking(self.service)
        future = self._threads.submit(self._answer, request, asking)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            asking.cancel()
            raise

    def run_many(
        self, requests: Sequence[RunRequest], *, on_result: Callable[[RunResult], None] | None = None
    ) -> list[RunResult]:
        """Run requests side by side, at most one on each worker, and wait for all of them.

        Args:
          requests: programs with the hashes of uploaded suites; nothing is run unless all of them are valid.
          on_result: called in this thread with each answer as it arrives, in any order.

        Returns:
          One answer for each request, in their order. Tests that the sandbox could not settle are `sandbox_fault`.

        Raises:
          InvalidRequestError: a suite is not known or lacks a test that was asked for.
        """
        for request in requests:
            self.service.suite_of(request)
        futures: dict[str, concurrent.futures.Future[RunResult]] = {}
        asked = []
        for request in requests:
            if self._reuse == "never" or request.sha256 not in futures:
                futures[request.sha256] = self._submit(request)
            asked.append(futures[request.sha256])
        if on_result:
            for future in concurrent.futures.as_completed(asked):
                for _ in range(asked.count(future) if self._reuse == "always" else 1):
                    on_result(future.result())
        return [future.result() for future in asked]

    def _submit(self, request: RunRequest) -> concurrent.futures.Future[RunResult]:
        return self._threads.submit(self._answer, request)

    def _answer(self, request: RunRequest, asking: "_Asking | None" = None) -> RunResult:
        if self._store and (stored := self._store.get(request)):
            return stored
        future = self.service.submit(request)
        if asking:
            asking.note(future)
        answer = future.result()
        # What a bad moment measured, or a policy made up for, is not for later: it is asked for again.
        if self._store and not answer.measured_under.keys() & {"degraded", "fallback"}:
            self._store.put(answer)
        return answer


__all__ = ["Client", "FallbackPolicy", "InvalidRequestError", "checker_named", "connect", "map_of"]
