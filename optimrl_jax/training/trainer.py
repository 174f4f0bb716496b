"""One optimizer step over packed microbatches: gradients summed, clipped and applied, or skipped if not finite.

Compiled once: the number of microbatches that hold anything is traced, the arrays always have one shape.
"""

import functools
import typing
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from optimrl_jax.data.packing import Packed
from optimrl_jax.distributed import multihost, sharding
from optimrl_jax.model import decoder
from optimrl_jax.settings import MeshSettings
from optimrl_jax.training.objectives import Sums

# (parameters that are trained, packed rows, and the parameters that are not, where there are any) -> loss and sums.
Loss = Callable[..., tuple[Float[Array, ""], Sums]]


class TrainState(typing.NamedTuple):
    """Everything that an update replaces.

    Attributes:
      params: weights that are trained: all of the policy's, or the adapters beside frozen ones.
      optimizer: moments and counters of the optimizer.
      step: int32 scalar, the number of updates that were applied.
    """

    params: decoder.Params
    optimizer: optax.OptState
    step: Int[Array, ""]


class Recipe(typing.Protocol):
    """The fields that SFT and GRPO settings share; `settings.GrpoSettings` gives their meaning and units."""

    @property
    def steps(self) -> int: ...

    @property
    def learning_rate(self) -> float: ...

    @property
    def warmup_steps(self) -> int: ...

    @property
    def weight_decay(self) -> float: ...

    @property
    def max_grad_norm(self) -> float: ...


def build_optimizer(recipe: Recipe, *, ends_at: float) -> optax.GradientTransformation:
    """Build AdamW behind global-norm clipping, with linear warm-up and then a cosine decay.

    Norm scales and biases are not decayed.

    Args:
      recipe: steps, peak rate, warm-up, decay and clipping norm.
      ends_at: share of the peak rate at the last step; 1 keeps the rate constant after the warm-up.
    """
    return optax.chain(
        optax.clip_by_global_norm(recipe.max_grad_norm),
        optax.adamw(_schedule(recipe, ends_at=ends_at), b2=0.95, weight_decay=recipe.weight_decay, mask=_is_decayed),
    )


def _schedule(recipe: Recipe, *, ends_at: float) -> optax.Schedule:
    return optax.warmup_cosine_decay_schedule(
        init_value=0.0 if recipe.warmup_steps else recipe.learning_rate,
        peak_value=recipe.learning_rate,
        warmup_steps=recipe.warmup_steps,
        decay_steps=max(recipe.steps, recipe.warmup_steps + 1),
        end_value=recipe.learning_rate * ends_at,
    )


def initial_state(params: decoder.Params, optimizer: optax.GradientTransformation) -> TrainState:
    """Build the training state before the first update; the parameters are used as they are, not copied."""
    return TrainState(params, optimizer.init(params), jnp.int32(0))


def current_rate(state: TrainState, recipe: Recipe, *, ends_at: float) -> float:
    """Return the learning rate of the next update of a state that `build_optimizer` moves with the same arguments."""
    return float(np.asarray(_schedule(recipe, ends_at=ends_at)(int(state.step))))


def update(
    state: TrainState,
    batch: Packed,
    used: Int[Array, ""],
    normalizer: Float[Array, ""],
    *frozen: decoder.Params,
    loss: Loss,
    optimizer: optax.GradientTransformation,
    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
) -> tuple[TrainState, Sums]:
    """Take one optimizer step.

    Gradients are summed over the first `used` microbatches and divided by `normalizer`. Where their norm is not finite
    the state comes back unchanged and "is_finite" is 0.

    Args:
      state: to be replaced.
      batch: packed rows `[m, s, t]`.
      used: number of microbatches, from the first, that hold anything.
      normalizer: divides the summed gradients, such as the fixed token horizon.
      *frozen: parameters that are not trained, if there are any: no gradients, no moments.
      loss: (params, packed rows `[s, t]`, *frozen) -> the scalar to minimize, and sums to report.
      optimizer: as `build_optimizer` makes it.
      mesh: devices of the step.

    Returns:
      The next state, and the sums of `loss` over the batch (not divided) with "grad_norm" and "is_finite".
    """
    with sharding.on_mesh(mesh):
        summed = sharding.sum_over_data(functools.partial(_gradients, loss=loss), mesh)
        grads, sums = summed((state.params, frozen), batch, used)
    grads = jax.tree.map(lambda g: g / normalizer, grads)
    norm = optax.global_norm(grads)
    is_finite = jnp.isfinite(norm)
    changes, moments = optimizer.update(grads, state.optimizer, state.params)
    params = typing.cast(decoder.Params, optax.apply_updates(state.params, changes))
    following = TrainState(params, moments, state.step + 1)
    kept = jax.tree.map(lambda new, old: jnp.where(is_finite, new, old), following, state)
    return kept, {**sums, "grad_norm": norm, "is_finite": is_finite.astype(jnp.float32)}


def _gradients(
    params: tuple[decoder.Params, tuple[decoder.Params, ...]], batch: Packed, used: Int[Array, ""], *, loss: Loss
) -> tuple[decoder.Params, Sums]:
    """Sum gradients of trained parameters (beside frozen ones) and figures over the first `used` microbatches."""
    trained, frozen = params

    def add(index: Int[Array, ""], total: tuple) -> tuple:
        rows = jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, index, keepdims=False), batch)
        # Compilers move out of a loop what is the same in all turns: all weights cast, and the table of the head
        # gathered, would take memory all the time.
        (own, *beside), rows = jax.lax.optimization_barrier(((trained, *frozen), rows))
        (_, sums), grads = jax.value_and_grad(loss, has_aux=True)(own, rows, *beside)
        return jax.tree.map(jnp.add, total, (grads, sums))

    first = jax.tree.map(lambda x: x[0], batch)
    shapes = jax.eval_shape(loss, trained, first, *frozen)[1]
    zeros = jax.tree.map(jnp.zeros_like, trained), jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return jax.lax.fori_loop(0, used, add, zeros)


