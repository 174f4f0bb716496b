"""Inside the isolation boundary: the messages between a worker and its runner, length-prefixed JSON."""

import json
import struct
from typing import BinaryIO

HEADER = struct.Struct(">I")


def receive(source: BinaryIO) -> dict | None:
    """Read one message: four bytes of length, big-endian, then that much JSON; None at the end of the stream."""
    head = _exactly(source, HEADER.size)
    return json.loads(_exactly(source, *HEADER.unpack(head))) if len(head) == HEADER.size else None


def _exactly(source: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, or what there is before the end of the stream."""
    parts = []
    while size and (part := source.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def send(target: BinaryIO, message: dict) -> None:
    """Write one message in the form that `receive` reads, and flush it."""
    body = json.dumps(message).encode()
    target.write(HEADER.pack(len(body)) + body)
    target.flush()
