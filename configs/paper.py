"""What the runs of the paper share: online, 10,000 steps of 16 rows of 32k tokens, asynchronous; SFT, one epoch.

Not a configuration by itself: `qwen7b`, `qwen32b` and `cwm32b` build on it. Numbers from sec. 5, "Experimental setup",
and App. F. Half of the devices of every node learn and half sample. A step is filled with groups of 16 rollouts that
carry a signal; at about 10,000 tokens a rollout that is three groups.
"""

import dataclasses

import ml_collections

from optimrl_jax import environment
from optimrl_jax.jobs.checked_fields import thaw
from optimrl_jax.jobs.config_files import default_config
from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.model.pretrained import shapes

DATASET = "data/dmc_optim"
SFT_ROW = "sft"
DEVICES_OF_A_NODE = 8
# What FILE:ROW can name, for every model.
ROWS = (SFT_ROW, *environment.PRESETS, *environment.ROW_ALIASES)
SFT_MIX = (("data/open_code_reasoning_2.parquet", 1.0), ("data/open_math_reasoning.parquet", 1.0))
ROW_TOKENS = 32_768
PROMPT_TOKENS = 4_096
DATA_PARALLEL = 16
SFT_DATA_PARALLEL = 32
# Prompts whose rollouts an actor samples in one go, slot after slot.
ITEM_PROBLEMS = 2


@dataclasses.dataclass(frozen=True)
class PaperModel:
    """What differs between the models of the paper.

    Attributes:
      name: what its workdirs are called.
      shape: key of `shapes.MODELS`.
      weights: directory of the published weights that it starts from: SFT, or RL where the SFT policy is published.
      nodes: of eight devices, online.
      actors: over all nodes, which share half of the devices.
      slots: rollouts that an actor samples side by side, as many as fit beside its weights.
      tensor: devices that heads and hidden features are split over, online.
      learning_rate: peak, online.
      sft_tensor: the same in SFT; None where the paper starts from a released SFT checkpoint.
    """

    name: str
    shape: str
    weights: str
    nodes: int
    actors: int
    slots: int
    tensor: int
    learning_rate: float
    sft_tensor: int | None


def config_of(row: str, model: PaperModel) -> ml_collections.ConfigDict:
    """Return the configuration of a row of the paper for one of its models.

    Args:
      row: a trained row, key of `environment.PRESETS` or one of its aliases, or `sft`.
      model: what differs between the models.

    Raises:
      SettingsError: for a row that the model does not have, naming the choices.
    """
    if row != SFT_ROW:
        return _online(environment.row_named(row), model)
    if model.sft_tensor is None:
        raise SettingsError(f"row = {row!r}: {model.name} starts from its released SFT checkpoint (grpo.init_from)")
    return _sft(model, tensor=model.sft_tensor)


def _online(row: str, model: PaperModel) -> ml_collections.ConfigDict:
    config = _common(model)
    preset = environment.preset(row)
    config.environment.update(preset.environment)
    config.reward.update(preset.reward)
    config.data.micro_rows = DATA_PARALLEL
    # Half of the devices learn, half sample: data parallelism 16 on the half that learns.
    config.mesh.fsdp, config.mesh.tensor = DATA_PARALLEL, model.tensor
    config.processes.count = model.nodes
    config.actors.count, config.actors.device_share = model.actors, 0.5
    config.actors.item_problems, config.data.slots = ITEM_PROBLEMS, model.slots
    config.grpo.init_from = f"runs/{model.name}_sft" if model.sft_tensor else model.weights
    config.grpo.steps, config.grpo.problems, config.grpo.rollouts = 10_000, 1, 16
    # A local batch of one row on each of 16 data-parallel ranks; groups without a signal are replaced.
    config.grpo.batch_tokens, config.grpo.ahead = DATA_PARALLEL * ROW_TOKENS, 1
    config.grpo.learning_rate = model.learning_rate
    config.grpo.checkpoint_every = 100
    config.grpo.update(preset.grpo)
    config.evaluation.policies = (("sft", config.grpo.init_from), (row, f"runs/{model.name}_{row}"))
    # About 10,000 tokens a rollout, so 480,000 a step.
    config.device.length_share = 10_000 / ROW_TOKENS
    return config


def _sft(model: PaperModel, *, tensor: int) -> ml_collections.ConfigDict:
    config = _common(model)
    config.data.micro_rows = 2 * SFT_DATA_PARALLEL
    config.mesh.fsdp, config.mesh.tensor = SFT_DATA_PARALLEL, tensor
    config.processes.count = SFT_DATA_PARALLEL * tensor // DEVICES_OF_A_NODE
    config.sft.init_from, config.sft.needs_weights, config.sft.epochs = model.weights, True, 1
    config.sft.steps, config.sft.warmup_steps, config.sft.learning_rate = 24_829, 1_000, 8.6e-6
    config.sft.checkpoint_every = 500
    config.sft.mix = SFT_MIX
    # 43.5 billion tokens over 24,829 steps; what packing leaves empty fills the rows up to 2,097,152 tokens.
    config.sft.batch_tokens = 1_752_000
    return config


def sandboxed(config: ml_collections.ConfigDict) -> None:
    """Make a configuration run programs in containers, in place.

    Programs of a published model are untrusted, also where a service gives up on one and this machine runs it.
    """
    config.sandbox.address = config.sandbox.fallback_backend = "docker"


def _common(model: PaperModel) -> ml_collections.ConfigDict:
    config = default_config()
    config.data.directory = DATASET
    sandboxed(config)
    config.data.prompt_tokens, config.data.completion_tokens = PROMPT_TOKENS, ROW_TOKENS - PROMPT_TOKENS
    config.data.row_tokens = ROW_TOKENS
    # Computed so that rows of 32,768 tokens fit: long rows and large vocabularies in parts.
    config.compute.dtype, config.compute.remat = "bfloat16", "block"
    config.compute.attention_block, config.compute.logits_chunk = 512, 1_024
    config.model = thaw(shapes.MODELS[model.shape])
    return config