def compile_update(
    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    placed: typing.Any,
    *frozen: typing.Any,
    loss: Loss,
    optimizer: optax.GradientTransformation,
) -> typing.Any:
    """Wrap `update` in `jit`, for states on their places and batches split by rows.

    Args:
      mesh: devices of the step; an abstract mesh serves to trace and lower.
      placed: shardings of the training state, which is donated.
      *frozen: shardings of parameters that are not trained, which stay.
      loss: see `update`.
      optimizer: see `update`.

    Returns:
      A function of (state, batch, used, normalizer, *frozen), compiled at its first call.
    """
    whole = sharding.replicated(mesh)
    return jax.jit(
        functools.partial(update, loss=loss, optimizer=optimizer, mesh=mesh),
        in_shardings=(placed, sharding.row_sharding(mesh, axis=1), whole, whole, *frozen),
        out_shardings=(placed, whole),
        donate_argnums=0,
    )


class DivergedError(ValueError):
    """Too many updates in a row without a finite gradient: the run cannot recover by itself."""


class Trainer:
    """A training state on its mesh and the one compiled update that moves it.

    Args:
      params: to start from, on the host or on any devices; copied.
      *frozen: parameters that are not trained; used as they are where they lie on the mesh.
      loss: see `update`.
      optimizer: as `build_optimizer` makes it.
      mesh: devices along each axis.
      micro_rows: rows of a microbatch, over all processes.
      most_skipped: updates in a row without a finite gradient after which `step` gives up.

    Attributes:
      state: the current training state; replaced, and its arrays donated, by every step.
      frozen: the parameters that are not trained, on the mesh; empty where all are.
      skipped_in_a_row: updates without a finite gradient since the last one that had one.

    Raises:
      SettingsError: if the mesh does not fit the devices, the rows or the shape of the policy.
    """

    def __init__(
        self,
        params: decoder.Params,
        *frozen: decoder.Params,
        loss: Loss,
        optimizer: optax.GradientTransformation,
        mesh: MeshSettings,
        micro_rows: int,
        most_skipped: int,
    ) -> None:
        self._mesh = sharding.build_mesh(mesh, micro_rows=micro_rows)
        placed = sharding.param_shardings(self._mesh, jax.eval_shape(lambda: initial_state(params, optimizer)))
        # A copy, because the update donates its state while the caller goes on using its parameters.
        copied = jax.jit(lambda p: initial_state(jax.tree.map(jnp.copy, p), optimizer), out_shardings=placed)
        self.state: TrainState = copied(_on_places(params, placed.params))
        frozen_places = [sharding.param_shardings(self._mesh, tree) for tree in frozen]
        self.frozen = tuple(_on_places(tree, places) for tree, places in zip(frozen, frozen_places, strict=True))
        self._update = compile_update(self._mesh, placed, *frozen_places, loss=loss, optimizer=optimizer)
        self._most_skipped = most_skipped
        self.skipped_in_a_row = 0

    def step(
        self, batch: Packed, used: int, *, normalizer: float, place: multihost.PlaceBatch = multihost.from_local_shards
    ) -> dict[str, float]:
        """Apply one update and return the sums of the loss over all processes.

        Args:
          batch: packed rows `[m, s, t]` of this process, or of all of them, see `place`.
          used: microbatches that hold anything; the largest number of any process counts.
          normalizer: divides the gradients; equal in all processes.
          place: makes arrays over all devices of the batch: `multihost.from_local_shards` where each process brings its
            own rows, `multihost.from_replicated` where all bring the same.

        Returns:
          The sums of the loss by name, with "grad_norm" and "is_finite" (0 where the update was skipped).

        Raises:
          DivergedError: after `most_skipped` updates skipped in a row.
        """
        batch = place(batch, sharding.row_sharding(self._mesh, axis=1))
        numbers = multihost.to_host_replicated((jnp.int32(multihost.global_max(used)), jnp.float32(normalizer)))
        self.state, sums = self._update(self.state, batch, *numbers, *self.frozen)
        found = {name: float(value) for name, value in jax.device_get(sums).items()}
        self.skipped_in_a_row = 0 if found["is_finite"] else self.skipped_in_a_row + 1
        if self.skipped_in_a_row >= self._most_skipped:
            raise DivergedError(
                f"{self.skipped_in_a_row} updates in a row had no finite gradient: expected a smaller learning_rate"
            )
        return found


def _on_places(params: decoder.Params, places: typing.Any) -> decoder.Params:
    """Move parameters to their places; those that were read onto this mesh lie there already."""
    pairs = zip(*map(jax.tree.leaves, (params, places)), strict=True)
    if all(getattr(leaf, "sharding", None) == place for leaf, place in pairs):
        return params
    return jax.device_put(multihost.to_host_replicated(params), places)


def _is_decayed(params: decoder.Params) -> typing.Any:
    def decays(path: tuple, _: Array) -> bool:
        name = path[-1].key
        return name != "scale" and not name.endswith("bias")

    return jax.tree_util.tree_map_with_path(decays, params)
