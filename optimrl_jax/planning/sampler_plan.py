"""Edge: what sampling takes on its devices: those of the learner by turns, or the actors' own.

The bytes of weights and caches follow from shapes; where the compiler of the target is installed, the very programs
that run a prompt and decode a block of tokens are compiled for devices that are not there.
"""

import dataclasses
import typing

import jax
import jax.numpy as jnp

from optimrl_jax.distributed import sampling_sharding, sharding
from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.model import adapters, decoder, kv_cache
from optimrl_jax.model.generation import continuous, sampling, slots, token_step
from optimrl_jax.planning import targets
from optimrl_jax.planning.compiled_program import read_program
from optimrl_jax.planning.kernel_traffic import moved_bytes
from optimrl_jax.settings import MeshSettings, Network, Settings

BLOCK = continuous.SlotPlan.block


@dataclasses.dataclass(frozen=True)
class SamplerPlan:
    """Where and how much is sampled at once.

    Attributes:
      mesh: of one sampler.
      is_apart: whether its devices are its own, and not the learner's by turns.
      slots: rollouts side by side on the mesh, refilled as they end; 0: `prompts` at once, all rollouts of each.
      prompts: prompts at once.
      policies: copies of the weights in the type of sampling, stacked or layer by layer, that lie there at once.
    """

    mesh: MeshSettings
    is_apart: bool
    slots: int
    prompts: int
    policies: int


def plan_sampler(settings: Settings) -> SamplerPlan | None:
    """Plan the sampler of a GRPO job; None where an engine or devices that no setting describes sample.

    Raises:
      SettingsError: if actors have no devices of their own.
    """
    data, actors, count = settings.data, settings.actors, settings.processes.count
    if settings.grpo.sampler or (actors.count and actors.live_in != "threads"):
        return None
    if not actors.count or not actors.device_share:
        # The policy that is sampled with, and its copy for decoding.
        mesh, problems = settings.mesh, -(-settings.grpo.problems // count)
        return SamplerPlan(mesh, False, _per_shares(data.slots, mesh), _per_shares(problems, mesh), 2)
    learners, each = settings.mesh.devices // count, max(1, actors.count // count)
    devices = max(1, round(learners * actors.device_share / (1 - actors.device_share))) // each
    if not devices:
        raise SettingsError(f"actors.count = {actors.count}: expected at most one for each device that samples")
    problems = actors.item_problems or -(-settings.grpo.problems // actors.count)
    # The same, and the weights that were published since.
    return SamplerPlan(MeshSettings(tensor=devices), True, data.slots, problems, 3)


def sampler_bytes(plan: SamplerPlan, settings: Settings) -> dict[str, float]:
    """Compute the bytes of weights and caches on one device while it samples.

    Caches hold the keys and values of every rollout up to its longest; a layer with a window holds no more than that.

    Returns:
      "policy_bytes", of the weights that are kept while the learner works; "decoding_bytes", of those that are there
      beside them while it samples; "cache_bytes".
    """
    model, data, mesh = settings.network, settings.data, plan.mesh
    params = adapters.frozen_base(decoder.abstract_params(model), model)
    one = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params))
    one /= mesh.fsdp * mesh.sequence * mesh.tensor
    capacity = data.prompt_tokens + data.completion_tokens
    shares = mesh.data * mesh.fsdp
    if plan.slots:
        columns = [plan.slots / shares * kv_cache.cache_columns(capacity, w) for w in decoder.layer_windows(model)]
    else:
        own = data.prompt_tokens + settings.grpo.rollouts * data.completion_tokens
        columns = [plan.prompts / shares * own] * model.layers
    column = 2 * model.kv_heads * model.head_width * jnp.dtype(model.compute.dtype).itemsize
    heads = mesh.tensor if model.kv_heads % mesh.tensor == 0 else 1
    return {
        "policy_bytes": (plan.policies - 1) * one,
        "decoding_bytes": one,
        "cache_bytes": column * sum(columns) / heads,
    }


