"""Qwen2.5 32B, online: configs/paper.py with its shape, mesh and learning rate; 32 nodes of 8 H100, 1.5 days.

`--config=configs/qwen32b.py:ROW` takes any row of `environment.PRESETS`; half of the devices learn, half sample.
"""

import ml_collections

from configs import paper

MODEL = {
    "width": 5120,
    "layers": 64,
    "heads": 40,
    "kv_heads": 8,
    "head_width": 128,
    "mlp_width": 27_648,
    "vocabulary": 152_064,
    "rope_theta": 1_000_000.0,
    "norm_epsilon": 1e-5,
    "has_tied_embeddings": False,
}


def get_config(row: str = "standard_rlvr") -> ml_collections.ConfigDict:
    config = paper.get_config(row, model="qwen32b")
    config.model.update(MODEL)
    # 128 of the devices learn: data parallelism 16 (L218).
    config.mesh.fsdp, config.mesh.tensor = paper.DATA_PARALLEL, 8
    config.grpo.learning_rate = 1.4e-7
    return config
