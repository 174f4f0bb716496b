"""Random streams: one seed, and a named constant and numbers folded into it for everything that draws."""

import zlib

import jax


def key(seed: int, name: str, *numbers: int) -> jax.Array:
    """The key of the stream `name`, further split by `numbers` (a step, a batch)."""
    stream = jax.random.fold_in(jax.random.key(seed), zlib.crc32(name.encode()))
    for number in numbers:
        stream = jax.random.fold_in(stream, number)
    return stream
