"""CWM 32B, online: configs/paper.py with its shape, mesh and learning rate; 32 nodes of 8 H100, 1.5 days.

`--config=configs/cwm32b.py:ROW` takes any row of `environment.PRESETS`; half of the devices learn, half sample.
"""

import ml_collections

from configs import paper

MODEL = {
    "width": 6144,
    "layers": 64,
    "heads": 48,
    "kv_heads": 8,
    "head_width": 128,
    "mlp_width": 21_504,
    "vocabulary": 128_256,
    "rope_theta": 1_000_000.0,
    "norm_epsilon": 1e-5,
    "has_tied_embeddings": False,
    "has_qkv_bias": False,
}


def get_config(row: str = "standard_rlvr") -> ml_collections.ConfigDict:
    config = paper.get_config(row, model="cwm32b")
    config.model.update(MODEL)
    # Its released SFT checkpoint is the start (L201): it belongs in `grpo.init_from`.
    # 128 of the devices learn: data parallelism 16 (L218).
    config.mesh.fsdp, config.mesh.tensor = paper.DATA_PARALLEL, 8
    config.grpo.learning_rate = 1.4e-7
    return config
