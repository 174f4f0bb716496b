"""Edge: remote procedure calls from actors to their learner (ZeroMQ): one request, one answer.

A client that gets no answer sends its request again until its patience ends, so that a learner may die and come back
meanwhile. A request may therefore arrive twice, and every handler allows for that. Made for a trusted network: whoever
reaches the address can take part in the run (messages are checked, see `distributed.codec`, but not signed).
"""

import logging
import threading
import time
import typing
from collections.abc import Callable, Mapping

import numpy as np
import zmq

from optimrl_jax.distributed import codec
from optimrl_jax.jobs.errors import UserError

_LOG = logging.getLogger(__name__)
POLL_MS = 100
# A request or its answer may be lost with a connection: the request is sent again after this time.
ANSWER_TIMEOUT_S = 5.0
BIND_S = 5.0
LOOPBACK = "tcp://127.0.0.1:*"
Handler = Callable[[codec.WireMessage], list]


class LearnerLostError(UserError):
    """No learner has answered for as long as the settings allow, or the client was closed during a call."""


class RpcServer:
    """Answers requests in a thread of its own.

    Args:
      address: tcp://host:port to listen on; empty for a free port of the loopback.
      handler: makes the frames of an answer; a ValueError of it is sent back as a refusal.

    Attributes:
      address: where clients connect.
      refused: messages refused so far.

    Raises:
      UserError: if the address cannot be bound.
    """

    def __init__(self, address: str, handler: Handler) -> None:
        self.refused = 0
        self._handler = handler
        self._ends = threading.Event()
        self._socket = zmq.Context.instance().socket(zmq.ROUTER)
        self._socket.linger = 0
        self._bind(address or LOOPBACK)
        self.address: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._thread = threading.Thread(target=self._serve, name="actors", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering and wait for the thread to end."""
        self._ends.set()
        self._thread.join()

    def _bind(self, address: str) -> None:
        """Bind the socket, trying for a while: the address of a learner that has just ended is not free at once."""
        ends_s = time.monotonic() + BIND_S
        while True:
            try:
                return self._socket.bind(address)
            except zmq.ZMQError as error:
                if error.errno != zmq.EADDRINUSE or time.monotonic() > ends_s:
                    self._socket.close()
                    raise UserError(f"actors.listen = {address!r}: expected a free tcp://host:port ({error})") from None
            time.sleep(POLL_MS / 1000)

    def _serve(self) -> None:
        while not self._ends.is_set():
            if self._socket.poll(POLL_MS):
                frames = self._socket.recv_multipart(copy=False)
                # An envelope (sender and number of the request), an empty frame, the message.
                empty = next((n for n, frame in enumerate(frames[1:], start=1) if not len(frame.buffer)), None)
                if empty is not None:
                    reply = self._reply([frame.buffer for frame in frames[empty + 1 :]])
                    self._socket.send_multipart([*frames[: empty + 1], *reply], copy=False)
        self._socket.close()

    def _reply(self, frames: list) -> list:
        try:
            return self._handler(codec.decode_message(frames))
        except ValueError as error:
            self.refused += 1
            _LOG.warning("a message of an actor is refused: %s", error)
            return codec.encode_message("refused", {"reason": str(error)})


class RpcClient:
    """Sends requests to a learner; safe to use from several threads, each of which has its own connection.

    Args:
      address: tcp://host:port of the learner.
      patience_s: seconds without any answer after which a call gives up.
      answer_s: seconds after which a request is sent again.
    """

    def __init__(self, address: str, *, patience_s: float, answer_s: float = ANSWER_TIMEOUT_S) -> None:
        self._address = address
        self._patience_s = patience_s
        self._answer_s = answer_s
        self._own = threading.local()
        self._ends = threading.Event()

    def call(
        self, kind: str, metadata: Mapping[str, typing.Any], arrays: Mapping[str, np.ndarray] | None = None
    ) -> codec.WireMessage:
        """Send a request, again if need be, and return its answer.

        Args:
          kind: what the request is about.
          metadata: plain values.
          arrays: by name.

        Raises:
          LearnerLostError: if no answer comes within `patience_s`, or the client is closed meanwhile.
          UserError: if the learner refuses the request, or the address is malformed.
        """
        frames = codec.encode_message(kind, metadata, arrays)
        ends_s = time.monotonic() + self._patience_s
        socket = self._socket()
        while time.monotonic() < ends_s and not self._ends.is_set():
            try:
                socket.send_multipart(frames, copy=False)
            except zmq.Again:
                continue
            if socket.poll(int(1000 * self._answer_s)):
                answer = codec.decode_message([frame.buffer for frame in socket.recv_multipart(copy=False)])
                if answer.kind == "refused":
                    raise UserError(f"the learner at {self._address} refuses: {answer.metadata.get('reason')}")
                return answer
        raise LearnerLostError(f"--learner = {self._address!r}: expected an answer within {self._patience_s:g} s")

    def close(self) -> None:
        """End the calls of other threads; connections close with their threads."""
        self._ends.set()

    def _socket(self) -> zmq.Socket:
        if not hasattr(self._own, "socket"):
            socket = zmq.Context.instance().socket(zmq.REQ)
            # Lets a lost request be sent again, without mistaking a late answer to the old one for that to the new one.
            socket.setsockopt(zmq.REQ_RELAXED, 1)
            socket.setsockopt(zmq.REQ_CORRELATE, 1)
            # Without a connection nothing is sent: a learner that comes back would get every request many times.
            socket.setsockopt(zmq.IMMEDIATE, 1)
            socket.setsockopt(zmq.SNDTIMEO, int(1000 * self._answer_s))
            socket.linger = 0
            try:
                socket.connect(self._address)
            except zmq.ZMQError as error:
                raise UserError(f"--learner = {self._address!r}: expected tcp://host:port ({error})") from None
            self._own.socket = socket
        return self._own.socket
