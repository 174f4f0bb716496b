"""Edge: the HTTP interface of a pool: suites are uploaded once, runs name a program and a suite.

Bodies are read by the parser of `sandbox.messages`, which clients use as well: what is unknown or of a wrong type is
refused by name. Work whose client has gone is dropped.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
import pathlib
import typing
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import fastapi
import pydantic
from fastapi import responses
from prometheus_client import exposition

from sandbox import host
from sandbox.messages import InvalidRequestError, conform, from_dict, parse_json, require
from sandbox.protocol import RunRequest, RunResult, Suite, to_json
from sandbox.service import gate, metrics, pool, probes, suites
from sandbox.service.admission import Admission, Bounds, Work, work_of

PROGRAM_CHARACTERS = 1 << 20
BATCH_REQUESTS = 10_000
RUN_NAME = "Run-Name"
# Bodies up to this size are parsed at once, larger ones in a thread, where they hold up nobody.
PARSED_AT_ONCE = 64 << 10
PROBLEMS = {
    401: "The token is missing or wrong.",
    404: "The suite, or the run, is not known.",
    408: "The body came too slowly.",
    411: "The length of the body is missing.",
    413: "The body is too large.",
    422: "A field is wrong; the message names it.",
    429: "The queue is full, or this client has enough under way: come back after Retry-After seconds.",
    503: "The service is ending, or the client was taken to be gone.",
}


def create_app(
    workers: pool.Pool,
    *,
    token: str = "",
    admission: Admission | None = None,
    probe_every_s: float = 0.0,
    findings: Sequence[host.Finding] | None = None,
    baseline: pathlib.Path | None = None,
) -> fastapi.FastAPI:
    """Build the HTTP service on a pool, which it closes when it shuts down.

    Args:
      workers: the pool; the name of the service and the fitness of the host are added to its `measured_under`.
      token: what clients have to send as a bearer token; empty lets everyone in.
      admission: what one client may ask for; None for the default bounds.
      probe_every_s: seconds between live probes; 0 for none.
      findings: what is known of the host; None looks now.
      baseline: file of the probes' first seconds, see `probes.Sentinel`; None keeps them in memory only.

    Raises:
      ValueError: `baseline` exists and was not written by a server.
    """
    admission = admission or Admission(Bounds())
    unfit = host.unfit(host.inspect() if findings is None else findings)
    workers.measured_under |= {"service": "http", "host_unfit": ",".join(unfit) or "no"}
    sentinel = probes.Sentinel(workers, baseline=baseline)

    @contextlib.asynccontextmanager
    async def lifespan(_: fastapi.FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(sentinel.probe_for_ever(every_s=probe_every_s)) if probe_every_s > 0 else None
        yield
        if task:
            task.cancel()
        # Requests have had their time to end before this point; what still runs has nobody who waits for it.
        await asyncio.to_thread(workers.close, drain_s=0.0)

    app = fastapi.FastAPI(title="Sandbox", version="1", lifespan=lifespan)
    app.add_middleware(gate.Gate, token=token, admission=admission)
    for kind, status in (
        (InvalidRequestError, 422),
        (suites.UnknownSuite, 404),
        (pool.PoolFull, 429),
        (pool.RunAbandoned, 503),
    ):
        app.add_exception_handler(kind, lambda _, error, status=status: gate.problem(status, str(error)))
    app.include_router(_routes(Service(workers, sentinel, admission)), prefix="/v1")
    registry = metrics.registry(workers, sentinel)
    app.add_api_route("/metrics", lambda: responses.PlainTextResponse(exposition.generate_latest(registry)))
    app.add_api_route(gate.OPEN_PATH, lambda: responses.PlainTextResponse("ok\n"))
    return app


@dataclasses.dataclass(frozen=True)
class Acceptance:
    """That whoever compares seconds has taken note of the map of this version."""

    version: str


@dataclasses.dataclass(frozen=True)
class Service:
    """What the routes share: the pool, its probes, and what every client has under way, runs with a name among it."""

    workers: pool.Pool
    sentinel: probes.Sentinel
    admission: Admission
    named: dict[tuple[str, str], concurrent.futures.Future[RunResult]] = dataclasses.field(default_factory=dict)

    @contextlib.contextmanager
    def naming(self, client: str, name: str, future: concurrent.futures.Future[RunResult]) -> Iterator[None]:
        """Let a run be cancelled by its client under a name, where it has one."""
        if name:
            self.named[client, name] = future
        try:
            yield
        finally:
            if self.named.get((client, name)) is future:
                del self.named[client, name]

    def stamped(self, answer: RunResult) -> RunResult:
        """Add what the probes say about present seconds to an answer."""
        return dataclasses.replace(answer, measured_under=answer.measured_under | self.sentinel.stamp())

    def priced(self, request: RunRequest) -> Work:
        """Return what a request may cost; raise InvalidRequestError where it cannot run here or costs too much."""
        size = len(request.program) + sum(map(len, request.files.values()))
        require(size <= PROGRAM_CHARACTERS, "program", f"{size} characters", f"at most {PROGRAM_CHARACTERS}")
        work = work_of(request, self.workers.suite_of(request))
        self.admission.require_request(work)
        return work

    def submit(self, client: str, request: RunRequest, work: Work) -> concurrent.futures.Future[RunResult]:
        """Queue a request on behalf of a client; raise PoolFull where queue or client have enough under way."""
        self.admission.enter(client, work)
        try:
            future = self.workers.submit(request)
        except BaseException:
            self.admission.leave(client, work)
            raise
        future.add_done_callback(lambda _: self.admission.leave(client, work))
        return future

    async def settle(self, request: fastapi.Request, future: concurrent.futures.Future[RunResult]) -> RunResult:
        """Wait for an answer as long as its client does; drop the work where the client goes, or this task ends."""
        answer, gone = asyncio.wrap_future(future), asyncio.ensure_future(gate.gone(request))
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise pool.RunAbandoned("the client has gone")
            if answer.cancelled():
                raise pool.RunAbandoned("this run was cancelled")
            return self.stamped(answer.result())
        finally:
            gone.cancel()
            if not answer.done():
                self.workers.cancel(future)
                answer.cancel()

    async def lines(self, client: str, requests: Sequence[tuple[RunRequest, Work]]) -> AsyncIterator[str]:
        """Yield the answer to each request as a line of JSON as it comes; what finds no room waits."""
        waiting = collections.deque(enumerate(requests))
        running: dict[asyncio.Future[RunResult], tuple[int, concurrent.futures.Future[RunResult]]] = {}
        try:
            while running or waiting:
                with contextlib.suppress(pool.PoolFull):
                    while waiting:
                        index, (request, work) = waiting[0]
                        future = self.submit(client, request, work)
                        running[asyncio.wrap_future(future)] = (index, future)
                        waiting.popleft()
                if not running:
                    await asyncio.sleep(gate.RETRY_AFTER_S)
                    continue
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for answer in done:
                    index, _ = running.pop(answer)
                    yield f'{{"index":{index},"result":{to_json(self.stamped(answer.result()))}}}\n'
        finally:
            # A caller that went away leaves nothing in the queue.
            for answer, (_, future) in running.items():
                self.workers.cancel(future)
                answer.cancel()


def _routes(service: Service) -> fastapi.APIRouter:
    problems: dict[int | str, dict[str, typing.Any]] = {code: {"description": text} for code, text in PROBLEMS.items()}
    router = fastapi.APIRouter(responses=problems)
    _add_state_routes(router, service)
    _add_run_routes(router, service)
    return router


def _add_state_routes(router: fastapi.APIRouter, service: Service) -> None:
    """Add what tells or changes the state of the service: health, the calibration's alarm, suites and inputs."""
    workers, sentinel = service.workers, service.sentinel

    @router.get("/health")
    async def health() -> dict[str, object]:
        """Report counts, windows, probes, bounds and identity of the service."""
        return {
            "counts": dict(workers.counts),
            "windows": workers.windows._asdict(),
            "drift": sentinel.report(),
            "bounds": dataclasses.asdict(service.admission.bounds),
            "measured_under": workers.measured_under | sentinel.stamp(),
        }

    @router.post("/calibration/accept", status_code=204, openapi_extra=_body(Acceptance))
    async def accept(request: fastapi.Request) -> None:
        """End the alarm of the current map: whoever compares seconds has taken note of its version."""
        sentinel.accept((await _read(request, lambda value: from_dict(Acceptance, value))).version)

    @router.put("/suites/{sha256}", status_code=204, openapi_extra=_body(Suite))
    async def upload(sha256: str, request: fastapi.Request) -> None:
        """Make a suite known under its content address."""
        suite = await _read(request, lambda value: from_dict(Suite, value))
        require(sha256 == suite.sha256, "sha256", sha256, suite.sha256)
        workers.upload(suite)

    @router.post("/suites", openapi_extra=_body(Suite))
    async def store(request: fastapi.Request) -> dict[str, str]:
        """Make a suite known and answer with its content address, for callers that do not compute it themselves."""
        return {"suite_sha256": workers.upload(await _read(request, lambda value: from_dict(Suite, value)))}

    @router.put("/inputs/{sha256}", status_code=204)
    async def upload_input(sha256: str, request: fastapi.Request) -> None:
        """Store the body as an input under its content address; suites name it by `{"sha256", "size_bytes"}`."""
        await workers.input_files.receive(sha256, request.stream())


