"""What travels between a learner and actors of other processes: one small header and raw arrays, never code.

Pure: messages to frames of bytes and back, and the check that groups from elsewhere are what they should be. Whatever
does not fit raises MessageError; nothing is trusted because it arrived.
"""

import hashlib
import json
import math
import typing
from collections.abc import Mapping, Sequence

import jax
import ml_dtypes
import msgpack
import numpy as np

from optimrl_jax.learner import queue
from optimrl_jax.settings import Settings, thaw

DTYPES = {
    str(np.dtype(kind)): np.dtype(kind)
    for kind in (np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.int8, np.uint32, np.bool_)
}
MOST_HEADER_BYTES = 1 << 20


class MessageError(ValueError):
    """A message that says nothing this side understands."""


class Message(typing.NamedTuple):
    """`kind` says what it is about, `facts` are plain values, `arrays` travel without being copied."""

    kind: str
    facts: dict[str, typing.Any]
    arrays: dict[str, np.ndarray]


def packed(kind: str, facts: Mapping[str, typing.Any], arrays: Mapping[str, np.ndarray] | None = None) -> list:
    """The frames of a message: a MessagePack header, then the bytes of each array."""
    arrays = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    specs = [[name, str(array.dtype), list(array.shape)] for name, array in arrays.items()]
    header = msgpack.packb([kind, dict(facts), specs])
    return [header, *(array.reshape(-1).view(np.uint8).data for array in arrays.values())]


def unpacked(frames: Sequence[typing.Any]) -> Message:
    """The message of some frames (buffers); arrays are views of them. Raises MessageError."""
    if not frames or len(frames[0]) > MOST_HEADER_BYTES:
        raise MessageError("expected a header")
    try:
        kind, facts, specs = msgpack.unpackb(frames[0])
        named = [(str(name), DTYPES[dtype], tuple(int(n) for n in shape)) for name, dtype, shape in specs]
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        raise MessageError(f"expected a header of kind, facts and arrays ({error!r})") from None
    if not isinstance(kind, str) or not isinstance(facts, dict) or len(named) != len(frames) - 1:
        raise MessageError("expected a kind, facts, and one frame for each array")
    arrays = {}
    for (name, dtype, shape), frame in zip(named, frames[1:], strict=True):
        if min(shape, default=0) < 0 or len(frame) != dtype.itemsize * math.prod(shape):
            raise MessageError(f"array {name!r}: expected {dtype} of shape {shape}, found {len(frame)} bytes")
        arrays[name] = np.frombuffer(frame, dtype).reshape(shape)
    return Message(kind, facts, arrays)


def named_leaves(tree: typing.Any) -> dict[str, typing.Any]:
    """The leaves of a tree by the path to each."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def tree_like(like: typing.Any, arrays: Mapping[str, np.ndarray]) -> typing.Any:
    """Named leaves put back into the form of `like`; raises MessageError where names, shapes or types differ."""
    expected = {name: (tuple(leaf.shape), np.dtype(leaf.dtype)) for name, leaf in named_leaves(like).items()}
    if {name: (array.shape, array.dtype) for name, array in arrays.items()} != expected:
        raise MessageError("expected weights of the shape of this policy")
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in expected])


def groups_of(arrays: Mapping[str, np.ndarray], *, settings: Settings, vocabulary: int, step: int) -> list[queue.Group]:
    """Groups from elsewhere; raises MessageError unless they could come from an actor of this very run."""
    r, t = settings.grpo.rollouts, settings.data.prompt_tokens + settings.data.completion_tokens
    expected = {"tokens": (r, t), "is_completion": (r, t), "log_prob": (r, t), "policy_version": (r,)}
    expected |= dict.fromkeys(("reward", "is_valid", "is_correct", "is_fast"), (r,))
    expected |= dict.fromkeys(("problem", "batch", "place"), ())
    number = arrays["problem"].size if "problem" in arrays else 0
    shapes = {name: (number, *shape) for name, shape in expected.items()}
    if not number or {name: array.shape for name, array in arrays.items()} != shapes:
        raise MessageError(f"expected groups of {r} rollouts of {t} tokens")
    kinds = {name: np.dtype(np.bool_ if name.startswith("is_") else np.int32) for name in expected}
    kinds |= {name: np.dtype(np.float32) for name in ("log_prob", "reward")}
    if {name: array.dtype for name, array in arrays.items()} != kinds:
        raise MessageError("expected groups with the types of this version")
    _check_range("tokens", arrays["tokens"], 0, vocabulary - 1)
    _check_range("policy_version", arrays["policy_version"], 0, step)
    if not arrays["is_completion"].any(axis=2).all() or not np.isfinite(arrays["reward"][arrays["is_valid"]]).all():
        raise MessageError("expected sampled tokens in every rollout and finite rewards")
    return queue.unstacked(arrays)


def job_id(settings: Settings, problems: Sequence[str]) -> str:
    """What learner and actors must agree on: everything that decides what a rollout is and what it earns."""
    values = thaw(settings)
    shared = {name: values[name] for name in ("seed", "environment", "reward", "noise")}
    shared["data"] = [settings.data.prompt_tokens, settings.data.completion_tokens]
    shared["grpo"] = [settings.grpo.rollouts, settings.grpo.temperature]
    shared["sandbox"] = [settings.sandbox.limit_s, settings.sandbox.repeats, settings.sandbox.duration]
    return hashlib.sha256(json.dumps([shared, list(problems)]).encode()).hexdigest()


def _check_range(name: str, values: np.ndarray, low: int, high: int) -> None:
    if values.min() < low or values.max() > high:
        raise MessageError(f"{name}: expected values in [{low}, {high}]")
