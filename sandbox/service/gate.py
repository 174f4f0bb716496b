"""Edge: what stands between the network and the service: the token, the size of bodies, the patience with slow senders.

Nothing of a body is read before its sender has shown the token and the declared length has been found to fit.
"""

import asyncio
import hmac

import fastapi
from fastapi import responses
from starlette import types
from uvicorn.protocols.http import h11_impl

from sandbox.service.admission import Admission, ClientFull

RETRY_AFTER_S = 1
# Answers to the question whether this process is alive; whoever asks that has no token.
OPEN_PATH = "/healthz"
# Bodies of these paths go to disk as they come.
INPUT_PATH = "/v1/inputs/"
# Slower than this, on the whole, no body may come.
LEAST_BYTES_PER_S = 64 << 10


def problem(status: int, text: str) -> responses.JSONResponse:
    """Build the answer to a request that is refused: `{"detail": text}`."""
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 429 else {}
    headers |= {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return responses.JSONResponse({"detail": text.encode("utf-8", "replace").decode()}, status, headers)


class BodyTooSlow(Exception):
    """A body did not arrive in the time that its length deserves."""


class Gate:
    """ASGI middleware that lets through who has the token, with a body that fits, sent at a reasonable pace.

    Refusals: 401 without the token, 411 without a declared length, 413 for a body that is too large, 429 for more
    bytes at once than one client may send, 408 for a body that comes too slowly.
    """

    def __init__(self, app: types.ASGIApp, *, token: str, admission: Admission) -> None:
        """Put a gate before an application.

        Args:
          app: the application.
          token: what clients have to send as a bearer token; empty lets everyone in.
          admission: the bounds, and what every client has under way.
        """
        self._app = app
        self._token = token.encode()
        self._admission = admission

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http" or scope["path"] == OPEN_PATH:
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if refusal := self._refusal(headers, scope["path"]):
            await refusal(scope, receive, send)
            return
        client, size = client_of(scope), int(headers.get(b"content-length", b"0"))
        try:
            self._admission.hold_body(client, size)
        except ClientFull as full:
            await problem(429, str(full))(scope, receive, send)
            return
        try:
            patience_s = self._admission.bounds.silence_s + size / LEAST_BYTES_PER_S
            await self._app(scope, _in_time(receive, patience_s), send)
        except BodyTooSlow as error:
            await problem(408, str(error))(scope, receive, send)
        finally:
            self._admission.drop_body(client, size)

    def _refusal(self, headers: dict[bytes, bytes], path: str) -> responses.JSONResponse | None:
        """Return why a request is refused by its head alone; None where it is not."""
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if self._token and not (scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token)):
            return problem(401, "expected the token of this service")
        if b"transfer-encoding" in headers:
            return problem(411, "expected a Content-Length header")
        flag = "input_bytes" if path.startswith(INPUT_PATH) else "body_bytes"
        size, most = int(headers.get(b"content-length", b"0")), getattr(self._admission.bounds, flag)
        expected = f"expected at most {most} (--{flag} of the server)"
        return problem(413, f"body of {size} bytes: {expected}") if size > most else None


def client_of(scope: types.Scope) -> str:
    """Return whom bounds are counted for: the address that a request comes from."""
    return (scope.get("client") or ("",))[0]


def _in_time(receive: types.Receive, patience_s: float) -> types.Receive:
    """Wrap `receive` so that it raises BodyTooSlow where the body is not complete after `patience_s` seconds."""
    deadline_s = asyncio.get_running_loop().time() + patience_s
    is_complete = False

    async def receive_in_time() -> types.Message:
        nonlocal is_complete
        if is_complete:
            return await receive()
        try:
            async with asyncio.timeout_at(deadline_s):
                message = await receive()
        except TimeoutError:
            raise BodyTooSlow(f"the body was not complete after {patience_s:.0f} s") from None
        is_complete = not message.get("more_body", False)
        return message

    return receive_in_time


async def gone(request: fastapi.Request) -> None:
    """Wait until the client of a request, whose body has been read, has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


NOTHING = object()
TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\nconnection: close\r\n"
    + f"retry-after: {RETRY_AFTER_S}\r\n\r\n".encode()
)


def bounded_connections(admission: Admission) -> type[asyncio.Protocol]:
    """Make the protocol of connections: so many a client, and none that stays silent in the middle of a request.

    Args:
      admission: counts the connections of each client, and knows how long one may be silent.

    Returns:
      A class for uvicorn's `http`.
    """

    class BoundedConnection(h11_impl.H11Protocol):
        """One connection; it is looked at every `silence_s` seconds."""

        _is_counted = False
        _seen: object = NOTHING

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As in its base.
            super().connection_made(transport)
            self._is_counted = admission.connect(self._who)
            if not self._is_counted:
                transport.write(TOO_MANY)
                transport.close()
                return
            self._watch()

        def data_received(self, data: bytes) -> None:
            if self._is_counted:
                super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self._is_counted:
                admission.disconnect(self._who)
                self._is_counted = False

        @property
        def _who(self) -> str:
            return self.client[0] if self.client else ""

        def _watch(self) -> None:
            """Close the connection where, since the last look, no request has begun and none is being answered."""
            if self.transport.is_closing():
                return
            is_waiting = self.cycle is None or self.cycle.response_complete
            if is_waiting and self._seen is self.cycle:
                self.transport.close()
                return
            self._seen = self.cycle if is_waiting else NOTHING
            self.loop.call_later(admission.bounds.silence_s, self._watch)

    return BoundedConnection
