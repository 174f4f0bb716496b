"""Edge: what a job trains of its policy: all weights, or low-rank adapters beside frozen ones (`lora.rank`).

The workdir of a job with adapters has checkpoints of the adapters alone, and `lora.json`, which says whose weights they
belong beside: the source, and a digest by which other weights at the same place are noticed.
"""

import dataclasses
import functools
import hashlib
import json
import pathlib
import typing
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax

from optimrl_jax import arrays
from optimrl_jax.distributed import multihost, sharding
from optimrl_jax.jobs import files
from optimrl_jax.jobs.checked_fields import freeze, thaw
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model import adapters, decoder
from optimrl_jax.settings import LoraSettings, Network, Settings
from optimrl_jax.training.trainer import Loss, Trainer

LORA_FILE = "lora.json"
# Values along each axis of a parameter that a digest looks at.
DIGEST_VALUES = 4

ToPolicy = Callable[[decoder.Params], decoder.Params]


@dataclasses.dataclass(frozen=True)
class AdaptedBase:
    """The weights that adapters belong beside.

    Attributes:
      lora: rank, scale and adapted matrices.
      source: the weights, as `grpo.init_from` or `sft.init_from` named them.
      step: of the checkpoint, where the source is the workdir of a job.
      digest: of the weights (`weights_digest`).
    """

    lora: LoraSettings
    source: str
    step: int | None
    digest: str

    def check(self, base: decoder.Params) -> None:
        """Raise UserError where these are not the weights that the adapters were trained beside."""
        if weights_digest(base) != self.digest:
            at = "" if self.step is None else f"@{self.step}"
            raise UserError(f"{self.source}{at}: expected the weights that adapters were trained beside, found others")


def build_trainer(
    params: decoder.Params,
    network: Network,
    settings: Settings,
    *,
    loss: Loss,
    optimizer: optax.GradientTransformation,
    most_skipped: int,
) -> Trainer:
    """Build the trainer of a policy: of all its weights, or of new adapters beside them where `lora.rank` says so.

    Args:
      params: weights of the whole policy, on the host or on any devices.
      network: that of the policy.
      settings: those of the job.
      loss: (params, packed rows) -> what is minimized.
      optimizer: as `trainer.build_optimizer` makes it.
      most_skipped: see `Trainer`.
    """
    sharding.check_heads(settings.mesh, network, row_tokens=settings.data.row_tokens)
    build = functools.partial(
        Trainer,
        optimizer=optimizer,
        mesh=settings.mesh,
        micro_rows=settings.data.micro_rows,
        most_skipped=most_skipped,
    )
    if not settings.lora.rank:
        return build(params, loss=loss)
    first = adapters.initial_adapters(network, settings.lora, arrays.stream_key(settings.seed, "adapters"))
    base = adapters.frozen_base(params, network)
    return build(first, base, loss=adapters.adapted_loss(loss, settings.lora))


def require_start(settings: Settings) -> None:
    """Raise UserError where SFT names no weights and needs some: for its recipe, or for adapters to lie beside."""
    if settings.sft.init_from:
        return
    if settings.sft.needs_weights:
        raise UserError("sft.init_from = '': expected the published weights that this configuration starts from")
    if settings.lora.rank:
        raise UserError(f"lora.rank = {settings.lora.rank}: expected sft.init_from, the weights beside the adapters")


def policy_on_devices(trainer: Trainer, network: Network, lora: LoraSettings) -> ToPolicy | None:
    """Return a function from what is trained to the weights that are sampled with, on the mesh.

    They have the type of the computation: adapters are merged, and float32 weights are narrowed before they travel.
    None where both are the same arrays.
    """
    if not lora.rank:
        if jnp.dtype(network.compute.dtype) == jnp.float32:
            return None
        own = jax.tree.map(lambda x: x.sharding, trainer.state.params)
        return jax.jit(functools.partial(adapters.frozen_base, network=network), out_shardings=own)
    (base,) = trainer.frozen
    places = jax.tree.map(lambda x: x.sharding, base)
    merge = jax.jit(functools.partial(adapters.merge_adapters, lora=lora), out_shardings=places)
    return functools.partial(merge, base)


def write_base(workdir: pathlib.Path, lora: LoraSettings, source: str, step: int | None, base: decoder.Params) -> None:
    """Record in a workdir what its adapters belong beside; check it where it is recorded already.

    Args:
      workdir: that of the job.
      lora: rank, scale and adapted matrices.
      source: the weights, as a setting names them.
      step: of the checkpoint, where the source is the workdir of a job.
      base: the weights, on any devices.

    Raises:
      UserError: if the workdir holds adapters of other weights.
    """
    if (known := read_base(workdir)) is not None:
        known.check(base)
    found = AdaptedBase(lora, source, step, weights_digest(base))
    files.write_json(workdir / LORA_FILE, {**vars(found), "lora": thaw(lora)})


def read_base(workdir: pathlib.Path) -> AdaptedBase | None:
    """Read what the adapters of a workdir belong beside; None where all weights were trained.

    Raises:
      UserError: if the file is not what `write_base` writes.
    """
    path = workdir / LORA_FILE
    if not path.exists():
        return None
    try:
        values = json.loads(path.read_text())
        lora = freeze(LoraSettings, values.pop("lora"), path="lora.")
        return AdaptedBase(lora=lora, **values)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: expected the record of adapters ({error})") from None


def adapter_targets(network: typing.Any, lora: LoraSettings, mesh: jax.sharding.Mesh | None) -> decoder.Params:
    """Describe adapters: shapes, types and places, on a mesh or on the first device of this process."""
    shapes = adapters.abstract_adapters(network, lora)
    if mesh is None:
        here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here), shapes)
    places = sharding.param_shardings(mesh, shapes)
    return jax.tree.map(lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), shapes, places)


def weights_digest(params: decoder.Params) -> str:
    """Digest a few values of every parameter, rounded to bfloat16: the type they are kept in does not matter."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        every = tuple(slice(None, None, max(1, size // DIGEST_VALUES)) for size in leaf.shape)
        values = np.asarray(multihost.to_host_replicated(leaf[every])).astype(jnp.bfloat16)
        digest.update(f"{jax.tree_util.keystr(path)}{leaf.shape}".encode() + values.tobytes())
    return digest.hexdigest()
