"""Edge: `--dry_run` of SFT and GRPO: what a step would cost on the devices of the mesh, none of them needed.

The very update that a run compiles is traced on an abstract mesh, which finds names without a sharding rule, axes that
do not divide and sequences longer than a row. Where the compiler of `device.target` is installed, the update is
compiled for it: memory and traffic are then those of the program that would run. Without it they are traced.
Shapes, shardings, bytes, tokens and seconds are printed and written to `summary.json`; a step that does not fit ends
with one line and code 2. Nothing is allocated and no data is read.
"""

import dataclasses
import functools
import math
import pathlib
import typing

import jax
import jax.numpy as jnp

from optimrl_jax import environment, rewards
from optimrl_jax.data import corpus, packing
from optimrl_jax.distributed import multihost, sharding
from optimrl_jax.grpo import loop
from optimrl_jax.grpo import rows as rows_lib
from optimrl_jax.jobs.command_line import Job
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.jobs.user_code import names_function
from optimrl_jax.model import adapters, decoder
from optimrl_jax.model.pretrained import published
from optimrl_jax.planning import cost_model, report, sampler_plan, targets
from optimrl_jax.planning.compiled_program import Program, array_bytes, read_program
from optimrl_jax.planning.kernel_traffic import moved_bytes
from optimrl_jax.settings import LoraSettings, ModelSettings, Network, Settings
from optimrl_jax.training import adaptation, objectives, trainer, workdir

# What only a device that samples holds.
SAMPLING = ("policy_bytes", "decoding_bytes", "cache_bytes", "prefill_temporary_bytes", "decode_temporary_bytes")


@dataclasses.dataclass(frozen=True)
class Update:
    """What is lowered, and the size of a step.

    Attributes:
      title: of the report.
      objective: builds the loss of a network.
      per_token: names of the per-token values that the loss reads.
      optimizer: of the recipe.
      longest: tokens of the longest sequence.
      tokens: most tokens of a step.
      microbatches: most microbatches of a step.
      is_budget: whether `tokens` is used up whatever the lengths are.
      shared: first tokens that `members` sequences at a time process together.
      members: sequences that do so.
      sampler: where rollouts are sampled, if on devices that the settings describe.
      lora: adapters that are trained in place of all weights, where its rank is not 0.
    """

    title: str
    objective: typing.Callable[[Network], trainer.Loss]
    per_token: tuple[str, ...]
    optimizer: typing.Any
    longest: int
    tokens: int
    microbatches: int
    is_budget: bool = False
    shared: int = 0
    members: int = 1
    sampler: sampler_plan.SamplerPlan | None = None
    lora: LoraSettings = LoraSettings()

    def loss(self, model: Network) -> trainer.Loss:
        """Return the loss that the update differentiates: of (trained, rows), or of (adapters, rows, base)."""
        objective = self.objective(model)
        return adapters.adapted_loss(objective, self.lora) if self.lora.rank else objective

    def weights(self, model: Network) -> tuple[decoder.Params, ...]:
        """Return the shapes of what is trained, and of what lies beside it unchanged, if anything does."""
        params = decoder.abstract_params(model)
        if not self.lora.rank:
            return (params,)
        return adapters.abstract_adapters(model, self.lora), adapters.frozen_base(params, model)


def plan_sft(settings: Settings) -> Update:
    """Plan the update of an SFT job.

    Raises:
      SettingsError: if a row is shorter than the longest sequence.
    """
    recipe, data = settings.sft, settings.data
    longest = data.row_tokens if recipe.mix else data.prompt_tokens + data.completion_tokens
    return Update(
        "SFT",
        lambda model: functools.partial(objectives.supervised, settings=model),
        ("weight",),
        trainer.build_optimizer(recipe, ends_at=0.1),
        longest,
        recipe.batch_tokens if recipe.mix and recipe.batch_tokens else recipe.batch * longest,
        corpus.sft_microbatches(settings),
        is_budget=bool(recipe.mix and recipe.batch_tokens),
        lora=settings.lora,
    )


