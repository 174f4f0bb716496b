"""`train --config=configs/qwen7b_node.py:ROW`, Qwen2.5 7B: one node of 8 x 80 GB, 8 days; the row's pass@1.

The recipe of the paper on an eighth of its devices: four learn, each other one samples, rows of 32,768 tokens. It
starts from the policy of an SFT job in `runs/qwen7b_sft`; `grpo.init_from` may name published weights instead.
"""

import ml_collections

from configs import paper, qwen7b

LEARNERS = 4
ROWS = tuple(row for row in paper.ROWS if row != paper.SFT_ROW)


def get_config(row: str = "per_test_top_30") -> ml_collections.ConfigDict:
    """Return a row of the paper for one node.

    Args:
      row: a trained row, key of `environment.PRESETS` or one of its aliases.
    """
    config = paper.config_of(row, qwen7b.MODEL)
    config.processes.count = 1
    config.mesh.fsdp, config.mesh.tensor = LEARNERS, 1
    config.data.micro_rows = LEARNERS
    config.actors.count = paper.DEVICES_OF_A_NODE - LEARNERS
    return config
