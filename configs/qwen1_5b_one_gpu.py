"""`train --config=configs/qwen1_5b_one_gpu.py:ROW`, Qwen2.5-Coder 1.5B: one 80 GB GPU; faster programs than at step 0.

The recipe of the paper with a small model whose learner and sampler take turns on one device, rows of 32,768 tokens
included. The published weights are in `weights/qwen2.5-coder-1.5b-instruct`. The paper has no figures for this size.
"""

import ml_collections

from configs import paper

MODEL = paper.PaperModel(
    "qwen1_5b",
    "qwen2.5-1.5b",
    weights="weights/qwen2.5-coder-1.5b-instruct",
    nodes=1,
    actors=0,
    slots=24,
    tensor=1,
    learning_rate=1e-6,
    sft_tensor=None,
)
ROWS = tuple(row for row in paper.ROWS if row != paper.SFT_ROW)


def get_config(row: str = "per_test_top_30") -> ml_collections.ConfigDict:
    """Return a row of the paper for one device.

    Args:
      row: a trained row, key of `environment.PRESETS` or one of its aliases.
    """
    config = paper.config_of(row, MODEL)
    config.mesh.fsdp = config.data.micro_rows = 1
    # By turns a batch is sampled as a whole, before the learner takes of it what fills its steps.
    config.grpo.problems, config.grpo.ahead = 4, 0
    config.evaluation.policies = ()
    return config
