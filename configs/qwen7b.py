"""Qwen2.5 7B, online: configs/paper.py with its shape, mesh and learning rate; 8 nodes of 8 H100, 1 day.

`--config=configs/qwen7b.py:ROW` takes any row of `environment.PRESETS`; half of the devices learn, half sample.
"""

import ml_collections

from configs import paper

MODEL = {
    "width": 3584,
    "layers": 28,
    "heads": 28,
    "kv_heads": 4,
    "head_width": 128,
    "mlp_width": 18_944,
    "vocabulary": 152_064,
    "rope_theta": 1_000_000.0,
    "has_tied_embeddings": False,
}


def get_config(row: str = "standard_rlvr") -> ml_collections.ConfigDict:
    config = paper.get_config(row, model="qwen7b")
    config.model.update(MODEL)
    # 32 of the devices learn: data parallelism 16 (L218).
    config.mesh.fsdp, config.mesh.tensor = paper.DATA_PARALLEL, 2
    config.grpo.learning_rate = 1e-7
    return config
