"""`train --config=configs/qwen7b_lora.py:ROW`, Qwen2.5-Coder 7B: one 80 GB H100; faster programs than at step 0.

Adapters beside frozen weights: `--config.grpo.init_from=DIRECTORY` names the published weights. The context is shorter
than the paper's, so that one device samples and learns in turns; `--dry_run` says how much of its memory that takes.
"""

import ml_collections

from configs import paper, qwen7b

PROMPT_TOKENS = 2_048
ROW_TOKENS = 8_192
ROWS = paper.ROWS


def get_config(row: str = "per_test_top_30") -> ml_collections.ConfigDict:
    """Return a row of the paper with adapters of rank 32 on all matrices, beside weights in bfloat16.

    Args:
      row: a trained row, key of `environment.PRESETS` or one of its aliases, or `sft`.
    """
    config = paper.config_of(row, qwen7b.MODEL)
    config.lora.rank, config.lora.alpha = 32, 64.0
    config.mesh.data = config.mesh.fsdp = config.mesh.tensor = 1
    config.processes.count, config.actors.count = 1, 0
    config.grpo.problems, config.grpo.ahead = 3, 0
    config.grpo.batch_tokens = 16 * ROW_TOKENS
    config.data.micro_rows = 1
    config.data.prompt_tokens, config.data.completion_tokens = PROMPT_TOKENS, ROW_TOKENS - PROMPT_TOKENS
    config.data.row_tokens = ROW_TOKENS
    config.data.slots = 16
    config.sft.init_from = config.grpo.init_from = "weights/qwen2.5-coder-7b-instruct"
    config.sft.batch_tokens = 16 * ROW_TOKENS
    config.sft.steps, config.sft.warmup_steps = 2_000, 100
    config.sft.learning_rate, config.grpo.learning_rate = 1e-4, 1e-5
    config.evaluation.policies = ()
    config.device.length_share = 0.5
    return config
