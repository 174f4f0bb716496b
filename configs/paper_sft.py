"""What both SFT runs of the paper share (L212-215): one epoch of a reasoning mix, 2,097,152 packed tokens a step.

A run is `python -m optimrl_jax.sft --config=configs/RUN.py --workdir=runs/RUN`; `--dry_run` shows what it takes.
"""

import ml_collections

from configs import base, paper

DATA_PARALLEL = 32
MIX = (("data/open_code_reasoning_2.parquet", 1.0), ("data/open_math_reasoning.parquet", 1.0))


def get_config() -> ml_collections.ConfigDict:
    config = base.get_config()
    config.data.directory = paper.DATASET
    config.data.prompt_tokens, config.data.completion_tokens = 4_096, paper.ROW_TOKENS - 4_096
    config.data.row_tokens, config.data.micro_rows = paper.ROW_TOKENS, 2 * DATA_PARALLEL
    config.sft.steps, config.sft.warmup_steps, config.sft.learning_rate = 24_829, 1_000, 8.6e-6
    config.sft.checkpoint_every = 500
    config.sft.mix = MIX
    # 43.5 billion tokens over 24,829 steps; what packing leaves empty fills the rows up to 2,097,152.
    config.sft.batch_tokens = 1_752_000
    return config
