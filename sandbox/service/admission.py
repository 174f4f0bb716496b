"""How much one client may ask of a service: bytes, executions, seconds and connections. Pure, but for a lock.

What a request costs is known before it runs: its executions, and the seconds that they may take at most. Counting
requests would let one of them, with a million tests, hold a worker for hours.
"""

import collections
import dataclasses
import threading

from sandbox.messages import require
from sandbox.protocol import INPUT_BYTES, RunRequest, Suite
from sandbox.service.pool import PoolFull

MEBIBYTE = 1 << 20


class ClientFull(PoolFull):
    """This client has as much under way as it may: ask again later. Nothing was lost."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What a service takes on.

    Attributes:
      body_bytes: largest body of a request.
      input_bytes: largest input that is uploaded as a file.
      request_executions: executions (tests times repeats) of one request.
      request_seconds: seconds that one request may take if every execution reaches its limit.
      client_body_bytes: bodies of one client that are being received or read, together.
      client_executions: executions of one client that wait or run.
      client_seconds: seconds that these may take at most.
      client_connections: open connections of one client.
      silence_s: seconds after which a connection that sends nothing is closed, in the middle of a request or before it.
    """

    body_bytes: int = 64 * MEBIBYTE
    input_bytes: int = INPUT_BYTES
    request_executions: int = 100_000
    request_seconds: float = 200_000.0
    client_body_bytes: int = 256 * MEBIBYTE
    client_executions: int = 1_000_000
    client_seconds: float = 2_000_000.0
    client_connections: int = 512
    silence_s: float = 20.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            require(value > 0, field.name, value, "a positive number")


@dataclasses.dataclass(frozen=True)
class Work:
    """What a request costs.

    Attributes:
      executions: runs of the program, at most.
      seconds: what they take if each reaches its limit.
    """

    executions: int
    seconds: float


def work_of(request: RunRequest, suite: Suite) -> Work:
    """Return what a request may cost at most."""
    tests = range(len(suite.inputs)) if request.tests is None else request.tests
    return Work(len(tests) * request.repeats, request.repeats * sum(request.limits_of(test).wall_s for test in tests))


class Admission:
    """What every client has under way, within bounds; safe to use from several threads.

    Attributes:
      bounds: what each may have.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._lock = threading.Lock()
        self._held: dict[str, collections.Counter[str]] = {}

    def require_request(self, work: Work) -> None:
        """Refuse a request that is too much for any client.

        Raises:
          InvalidRequestError: it names the bound.
        """
        bounds = self.bounds
        fits = work.executions <= bounds.request_executions
        require(fits, "tests x repeats", work.executions, f"at most {bounds.request_executions} executions a request")
        fits = work.seconds <= bounds.request_seconds
        expected = f"at most {bounds.request_seconds:g} seconds a request"
        require(fits, "tests x repeats x limits.wall_s", work.seconds, expected)

    def enter(self, client: str, work: Work) -> None:
        """Count work of a client that is about to be queued; `leave` takes it off again.

        Raises:
          ClientFull: it does not fit beside what the client has under way.
        """
        self._add(client, executions=work.executions, seconds=work.seconds)

    def leave(self, client: str, work: Work) -> None:
        """Take finished or dropped work off."""
        self._subtract(client, executions=work.executions, seconds=work.seconds)

    def hold_body(self, client: str, size: int) -> None:
        """Count the bytes of a body that is about to be received; `drop_body` takes them off again.

        Raises:
          ClientFull: they do not fit beside the client's other bodies.
        """
        self._add(client, body_bytes=size)

    def drop_body(self, client: str, size: int) -> None:
        """Take the bytes of a body off."""
        self._subtract(client, body_bytes=size)

    def connect(self, client: str) -> bool:
        """Count an open connection; return False, and count nothing, where the client has too many."""
        try:
            self._add(client, connections=1)
        except ClientFull:
            return False
        return True

    def disconnect(self, client: str) -> None:
        """Take a connection off."""
        self._subtract(client, connections=1)

    def _add(self, client: str, **amounts: float) -> None:
        with self._lock:
            held = self._held.setdefault(client, collections.Counter())
            for name, amount in amounts.items():
                most = getattr(self.bounds, f"client_{name}")
                # One thing at a time always goes, whatever it costs: its own bound is another one.
                if held[name] and held[name] + amount > most:
                    raise ClientFull(f"{held[name]:g} {name} of this client are under way: expected at most {most:g}")
            held.update(amounts)

    def _subtract(self, client: str, **amounts: float) -> None:
        with self._lock:
            held = self._held[client]
            held.subtract(amounts)
            if not any(count > 0 for count in held.values()):
                del self._held[client]
