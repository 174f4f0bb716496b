"""Edge: loads a policy to sample from it, straight onto all devices of this process: no device ever holds all of it.

For evaluation and serving, which have no learner and so no mesh of one.
"""

import math
import pathlib
import typing
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import Mesh

from optimrl_jax.distributed import sharding
from optimrl_jax.model.pretrained import published
from optimrl_jax.settings import ComputeSettings, ModelSettings
from optimrl_jax.training import checkpoints, workdir


def load_to_sample(source: str, compute: ComputeSettings, *, step: int | None = None) -> checkpoints.Policy:
    """Load what another job left, or published weights, onto the devices of this process.

    Args:
      source: a workdir or weights, as in `grpo.init_from`.
      compute: how the decoder is computed.
      step: number of the checkpoint; the newest if None.

    Raises:
      UserError: if there is no such policy.
    """
    return checkpoints.load_start(source, compute, step=step, mesh=_mesh_for(source))


def sampling_mesh(model: ModelSettings, devices: Sequence[typing.Any]) -> Mesh | None:
    """Build a mesh for sampling: heads over as many devices as divide those of keys, rows and weights over the rest.

    Args:
      model: shape of the decoder.
      devices: those of this process.

    Returns:
      The mesh; None for a single device, or where the devices do not divide the width of the decoder.
    """
    tensor = math.gcd(model.kv_heads, len(devices))
    fsdp = len(devices) // tensor
    if len(devices) == 1 or model.width % fsdp or model.vocabulary % tensor or model.mlp_width % tensor:
        return None
    shape = 1, fsdp, 1, tensor
    return Mesh(np.array(devices).reshape(shape), sharding.AXES, axis_types=sharding.AXIS_TYPES)


def _mesh_for(source: str) -> Mesh | None:
    is_published = published.names_published_weights(source)
    shape = published.read_shape(source) if is_published else workdir.read_model(pathlib.Path(source))
    return sampling_mesh(shape, jax.local_devices())
