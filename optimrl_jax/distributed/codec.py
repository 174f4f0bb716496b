"""What travels between processes: one small header and raw arrays, never code.

Pure: messages to frames of bytes and back. Anything malformed raises MessageError; nothing is trusted because it
arrived.
"""

import math
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence

import jax
import ml_dtypes
import msgpack
import numpy as np

DTYPES = {
    str(np.dtype(kind)): np.dtype(kind)
    for kind in (np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.int8, np.uint32, np.bool_)
}
MAX_HEADER_BYTES = 1 << 20


class MessageError(ValueError):
    """A message that this side cannot make sense of."""


class WireMessage(typing.NamedTuple):
    """A decoded message.

    Attributes:
      kind: what it is about.
      metadata: plain values that MessagePack can hold.
      arrays: views of the received bytes by name.
    """

    kind: str
    metadata: dict[str, typing.Any]
    arrays: dict[str, np.ndarray]


def encode_message(
    kind: str, metadata: Mapping[str, typing.Any], arrays: Mapping[str, np.ndarray] | None = None
) -> list:
    """Encode a message as frames: a MessagePack header, then the bytes of each array.

    Args:
      kind: what the message is about.
      metadata: plain values that MessagePack can hold.
      arrays: by name, of the types in `DTYPES`; contiguous ones are not copied.

    Returns:
      The header and one buffer for each array.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    specs = [[name, str(array.dtype), list(array.shape)] for name, array in arrays.items()]
    header = msgpack.packb([kind, dict(metadata), specs])
    return [header, *(array.reshape(-1).view(np.uint8).data for array in arrays.values())]


def decode_message(frames: Sequence[typing.Any]) -> WireMessage:
    """Decode frames into a message whose arrays are views of them.

    Args:
      frames: buffers, as `encode_message` makes them.

    Raises:
      MessageError: for anything that `encode_message` would not make.
    """
    if not frames or len(frames[0]) > MAX_HEADER_BYTES:
        raise MessageError("expected a header")
    try:
        kind, metadata, specs = msgpack.unpackb(frames[0])
        named = [(str(name), DTYPES[dtype], tuple(int(n) for n in shape)) for name, dtype, shape in specs]
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        raise MessageError(f"expected a header of kind, metadata and arrays ({error!r})") from None
    if not isinstance(kind, str) or not isinstance(metadata, dict) or len(named) != len(frames) - 1:
        raise MessageError("expected a kind, metadata, and one frame for each array")
    arrays = {}
    for (name, dtype, shape), frame in zip(named, frames[1:], strict=True):
        if min(shape, default=0) < 0 or len(frame) != dtype.itemsize * math.prod(shape):
            raise MessageError(f"array {name!r}: expected {dtype} of shape {shape}, found {len(frame)} bytes")
        arrays[name] = np.frombuffer(frame, dtype).reshape(shape)
    return WireMessage(kind, metadata, arrays)


def named_leaves(tree: typing.Any) -> dict[str, typing.Any]:
    """Return the leaves of a tree, keyed by the path to each."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def split_arrays(arrays: Mapping[str, np.ndarray], part_bytes: int) -> list[dict[str, np.ndarray]]:
    """Cut named arrays into messages of limited size.

    Args:
      arrays: by name, contiguous; they are not copied.
      part_bytes: most bytes of a part, at least one item of each type.

    Returns:
      Parts in order: flat slices by name, of one array or several small ones.
    """
    parts: list[dict[str, np.ndarray]] = [{}]
    room = part_bytes
    for name, array in arrays.items():
        flat, start = array.reshape(-1), 0
        while start < flat.size or name not in parts[-1]:
            count = min(flat.size - start, room // flat.itemsize)
            if flat.size and not count:
                parts.append({})
                room = part_bytes
                continue
            parts[-1][name] = flat[start : start + count]
            start, room = start + count, room - count * flat.itemsize
            if start == flat.size:
                break
    return parts


def join_arrays(parts: Iterable[Mapping[str, np.ndarray]], like: typing.Any) -> Iterator[tuple[str, np.ndarray]]:
    """Put together what `split_arrays` cut, array by array: a receiver never needs memory for all of them.

    Args:
      parts: in order; the next one is taken when all arrays that end in the last one were.
      like: a tree of arrays or shapes, which says what arrays there are.

    Yields:
      Each array with its name, as soon as it is whole.

    Raises:
      MessageError: if they are not those of `like`.
    """
    refused = MessageError("expected weights of the shape of this policy")
    expected = {name: (tuple(leaf.shape), np.dtype(leaf.dtype)) for name, leaf in named_leaves(like).items()}
    begun: dict[str, tuple[np.ndarray, int]] = {}
    for part in parts:
        for name, piece in part.items():
            if name not in expected or expected[name][1] != piece.dtype:
                raise refused
            shape, dtype = expected[name]
            flat, start = begun.get(name) or (np.empty(math.prod(shape), dtype), 0)
            if start + piece.size > flat.size:
                raise refused
            flat[start : start + piece.size] = piece
            begun[name] = flat, start + piece.size
            if start + piece.size == flat.size:
                del begun[name], expected[name]
                yield name, flat.reshape(shape)
    if expected:
        raise refused