def plan_grpo(settings: Settings) -> Update:
    """Plan the update of a GRPO job.

    Raises:
      SettingsError: if a row is shorter than the longest prompt and completion.
    """
    data, sequences = settings.data, settings.grpo.problems * settings.grpo.rollouts
    longest = data.prompt_tokens + data.completion_tokens
    shared, members = rows_lib.prefix_sharing(settings.grpo, data)
    return Update(
        "GRPO",
        lambda model: loop.objective(model, settings.grpo),
        ("weight", "advantage", "log_prob"),
        trainer.build_optimizer(settings.grpo, ends_at=1.0),
        longest,
        settings.grpo.batch_tokens or sequences * longest,
        rows_lib.max_microbatches(settings.grpo, data),
        is_budget=bool(settings.grpo.batch_tokens),
        shared=shared,
        members=members,
        sampler=sampler_plan.plan_sampler(settings),
        lora=settings.lora,
    )


def sft(job: Job) -> None:
    """Run `python -m optimrl_jax.sft` dry: report what a step would cost.

    Raises:
      UserError: if the settings cannot be run, or the step does not fit the memory of a device.
    """
    multihost.check_even_shares(job.settings, shared=multihost.SHARED_IN_SFT)
    adaptation.require_start(job.settings)
    _report(job, plan_sft, start=job.settings.sft.init_from)


def grpo(job: Job) -> None:
    """Run `python -m optimrl_jax.train` dry: report what a step would cost.

    Raises:
      UserError: if the settings cannot be run, name an unknown environment or reward, or the step does not fit.
    """
    multihost.check_even_shares(job.settings, shared=multihost.SHARED_IN_GRPO)
    _check_names(job.settings)
    _report(job, plan_grpo, start=job.settings.grpo.init_from)


def update_costs(planned: Update, settings: Settings) -> tuple[list[cost_model.ParameterLine], dict[str, float]]:
    """Compute what one update of a planned job costs, compiling it where the compiler of the target is installed.

    Returns:
      The parameters with their shardings, and figures by name: bytes on one device, tokens, operations and seconds.

    Raises:
      SettingsError: if the update cannot run on the mesh.
    """
    data, device, model = settings.data, settings.device, settings.network
    sharding.check_heads(settings.mesh, model, row_tokens=data.row_tokens)
    target = targets.TARGETS[device.target]
    mesh = sharding.build_abstract_mesh(settings.mesh, micro_rows=data.micro_rows)
    state, *frozen = _placed_weights(planned, model, mesh=mesh)
    if targets.has_compiler(device.target):
        parts = compile_update(planned, settings)
    else:
        parts = trace_update(planned, settings)
    kept = cost_model.device_bytes((state, *frozen))
    parts |= _sampler_parts(planned.sampler, settings) if planned.sampler else {}
    totals = _totals(parts, kept=kept, sampler=planned.sampler)
    trained = sum(leaf.size for leaf in jax.tree.leaves(state.params))
    lines = [line for tree in (*frozen, state.params) for line in cost_model.parameter_lines(tree)]
    typical = planned.longest * device.length_share
    # A budget of tokens is used up whatever the lengths are.
    tokens = planned.tokens * (1.0 if planned.is_budget else device.length_share)
    shared = planned.shared * device.length_share
    flops = cost_model.update_flops(
        model,
        sequences=tokens / typical,
        tokens=typical,
        shared=shared,
        members=planned.members,
        trains_all=not frozen,
    )
    return lines, {
        "devices": mesh.size,
        "parameters": sum(math.prod(line.shape) for line in lines),
        "trained_parameters": trained,
        **parts,
        **totals,
        "memory_share": totals["total_bytes"] / target.memory_bytes,
        "most_tokens_per_step": planned.tokens,
        "tokens_per_step": tokens,
        "most_microbatches": planned.microbatches,
        "flops_per_step": flops,
        **_roofline(planned, parts, settings, flops=flops, tokens=tokens),
    }


def _sampler_parts(sampler: sampler_plan.SamplerPlan, settings: Settings) -> dict[str, typing.Any]:
    found: dict[str, typing.Any] = sampler_plan.sampler_bytes(sampler, settings)
    if targets.has_compiler(settings.device.target):
        found |= sampler_plan.compile_sampler(sampler, settings)
    return found