def compile_sampler(plan: SamplerPlan, settings: Settings) -> dict[str, typing.Any]:
    """Compile what runs prompts and what decodes, for devices that are not there.

    Returns:
      "prefill_temporary_bytes" and "decode_temporary_bytes" of one device; "moved_per_token", bytes between a device
      and its memory for one token in every slot; "decode_kernels", the names of those that decoding uses. Where a batch
      is sampled at once, both are one program, and its prompts count as decoding.

    Raises:
      UserError: if the target has no slice of that many devices, or its compiler refuses.
    """
    mesh, network = targets.absent_mesh(settings.device.target, plan.mesh), settings.network
    shapes = adapters.frozen_base(decoder.abstract_params(network), network)
    params = _placed(shapes, sharding.param_shardings(mesh, shapes))
    if not plan.slots:
        compiled = _lower_generate(plan, params, settings, mesh).compile()
        prefill = 0
    else:
        compiled = _lower_advance(plan, params, settings, mesh).compile()
        prefill = _temporary_bytes(_lower_prefill(params, settings, mesh).compile(), settings)
    text = compiled.as_text() or ""
    # Decoding ends by the data: one turn of its loop is the step of one token.
    return {
        "prefill_temporary_bytes": prefill,
        "decode_temporary_bytes": _temporary_bytes(compiled, settings),
        "moved_per_token": moved_bytes(text, takes_constants=False),
        "decode_kernels": sorted(read_program(text).kernels),
    }


def _temporary_bytes(compiled: jax.stages.Compiled, settings: Settings) -> int:
    return targets.program_bytes(compiled, settings.device.target)["temporary_bytes"]


def _per_shares(number: int, mesh: MeshSettings) -> int:
    """Round up to what devices that hold different rows take equally many of."""
    shares = mesh.data * mesh.fsdp
    return -(-number // shares) * shares


def _lower_prefill(params: decoder.Params, settings: Settings, mesh: jax.sharding.Mesh) -> jax.stages.Lowered:
    whole = sharding.replicated(mesh)
    prompt = jax.ShapeDtypeStruct((settings.data.prompt_tokens,), jnp.int32, sharding=whole)
    length = jax.ShapeDtypeStruct((), jnp.int32, sharding=whole)
    with sampling_sharding.on_accelerators(params, rows=1):
        return slots.prefill_prompt.lower(params, settings.network, prompt=prompt, length=length)


def _lower_advance(
    plan: SamplerPlan, params: decoder.Params, settings: Settings, mesh: jax.sharding.Mesh
) -> jax.stages.Lowered:
    network, data = settings.network, settings.data
    empty = jax.eval_shape(
        lambda: slots.empty_slots(
            network,
            keys=jax.random.split(jax.random.key(0), 1),
            slots=plan.slots,
            prompt_tokens=data.prompt_tokens,
            steps=data.completion_tokens,
        )
    )
    placed = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sampling_sharding.sampling_place(mesh, x)), empty
    )
    with sampling_sharding.on_accelerators(params, rows=plan.slots):
        return slots.advance_slots.lower(
            placed,
            _unstacked(params, network, mesh),
            network,
            temperature=settings.grpo.temperature,
            waits=False,
            end_token=0,
            block=BLOCK,
        )


def _lower_generate(
    plan: SamplerPlan, params: decoder.Params, settings: Settings, mesh: jax.sharding.Mesh
) -> jax.stages.Lowered:
    data, rollouts = settings.data, settings.grpo.rollouts
    rows = sharding.row_sharding(mesh, axis=0)
    shape = plan.prompts, data.prompt_tokens
    keys = jax.eval_shape(lambda: sampling.row_keys(jax.random.key(0), jnp.arange(plan.prompts * rollouts)))
    with sampling_sharding.on_accelerators(params, rows=plan.prompts):
        return sampling.generate.lower(
            params,
            settings.network,
            prompts=jax.ShapeDtypeStruct(shape, jnp.int32, sharding=rows),
            prompt_mask=jax.ShapeDtypeStruct(shape, jnp.bool_, sharding=rows),
            keys=jax.ShapeDtypeStruct(keys.shape, keys.dtype, sharding=rows),
            temperature=settings.grpo.temperature,
            samples=rollouts,
            steps=data.completion_tokens,
            end_token=0,
        )


def _unstacked(params: decoder.Params, network: Network, mesh: jax.sharding.Mesh) -> decoder.Params:
    """Describe the weights layer by layer: each part lies as the stacked one does, without the axis of layers."""
    shapes = jax.eval_shape(lambda p: token_step.unstack_layers(p, network), params)
    layer = jax.tree.map(
        lambda x: jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*x.sharding.spec[1:])), params["layers"]
    )
    places = jax.tree.map(lambda x: x.sharding, {name: part for name, part in params.items() if name != "layers"})
    return _placed(shapes, {**places, "layers": (layer,) * network.layers})


def _placed(shapes: typing.Any, places: typing.Any) -> typing.Any:
    return jax.tree.map(lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), shapes, places)
