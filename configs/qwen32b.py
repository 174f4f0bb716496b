"""Qwen2.5 32B, online: configs/paper.py with its shape, mesh and learning rate; 32 nodes of 8 H100, 1.5 days.

`--config=configs/qwen32b.py:ROW` takes any row of `environment.PRESETS`; half of the devices learn, half sample.
"""

import ml_collections

from configs import paper

FAMILY = "qwen2.5-32b"


def get_config(row: str = "standard_rlvr") -> ml_collections.ConfigDict:
    config = paper.get_config(row, model="qwen32b")
    config.model = paper.shape_of(FAMILY)
    # 128 of the devices learn: data parallelism 16 (L218).
    config.mesh.fsdp, config.mesh.tensor = paper.DATA_PARALLEL, 8
    config.grpo.learning_rate = 1.4e-7
    return config