def _totals(parts: dict[str, typing.Any], *, kept: float, sampler: sampler_plan.SamplerPlan | None) -> dict[str, float]:
    """Sum what lies on a device at once: in an update, and while it samples, which on shared devices come in turns.

    Args:
      parts: bytes by name, those of the update and those of the sampler.
      kept: bytes of the state and of frozen weights, which a device of the learner holds always.
      sampler: see `Update`.
    """
    own = {name: count for name, count in parts.items() if name.endswith("_bytes") and not name.startswith("sent_")}
    sampling = {name: own.pop(name) for name in SAMPLING if name in own}
    update = sum(own.values())
    if sampler is None:
        return {"update_total_bytes": update, "total_bytes": update}
    temporary = max(sampling.pop("prefill_temporary_bytes", 0), sampling.pop("decode_temporary_bytes", 0))
    at_once = sum(sampling.values()) + temporary
    if not sampler.is_apart:
        update, at_once = update + sampling["policy_bytes"], at_once + kept
    return {"update_total_bytes": update, "sampling_total_bytes": at_once, "total_bytes": max(update, at_once)}


def _roofline(
    planned: Update, parts: dict[str, float], settings: Settings, *, flops: float, tokens: float
) -> dict[str, float]:
    """Bound the seconds of an update by operations, memory and links, and the share of the peak that this leaves."""
    target, data = targets.TARGETS[settings.device.target], settings.data
    microbatches = min(planned.microbatches, max(1, math.ceil(tokens / (data.micro_rows * data.row_tokens))))
    compute_s = flops / (settings.mesh.devices * target.peak_flops)
    # What is computed again in the backward pass is a third of what is asked for.
    bounds = {
        "compute_s": compute_s * (4 / 3 if settings.compute.remat == "block" else 1),
        "memory_s": microbatches * parts.get("moved_per_microbatch", 0) / target.memory_bandwidth,
        "link_s": microbatches * parts.get("sent_per_microbatch", 0) / target.link_bandwidth,
    }
    bound_s = max(bounds.values())
    return {**bounds, "microbatches_per_step": microbatches, "roofline_mfu": compute_s / bound_s if bound_s else 0.0}


def compile_update(planned: Update, settings: Settings) -> dict[str, typing.Any]:
    """Compile the update for devices that are not there and read what it takes.

    Args:
      planned: the update to compile.
      settings: those of the job; `device.target` names the device.

    Returns:
      Bytes of one device: arguments (state and batch), temporaries, and results that replace no argument. For a
      microbatch: bytes between a device and its memory, bytes that it sends and receives, in all and by kind, the
      largest activation that is sent, and how often each kernel runs ("kernels").

    Raises:
      UserError: if the target has no slice of that many devices, or its compiler refuses or tells no memory.
    """
    mesh = targets.absent_mesh(settings.device.target, settings.mesh)
    state, *frozen = _placed_weights(planned, settings.network, mesh=mesh)
    batch = cost_model.placed_batch(planned.per_token, settings.data, microbatches=planned.microbatches, mesh=mesh)
    compiled = lower_update(planned, state, batch, *frozen, mesh=mesh, model=settings.network).compile()
    text = compiled.as_text() or ""
    program = read_program(text)
    sent = program.sent_bytes()
    return {
        **targets.program_bytes(compiled, settings.device.target),
        "moved_per_microbatch": moved_bytes(text),
        "sent_per_microbatch": sum(sent.values()),
        **{f"sent_{kind.replace('-', '_')}_bytes": count for kind, count in sent.items()},
        "sent_activation_bytes": largest_activation(program, settings),
        "kernels": dict(program.kernels),
    }


