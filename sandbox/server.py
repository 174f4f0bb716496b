"""Edge: serves the sandbox over HTTP. `python -m sandbox.server --backend=docker --workers=2`.

Suites are uploaded once under their SHA-256; a run names a program and a suite. A full queue answers 429 with a time to
come back. On SIGTERM the server takes no more requests and finishes those it holds.
"""

import argparse
import asyncio
import collections
import contextlib
import dataclasses
import hmac
import json
import logging
import math
import os
import pathlib
import socket
import sys
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated

import fastapi
import uvicorn
from fastapi import responses, security
from prometheus_client import exposition
from starlette import types

from sandbox import host, protocol
from sandbox.protocol import TOKEN_VARIABLE, InvalidRequestError, RunRequest, RunResult, Suite
from sandbox.service import metrics, pool, probes, suites

_LOG = logging.getLogger(__name__)
BODY_BYTES = 256 << 20
PROGRAM_CHARACTERS = 1 << 20
BATCH_REQUESTS = 10_000
SUITE_CHARACTERS = 1 << 30
QUEUE_LIMIT = 1_000
RETRY_AFTER_S = 1
SHUTDOWN_S = 60
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class BodyLimit:
    """ASGI middleware that refuses a body by its declared length, before any of it is held in memory.

    Bodies without a declared length (chunked ones) are refused as well: 411, where one that is too large gets 413.
    """

    def __init__(self, app: types.ASGIApp, *, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        headers = dict(scope.get("headers", ()))
        declared = headers.get(b"content-length", b"0")
        if scope["type"] == "http" and declared.isdigit() and int(declared) > self._limit:
            text = f"body of {declared.decode()} bytes: expected at most {self._limit}"
            await _problem(413, text)(scope, receive, send)
            return
        if scope["type"] == "http" and b"transfer-encoding" in headers:
            await _problem(411, "expected a Content-Length header")(scope, receive, send)
            return
        await self._app(scope, receive, send)


def create_app(
    workers: pool.Pool,
    *,
    token: str = "",
    body_bytes: int = BODY_BYTES,
    probe_every_s: float = 0.0,
    findings: Sequence[host.Finding] | None = None,
    baseline: pathlib.Path | None = None,
) -> fastapi.FastAPI:
    """Build the HTTP service on a pool, which it closes when it shuts down.

    Args:
      workers: the pool; the name of the service and the fitness of the host are added to its `measured_under`.
      token: what clients have to send as a bearer token; empty lets everyone in.
      body_bytes: size of the largest body.
      probe_every_s: seconds between live probes; 0 for none.
      findings: what is known of the host; None looks now.
      baseline: file of the probes' first seconds, see `probes.Sentinel`; None keeps them in memory only.

    Raises:
      ValueError: `baseline` exists and was not written by a server.
    """
    unfit = host.unfit(host.inspect() if findings is None else findings)
    workers.measured_under |= {"service": "http", "host_unfit": ",".join(unfit) or "no"}
    sentinel = probes.Sentinel(workers, baseline=baseline)

    @contextlib.asynccontextmanager
    async def lifespan(_: fastapi.FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(sentinel.probe_for_ever(every_s=probe_every_s)) if probe_every_s > 0 else None
        yield
        if task:
            task.cancel()
        await asyncio.to_thread(workers.close)

    app = fastapi.FastAPI(title="Sandbox", version="1", lifespan=lifespan)
    app.add_middleware(BodyLimit, limit=body_bytes)
    app.add_exception_handler(InvalidRequestError, lambda _, error: _problem(422, str(error)))
    app.add_exception_handler(suites.UnknownSuite, lambda _, error: _problem(404, str(error)))
    app.add_exception_handler(pool.PoolFull, _full)
    app.add_exception_handler(fastapi.exceptions.RequestValidationError, _malformed)
    app.include_router(_routes(workers, sentinel), prefix="/v1", dependencies=[fastapi.Depends(_guard(token))])
    registry = metrics.registry(workers, sentinel)
    app.add_api_route("/metrics", lambda: responses.PlainTextResponse(exposition.generate_latest(registry)))
    return app


def _routes(workers: pool.Pool, sentinel: probes.Sentinel) -> fastapi.APIRouter:
    problems: dict[int | str, dict[str, typing.Any]] = {code: {"description": text} for code, text in PROBLEMS.items()}
    router = fastapi.APIRouter(responses=problems)

    def stamped(answer: RunResult) -> RunResult:
        return dataclasses.replace(answer, measured_under=answer.measured_under | sentinel.stamp())

    @router.get("/health")
    async def health() -> dict[str, object]:
        """Report counts, windows, probes and identity of the service."""
        return {
            "counts": dict(workers.counts),
            "windows": workers.windows._asdict(),
            "drift": sentinel.report(),
            "measured_under": workers.measured_under | sentinel.stamp(),
        }

    @router.post("/calibration/accept", status_code=204)
    async def accept(version: Annotated[str, fastapi.Body(embed=True)]) -> None:
        """End the alarm of the current map: whoever compares seconds has taken note of its version."""
        sentinel.accept(version)

    @router.put("/suites/{sha256}", status_code=204)
    async def upload(sha256: str, suite: Suite) -> None:
        """Make a suite known under its content address."""
        protocol.require(sha256 == suite.sha256, "sha256", sha256, suite.sha256)
        workers.upload(suite)

    @router.post("/runs", response_model=RunResult)
    async def run(request: RunRequest) -> fastapi.Response:
        """Run a program on the tests of a suite and answer when all have run."""
        answer = stamped(await asyncio.wrap_future(workers.submit(_within_cap(request))))
        return fastapi.Response(protocol.to_json(answer), media_type="application/json")

    @router.post("/batches", response_class=responses.StreamingResponse)
    async def batch(requests: list[RunRequest]) -> responses.StreamingResponse:
        """Run many requests and stream one line `{"index", "result"}` for each, as they finish.

        A batch may be larger than the queue: what finds no room waits until some of it has run.
        """
        protocol.require(0 < len(requests) <= BATCH_REQUESTS, "requests", len(requests), f"1 to {BATCH_REQUESTS}")
        for request in requests:
            workers.suite_of(_within_cap(request))
        first = asyncio.wrap_future(workers.submit(requests[0]))
        lines = _lines(workers, requests, first=first, stamped=stamped)
        return responses.StreamingResponse(lines, media_type="application/x-ndjson")

    return router


PROBLEMS = {
    401: "The token is missing or wrong.",
    404: "The suite is not known: upload it.",
    411: "The length of the body is missing.",
    413: "The body is too large.",
    422: "A field is wrong; the message names it.",
    429: "The queue is full: come back after Retry-After seconds.",
}


async def _lines(
    workers: pool.Pool,
    requests: Sequence[RunRequest],
    *,
    first: asyncio.Future[RunResult],
    stamped: Callable[[RunResult], RunResult],
) -> AsyncIterator[str]:
    """Yield each answer as a line of JSON as it comes; `first` is the future of the first request, already queued."""
    waiting = collections.deque(range(1, len(requests)))
    running = {first: 0}
    try:
        while running or waiting:
            with contextlib.suppress(pool.PoolFull):
                while waiting:
                    future = asyncio.wrap_future(workers.submit(requests[waiting[0]]))
                    running[future] = waiting.popleft()
            if not running:
                await asyncio.sleep(RETRY_AFTER_S)
                continue
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                index = running.pop(future)
                yield f'{{"index":{index},"result":{protocol.to_json(stamped(future.result()))}}}\n'
    finally:
        # A caller that went away leaves nothing in the queue.
        for future in running:
            future.cancel()


def _within_cap(request: RunRequest) -> RunRequest:
    size = len(request.program)
    protocol.require(size <= PROGRAM_CHARACTERS, "program", f"{size} characters", f"at most {PROGRAM_CHARACTERS}")
    return request


def _guard(token: str) -> Callable[..., Awaitable[None]]:
    scheme = security.HTTPBearer(auto_error=False)

    async def guard(
        given: Annotated[security.HTTPAuthorizationCredentials | None, fastapi.Depends(scheme)],
    ) -> None:
        is_right = given is not None and hmac.compare_digest(given.credentials.encode(), token.encode())
        if token and not is_right:
            raise fastapi.HTTPException(401, "expected the token of this service", {"WWW-Authenticate": "Bearer"})

    return guard


def _problem(status: int, text: str) -> responses.JSONResponse:
    return responses.JSONResponse({"detail": text.encode("utf-8", "replace").decode()}, status_code=status)


def _full(_: fastapi.Request, error: Exception) -> responses.JSONResponse:
    answer = _problem(429, str(error))
    answer.headers["Retry-After"] = str(RETRY_AFTER_S)
    return answer


def _malformed(_: fastapi.Request, error: Exception) -> responses.JSONResponse:
    assert isinstance(error, fastapi.exceptions.RequestValidationError)
    places = [f"{'.'.join(map(str, item['loc'][1:]))}: {item['msg']}" for item in error.errors()]
    return _problem(422, "; ".join(places))


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM and return the exit code: 2, with one line on standard error, for what cannot be served.

    Args:
      arguments: the command line after the program's name; None: that of this process.
    """
    flags = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    settings = pool.PoolSettings(
        recycle_after=flags.recycle_after, queue_limit=flags.queue_limit, suite_characters=SUITE_CHARACTERS
    )
    try:
        _check(flags)
        findings = host.inspect()
        workers = pool.open_pool(flags.backend, workers=flags.workers, settings=settings)
        _require_free(flags.address, flags.port)
        app = create_app(
            workers,
            token=os.environ.get(TOKEN_VARIABLE, ""),
            probe_every_s=flags.probe_every_s,
            findings=findings,
            baseline=flags.baseline,
        )
    except (OSError, ValueError) as error:
        print(f"sandbox.server: {error}", file=sys.stderr)
        return 2
    for finding in findings:
        _LOG.log(logging.INFO if finding.is_fit else logging.WARNING, "host: %s", finding)
    _LOG.info("serving on http://%s:%d as %s", flags.address, flags.port, json.dumps(workers.measured_under))
    if not os.environ.get(TOKEN_VARIABLE) and flags.address not in LOOPBACK:
        _LOG.warning("%s is not set: whoever reaches this port may run programs here", TOKEN_VARIABLE)
    uvicorn.run(app, host=flags.address, port=flags.port, timeout_graceful_shutdown=SHUTDOWN_S, log_level="warning")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sandbox.server",
        usage="%(prog)s [--backend=NAME] [--workers=NUMBER] [--address=ADDRESS] [--port=NUMBER] [flags]",
        description=(__doc__ or "").removeprefix("Edge: "),
        epilog=f"The environment variable {TOKEN_VARIABLE} holds the token that clients have to send.\n"
        "Without it, whoever reaches the port may run programs.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    backends = (
        "what runs the programs: docker (containers of this machine), docker_clean (containers that are cleaned "
        "between runs, for trusted code) or local (processes of this machine, for trusted code)"
    )
    baseline = "file of the probes' first seconds, read where it exists and written otherwise; default: none is kept"
    for name, kind, metavar, default, meaning in (
        ("workers", int, "NUMBER", len(os.sched_getaffinity(0)), "programs that run at the same time, 1 to 1024"),
        ("address", str, "ADDRESS", "127.0.0.1", "address of this machine to listen on"),
        ("port", int, "NUMBER", 8080, "TCP port to listen on, 1 to 65535"),
        ("queue_limit", int, "NUMBER", QUEUE_LIMIT, "requests that may wait or run; more are answered with 429"),
        ("recycle_after", int, "NUMBER", 20_000, "runs of a worker before it is replaced"),
        ("probe_every_s", float, "SECONDS", 60.0, "seconds between live probes, 0 for none"),
    ):
        text = f"{meaning}; default: %(default)s"
        parser.add_argument(f"--{name}", type=kind, metavar=metavar, default=default, help=text)
    names = sorted(pool.BACKENDS)
    parser.add_argument(
        "--backend", metavar="NAME", default="docker", choices=names, help=f"{backends}; default: %(default)s"
    )
    parser.add_argument("--baseline", type=pathlib.Path, metavar="FILE", help=baseline)
    return parser


def _check(flags: argparse.Namespace) -> None:
    """Refuse flags out of their range before anything is started."""
    for name, low, high in (("port", 1, 65_535), ("queue_limit", 1, 1 << 30), ("recycle_after", 1, 1 << 40)):
        value = getattr(flags, name)
        protocol.require(low <= value <= high, name, value, f"a whole number in [{low}, {high}]")
    is_wait = 0 <= flags.probe_every_s < math.inf
    protocol.require(is_wait, "probe_every_s", flags.probe_every_s, "seconds that are not negative")


def _require_free(address: str, port: int) -> None:
    """Raise OSError where the port is taken or the address does not belong to this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise OSError(f"address = {address!r}, port = {port}: expected a free one ({error.strerror})") from None


if __name__ == "__main__":
    sys.exit(main())
