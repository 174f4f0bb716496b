"""Edge: the sandbox as an HTTP service. `python -m sandbox.server --backend=docker --workers=2`.

Suites are uploaded once under their SHA-256; a run names a program and a suite. A full queue answers 429 with a time to
come back. On SIGTERM the server takes no more requests and finishes those it holds.
"""

import argparse
import asyncio
import contextlib
import hmac
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

import fastapi
import uvicorn
from fastapi import responses, security
from prometheus_client import exposition

from sandbox import host, metrics, pool, probes, protocol
from sandbox.protocol import InvalidRequestError, RunRequest, RunResult, Suite

_LOG = logging.getLogger(__name__)
BODY_BYTES = 256 << 20
PROGRAM_CHARACTERS = 1 << 20
BATCH_REQUESTS = 10_000
SUITE_CHARACTERS = 1 << 30
QUEUE_LIMIT = 1_000
RETRY_AFTER_S = 1
SHUTDOWN_S = 60
TOKEN_VARIABLE = "OPTIMRL_SANDBOX_TOKEN"


class BodyLimit:
    """Refuses bodies over a size before they are held in memory."""

    def __init__(self, app: object, *, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: dict, receive: object, send: object) -> None:
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
    workers: pool.Pool, *, token: str = "", body_bytes: int = BODY_BYTES, probe_every_s: float = 0.0
) -> fastapi.FastAPI:
    """The service on a pool, which it closes at its end. An empty token lets everyone in."""
    findings = host.unfit(host.inspect())
    workers.measured_under |= {"service": "http", "host_unfit": ",".join(findings) or "no"}
    sentinel = probes.Sentinel(workers)

    @contextlib.asynccontextmanager
    async def lifespan(_: fastapi.FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(sentinel.watch(every_s=probe_every_s)) if probe_every_s > 0 else None
        yield
        if task:
            task.cancel()
        await asyncio.to_thread(workers.close)

    app = fastapi.FastAPI(title="Sandbox", version="1", lifespan=lifespan)
    app.add_middleware(BodyLimit, limit=body_bytes)
    app.add_exception_handler(InvalidRequestError, lambda _, error: _problem(422, str(error)))
    app.add_exception_handler(pool.UnknownSuite, lambda _, error: _problem(404, str(error)))
    app.add_exception_handler(pool.PoolFull, _full)
    app.add_exception_handler(fastapi.exceptions.RequestValidationError, _malformed)
    app.include_router(_routes(workers, sentinel), prefix="/v1", dependencies=[fastapi.Depends(_guard(token))])
    registry = metrics.registry(workers, sentinel)
    app.add_api_route("/metrics", lambda: responses.PlainTextResponse(exposition.generate_latest(registry)))
    return app


def _routes(workers: pool.Pool, sentinel: probes.Sentinel) -> fastapi.APIRouter:
    problems = {code: {"description": text} for code, text in PROBLEMS.items()}
    router = fastapi.APIRouter(responses=problems)

    @router.get("/health")
    async def health() -> dict[str, object]:
        """Counts, probes and identity of the service."""
        counts = dict(workers.counts)
        return {"counts": counts, "drift": sentinel.report(), "measured_under": workers.measured_under}

    @router.put("/suites/{sha256}", status_code=204)
    async def upload(sha256: str, suite: Suite) -> None:
        """Makes a suite known under its content address."""
        protocol.require(sha256 == suite.sha256, "sha256", sha256, suite.sha256)
        workers.upload(suite)

    @router.post("/runs", response_model=RunResult)
    async def run(request: RunRequest) -> fastapi.Response:
        """Runs a program on the tests of a suite and answers when all have run."""
        answer = await asyncio.wrap_future(workers.submit(_within_cap(request)))
        return fastapi.Response(protocol.to_json(answer), media_type="application/json")

    @router.post("/batches", response_class=responses.StreamingResponse)
    async def batch(requests: list[RunRequest]) -> responses.StreamingResponse:
        """Runs many requests; one line `{"index", "result"}` for each, as they finish."""
        protocol.require(0 < len(requests) <= BATCH_REQUESTS, "requests", len(requests), f"1 to {BATCH_REQUESTS}")
        for request in requests:
            workers.suite_of(_within_cap(request))
        futures = [asyncio.wrap_future(workers.submit(request)) for request in requests]
        return responses.StreamingResponse(_lines(futures), media_type="application/x-ndjson")

    return router


PROBLEMS = {
    401: "The token is missing or wrong.",
    404: "The suite is not known: upload it.",
    411: "The length of the body is missing.",
    413: "The body is too large.",
    422: "A field is wrong; the message names it.",
    429: "The queue is full: come back after Retry-After seconds.",
}


async def _lines(futures: Sequence[asyncio.Future[RunResult]]) -> AsyncIterator[str]:
    async def numbered(index: int, future: asyncio.Future[RunResult]) -> tuple[int, RunResult]:
        return index, await future

    for done in asyncio.as_completed([numbered(index, future) for index, future in enumerate(futures)]):
        index, answer = await done
        yield f'{{"index":{index},"result":{protocol.to_json(answer)}}}\n'


def _within_cap(request: RunRequest) -> RunRequest:
    size = len(request.program)
    protocol.require(size <= PROGRAM_CHARACTERS, "program", f"{size} characters", f"at most {PROGRAM_CHARACTERS}")
    return request


def _guard(token: str) -> object:
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


def _malformed(_: fastapi.Request, error: fastapi.exceptions.RequestValidationError) -> responses.JSONResponse:
    places = [f"{'.'.join(map(str, item['loc'][1:]))}: {item['msg']}" for item in error.errors()]
    return _problem(422, "; ".join(places))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox.server", description=__doc__)
    parser.add_argument("--backend", default="docker", choices=sorted(pool.BACKENDS))
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--queue_limit", type=int, default=QUEUE_LIMIT, help="requests that wait or run")
    parser.add_argument("--recycle_after", type=int, default=20_000, help="runs of a worker before it is replaced")
    parser.add_argument("--probe_every_s", type=float, default=60.0, help="seconds between live probes; 0: none")
    flags = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    settings = pool.PoolSettings(
        recycle_after=flags.recycle_after, queue_limit=flags.queue_limit, suite_characters=SUITE_CHARACTERS
    )
    try:
        workers = pool.open_pool(flags.backend, workers=flags.workers, settings=settings)
    except (OSError, ValueError) as error:
        print(f"sandbox.server: {error}", file=sys.stderr)
        return 2
    for finding in host.inspect():
        _LOG.log(logging.INFO if finding.is_fit else logging.WARNING, "host: %s", finding)
    app = create_app(workers, token=os.environ.get(TOKEN_VARIABLE, ""), probe_every_s=flags.probe_every_s)
    _LOG.info("identity: %s", json.dumps(workers.measured_under))
    uvicorn.run(app, host=flags.address, port=flags.port, timeout_graceful_shutdown=SHUTDOWN_S, log_level="warning")
    return 0


if __name__ == "__main__":
    sys.exit(main())
