"""What all online runs of the paper share (L210-221, L285-316): 10,000 steps of 3 problems x 16 rollouts, 32k horizon.

A run is `python -m optimrl_jax.train --config=configs/RUN.py --workdir=runs/RUN`; `--dry_run` shows what it takes.
"""

import dataclasses

import ml_collections

from configs import base
from optimrl_jax import environment
from optimrl_jax.jobs.checked_fields import thaw
from optimrl_jax.model import families

DATASET = "data/dmc_optim"
ROW_TOKENS = 32_768
DATA_PARALLEL = 16


def get_config(row: str = "standard_rlvr", *, model: str = "base") -> ml_collections.ConfigDict:
    """The trained row of that name in `environment.PRESETS`, from the SFT policy of `model`."""
    config = base.get_config()
    preset = environment.preset(row)
    config.environment.update(preset.environment)
    config.reward.update(preset.reward)
    config.data.directory = DATASET
    config.data.prompt_tokens, config.data.completion_tokens = 4_096, ROW_TOKENS - 4_096
    config.data.row_tokens, config.data.micro_rows = ROW_TOKENS, DATA_PARALLEL
    config.grpo.init_from = f"runs/{model}_sft"
    config.grpo.steps, config.grpo.problems, config.grpo.rollouts = 10_000, 3, 16
    config.grpo.checkpoint_every = 100
    config.evaluation.policies = (("sft", config.grpo.init_from), (row, f"runs/{model}_{row}"))
    # About 10,000 tokens a rollout, so 480,000 a step (L219).
    config.device.length_share = 10_000 / ROW_TOKENS
    return config


def shape_of(family: str) -> dict:
    """A published model, computed so that rows of 32,768 tokens fit: long rows and large vocabularies in parts."""
    fields = {"compute_dtype": "bfloat16", "remat": "block", "attention_block": 512, "logits_chunk": 1_024}
    return thaw(dataclasses.replace(families.MODELS[family], **fields))