def _add_run_routes(router: fastapi.APIRouter, service: Service) -> None:
    """Add what runs programs, alone and in batches, and what drops a run."""
    workers = service.workers

    @router.post("/runs", response_model=RunResult, openapi_extra=_body(RunRequest))
    async def run(request: fastapi.Request) -> fastapi.Response:
        """Run a program on the tests of a suite and answer when all have run.

        A `suite` in place of `suite_sha256` is uploaded along the way: program and tests in one request. A name in the
        header `Run-Name` is one under which this client may cancel the run.
        """
        asked, suite = await _read(request, one_shot)
        if suite:
            workers.upload(suite)
        client, name = gate.client_of(request.scope), request.headers.get(RUN_NAME, "")
        future = service.submit(client, asked, service.priced(asked))
        with service.naming(client, name, future):
            answer = await service.settle(request, future)
        return fastapi.Response(to_json(answer), media_type="application/json")

    @router.delete("/runs/{name}", status_code=204)
    async def cancel(name: str, request: fastapi.Request) -> None:
        """Drop a run whose request carried this name in the header `Run-Name`; that request is answered with 503."""
        future = service.named.get((gate.client_of(request.scope), name))
        if future is None:
            raise fastapi.HTTPException(404, f"name = {name!r}: expected that of a run under way")
        workers.cancel(future)

    @router.post("/batches", response_class=responses.StreamingResponse, openapi_extra=_body(list[RunRequest]))
    async def batch(request: fastapi.Request) -> responses.StreamingResponse:
        """Run many requests and stream one line `{"index", "result"}` for each, as they finish.

        A batch may be larger than the queue: what finds no room waits until some of it has run.
        """
        asked = await _read(request, lambda value: conform(tuple[RunRequest, ...], value, "requests"))
        require(0 < len(asked) <= BATCH_REQUESTS, "requests", len(asked), f"1 to {BATCH_REQUESTS}")
        lines = service.lines(gate.client_of(request.scope), [(one, service.priced(one)) for one in asked])
        return responses.StreamingResponse(lines, media_type="application/x-ndjson")