def largest_activation(program: Program, settings: Settings) -> int:
    """Return the bytes of the largest array with an axis of tokens that one device sends, 0 where there is none.

    Weights are not meant: they have no axis as long as a row, or the part of it that one device holds.
    """
    tokens = {settings.data.row_tokens // parts for parts in (1, settings.mesh.sequence)}
    return max(
        (
            array_bytes(array)
            for message in program.collectives
            for array in message.arrays
            if tokens & set(array[1]) or tokens & {size + 1 for size in array[1]}
        ),
        default=0,
    )


def _placed_weights(planned: Update, model: Network, *, mesh: sharding.AnyMesh) -> tuple[typing.Any, ...]:
    """Describe the training state, and the frozen weights where there are any, on their places."""
    trained, *frozen = planned.weights(model)
    state = cost_model.placed_state(trained, planned.optimizer, mesh=mesh)
    return state, *(cost_model.placed_params(tree, mesh=mesh) for tree in frozen)


def trace_update(planned: Update, settings: Settings) -> dict[str, float]:
    """Trace the update on an abstract mesh and sum the bytes of one device, by part; needs no target's compiler.

    Raises:
      SettingsError: if the update cannot run on the mesh.
    """
    mesh = sharding.build_abstract_mesh(settings.mesh, micro_rows=settings.data.micro_rows)
    state, *frozen = _placed_weights(planned, settings.network, mesh=mesh)
    batch = cost_model.placed_batch(planned.per_token, settings.data, microbatches=planned.microbatches, mesh=mesh)
    lower_update(planned, state, batch, *frozen, mesh=mesh, model=settings.network)
    local = cost_model.local_model(settings.network, settings.mesh)
    temporary = cost_model.temporary_bytes(
        planned.loss(local), planned.weights(local), planned.per_token, settings=settings
    )
    params = cost_model.device_bytes(state.params)
    return {
        "parameter_bytes": params,
        **({"frozen_parameter_bytes": cost_model.device_bytes(frozen)} if frozen else {}),
        "moment_bytes": cost_model.device_bytes(state.optimizer),
        # The sum over microbatches; gradients of the one at hand are temporary.
        "gradient_bytes": params,
        "batch_bytes": cost_model.device_bytes(batch),
        "traced_temporary_bytes": temporary,
    }


def lower_update(
    planned: Update,
    state: trainer.TrainState,
    batch: packing.Packed,
    *frozen: decoder.Params,
    mesh: sharding.AnyMesh,
    model: Network,
) -> jax.stages.Lowered:
    """Lower the very update that a run compiles, from shapes on a mesh whose devices need not be there."""
    placed, *frozen_places = jax.tree.map(lambda leaf: leaf.sharding, (state, *frozen))
    compiled = trainer.compile_update(
        mesh, placed, *frozen_places, loss=planned.loss(model), optimizer=planned.optimizer
    )
    whole = sharding.replicated(mesh)
    used, normalizer = (jax.ShapeDtypeStruct((), kind, sharding=whole) for kind in (jnp.int32, jnp.float32))
    traced = compiled.trace(state, batch, used, normalizer, *frozen)
    # A concrete mesh of absent devices brings its own compiler's platform; an abstract mesh needs one, and any will do.
    return traced.lower() if isinstance(mesh, jax.sharding.Mesh) else traced.lower(lowering_platforms=("cuda",))


def _report(job: Job, plan: typing.Callable[[Settings], Update], *, start: str) -> None:
    if (job.workdir / workdir.POLICY_FILE).exists():
        raise UserError(f"--workdir = {str(job.workdir)!r}: expected a directory without a job for a dry run")
    settings = dataclasses.replace(job.settings, model=_model(job.settings, start))
    try:
        planned = plan(settings)
        parameters, found = update_costs(planned, settings)
    except ValueError as error:
        raise UserError(str(error)) from None
    report.print_parameters(parameters, settings)
    report.print_memory(found, settings)
    figures = {name: value for name, value in found.items() if not isinstance(value, dict)}
    workdir.write_summary(job.workdir, f"{planned.title}, dry run", figures, settings=settings)
    report.print_roofline(found, settings)
    report.require_room(found, settings)


def _model(settings: Settings, start: str) -> ModelSettings:
    """Return the shape of the policy that a job starts from if it is there already, else that of `model`."""
    if published.names_published_weights(start):
        return published.read_shape(start)
    is_there = start and (pathlib.Path(start) / workdir.POLICY_FILE).exists()
    return workdir.read_model(pathlib.Path(start)) if is_there else settings.model


def _check_names(settings: Settings) -> None:
    try:
        environment.build(**vars(settings.environment))
        environment.service_named(settings.noise.service)
    except ValueError as error:
        raise UserError(str(error)) from None
    known = [*rewards.COMPOSITIONS, *rewards.TIMED_COMPOSITIONS]
    if settings.reward.composition not in known and not names_function(settings.reward.composition):
        raise UserError(f"reward.composition = {settings.reward.composition!r}: expected one of {', '.join(known)}")
