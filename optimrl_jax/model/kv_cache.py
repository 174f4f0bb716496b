"""The cache of keys and values that decoding reads: for each layer a ring of columns, one after another in time.

A layer that sees everything has a column for every position that a rollout can reach; a layer with a window of `w`
positions has `w` columns, which later tokens overwrite. In both, position `p` lives in column `p % columns`: the
position of a row's newest token alone says what each of its columns holds, and every row can stand elsewhere.
"""

import typing

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from optimrl_jax.distributed import sharding
from optimrl_jax.settings import Network


class KeyValue(typing.NamedTuple):
    """Keys (rotated) and values of one layer, each laid out for the product that reads it.

    Attributes:
      key: `[s, kv_heads, head_width, columns]`, after a layer axis where there is one.
      value: `[s, kv_heads, columns, head_width]`, likewise.
    """

    key: Float[Array, "s m d u"]
    value: Float[Array, "s m u d"]

    @property
    def columns(self) -> int:
        """Number of columns: tokens that the cache holds."""
        return self.value.shape[-2]


# Columns that kernels take at once.
TILE = 512
# Where the columns of one layer stand: in its keys and in its values.
COLUMN_AXES = (3, 2)


def cache_columns(capacity: int, window: int) -> int:
    """Return the number of columns that a layer needs, long caches in whole tiles of the kernels that read them.

    Args:
      capacity: tokens that a rollout can reach, prompt included.
      window: positions that the layer sees.
    """
    whole = -(-capacity // TILE) * TILE if capacity > TILE else capacity
    return min(window, whole)


def empty_cache(settings: Network, *, rows: int, columns: int) -> KeyValue:
    """Return the cache of one layer, filled with zeros, in the compute type.

    Args:
      settings: key heads, their width and the compute type.
      rows: sequences that decode side by side.
      columns: tokens that each can hold.
    """
    outer, dtype = (rows, settings.kv_heads), jnp.dtype(settings.compute.dtype)
    return KeyValue(
        jnp.zeros((*outer, settings.head_width, columns), dtype),
        jnp.zeros((*outer, columns, settings.head_width), dtype),
    )


def held_positions(newest: Int[Array, " s"], columns: int) -> Int[Array, "s u"]:
    """Return the position that each column holds once position `newest` is written; negative where it is still empty.

    `newest - (newest - column) mod columns`: the last position up to the newest one that belongs in the column.

    Args:
      newest: `[s]`, position of each row's newest token.
      columns: columns of the ring.

    Returns:
      `[s, columns]`.
    """
    return newest[:, None] - (newest[:, None] - jnp.arange(columns)) % columns


def write_token(past: KeyValue, new: KeyValue, column: Int[Array, " *s"] | int) -> KeyValue:
    """Write one token of each row into its cache.

    Args:
      past: the cache of one layer, `s` rows.
      new: keys and values with a single column.
      column: the column to write: one for all rows, or `[s]`, one for each.

    Returns:
      The cache with the new token.
    """
    if jnp.ndim(column) == 0:
        parts = [
            jax.lax.dynamic_update_slice_in_dim(old, part.astype(old.dtype), column, axis=axis)
            for old, part, axis in zip(past, new, COLUMN_AXES, strict=True)
        ]
        return KeyValue(*parts)
    column = jnp.asarray(column)
    if sharding.traced_platform() == "tpu":
        # A scatter there wants another layout than the kernel that reads: each token would copy the caches twice.
        parts = KeyValue._make(("keys", "values"))
        return sharding.map_devices(write_rows_in_turn, inputs=(parts, parts, "rows"), outputs=parts)(past, new, column)
    rows = jnp.arange(len(column))
    return KeyValue(
        past.key.at[rows, :, :, column].set(new.key[..., 0]), past.value.at[rows, :, column].set(new.value[:, :, 0])
    )


def write_rows_in_turn(past: KeyValue, new: KeyValue, column: Int[Array, " s"]) -> KeyValue:
    """Write what `write_token` writes in place and one row after another, in whatever layout the caches have.

    Args:
      past: the cache of one layer, `s` rows.
      new: keys and values with a single column.
      column: `[s]`, the column to write in each row.
    """

    def write(row: Int[Array, ""], past: KeyValue) -> KeyValue:
        starts = (row, 0, 0, column[row]), (row, 0, column[row], 0)
        parts = (jax.lax.dynamic_slice_in_dim(part, row, 1) for part in new)
        return KeyValue(
            *(
                jax.lax.dynamic_update_slice(old, part.astype(old.dtype), start)
                for old, part, start in zip(past, parts, starts, strict=True)
            )
        )

    return jax.lax.fori_loop(0, len(column), write, past)


def ring_of_prompt(prompt: KeyValue, length: Int[Array, ""], columns: int) -> KeyValue:
    """Place the keys and values of a prompt where they belong in a ring of `columns`.

    Of a prompt longer than the ring, only the last `columns` of its `length` tokens stay. A shorter one fills the
    columns from the first on, its right padding included: `held_positions` calls those empty until a token is written
    there.

    Args:
      prompt: keys and values of a prompt that is padded on the right.
      length: its tokens without padding.
      columns: columns of the ring.

    Returns:
      At most `columns` columns.
    """
    if prompt.columns <= columns:
        return prompt
    wanted = jnp.maximum(held_positions(length[None] - 1, columns)[0], 0)
    return KeyValue(*(jnp.take(part, wanted, axis=axis) for part, axis in zip(prompt, COLUMN_AXES, strict=True)))


def copy_row(past: KeyValue, row: KeyValue, slot: Int[Array, ""]) -> KeyValue:
    """Copy a single row into the first columns of row `slot`.

    Args:
      past: the cache of one layer.
      row: one row of at most as many columns.
      slot: the row that is overwritten.
    """
    start = (slot, 0, 0, 0)
    return KeyValue(
        *(jax.lax.dynamic_update_slice(old, part.astype(old.dtype), start) for old, part in zip(past, row, strict=True))
    )