def one_shot(value: object) -> tuple[RunRequest, Suite | None]:
    """Read a run from parsed JSON, with a suite of its own in the field `suite`, or None where it names one.

    Raises:
      InvalidRequestError: a field is unknown, missing or wrong.
    """
    if not isinstance(value, dict) or "suite" not in value:
        return from_dict(RunRequest, value), None
    fields = {name: item for name, item in value.items() if name != "suite"}
    require("suite_sha256" not in fields, "suite_sha256", fields.get("suite_sha256"), "suite or suite_sha256, not both")
    suite = from_dict(Suite, value["suite"], path="suite.")
    return from_dict(RunRequest, fields | {"suite_sha256": suite.sha256}), suite


Read = typing.TypeVar("Read")


async def _read(request: fastapi.Request, build: Callable[[object], Read]) -> Read:
    """Read the body of a request as JSON and build a message from it."""
    body = await request.body()

    def parse() -> Read:
        return build(parse_json(body, "body"))

    return await asyncio.to_thread(parse) if len(body) > PARSED_AT_ONCE else parse()


def _body(kind: typing.Any) -> dict[str, typing.Any]:
    """Describe the body of a route for the page /docs, from the message that it holds."""
    schema = pydantic.TypeAdapter(kind).json_schema()
    definitions = schema.pop("$defs", {})
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": _inline(schema, definitions)}}}
    }


def _inline(schema: typing.Any, definitions: dict[str, typing.Any]) -> typing.Any:
    """Replace the references of a JSON schema by what they name."""
    if isinstance(schema, list):
        return [_inline(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inline(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {key: _inline(part, definitions) for key, part in schema.items()}
