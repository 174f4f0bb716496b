"""The cache of keys and values that decoding reads: for each layer a ring of columns, one after another in time.

A layer that sees everything has a column for every position that a rollout can reach; a layer with a window of `w`
positions has `w` columns, which later tokens overwrite. In both, position `p` lives in column `p % columns`: the
position of a row's newest token alone says what each of its columns holds, and every row can stand elsewhere.
"""

import typing

import jax
import jax.numpy as jnp

from optimrl_jax.settings import ModelSettings

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Float, Int


class KeyValue(typing.NamedTuple):
    """Keys (rotated) and values of one layer, each laid out for the product that reads it.

    [s, kv_heads, head_width, columns] and [s, kv_heads, columns, head_width], behind a layer axis where there is one.
    """

    key: "Float[Array, 's m d u']"
    value: "Float[Array, 's m u d']"

    @property
    def columns(self) -> int:
        return self.value.shape[-2]


# Where the columns of one layer stand.
COLUMN_AXES = KeyValue(3, 2)


def columns(capacity: int, window: int) -> int:
    """Columns of a layer that sees `window` positions, for rollouts of at most `capacity` tokens."""
    return min(window, capacity)


def empty(settings: ModelSettings, *, rows: int, columns: int) -> KeyValue:
    outer, dtype = (rows, settings.kv_heads), jnp.dtype(settings.compute_dtype)
    return KeyValue(
        jnp.zeros((*outer, settings.head_width, columns), dtype),
        jnp.zeros((*outer, columns, settings.head_width), dtype),
    )


def held(newest: "Int[Array, 's']", columns: int) -> "Int[Array, 's u']":
    """Position that each column holds once position `newest` is written; negative where nothing is yet.

    `newest - (newest - column) mod columns`: the last position up to the newest one that belongs into the column.
    """
    return newest[:, None] - (newest[:, None] - jnp.arange(columns)) % columns


def write(past: KeyValue, new: KeyValue, column: "Int[Array, '*s']") -> KeyValue:
    """The cache with one token a row, a single column of both, in one column for all rows or one for each."""
    if jnp.ndim(column) == 0:
        parts = [
            jax.lax.dynamic_update_slice_in_dim(old, part.astype(old.dtype), column, axis=axis)
            for old, part, axis in zip(past, new, COLUMN_AXES, strict=True)
        ]
        return KeyValue(*parts)
    rows = jnp.arange(len(column))
    return KeyValue(
        past.key.at[rows, :, :, column].set(new.key[..., 0]), past.value.at[rows, :, column].set(new.value[:, :, 0])
    )


def ring(prompt: KeyValue, length: "Int[Array, '']", columns: int) -> KeyValue:
    """The first columns of the ring after a prompt of p columns: keys and values where they belong.

    Of a prompt longer than the ring only the last `columns` of its `length` tokens stay. A shorter one fills the
    columns from the first on, its right padding too: `held` calls those empty until a token is written there.
    """
    if prompt.columns <= columns:
        return prompt
    wanted = jnp.maximum(held(length[None] - 1, columns)[0], 0)
    return KeyValue(*(jnp.take(part, wanted, axis=axis) for part, axis in zip(prompt, COLUMN_AXES, strict=True)))


def copy_row(past: KeyValue, row: KeyValue, slot: "Int[Array, '']") -> KeyValue:
    """The cache with `row`, one row of at most as many columns, in the first columns of row `slot`."""
    start = (slot, 0, 0, 0)
    return KeyValue(
        *(jax.lax.dynamic_update_slice(old, part.astype(old.dtype), start) for old, part in zip(past, row, strict=True))
    )
