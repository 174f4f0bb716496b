"""Qwen2.5 7B, SFT: configs/paper_sft.py with its shape and mesh; 16 nodes of 8 H100."""

import ml_collections

from configs import paper, paper_sft, qwen7b


def get_config() -> ml_collections.ConfigDict:
    config = paper_sft.get_config()
    config.model = paper.shape_of(qwen7b.FAMILY)
    config.mesh.fsdp, config.mesh.tensor = paper_sft.DATA_PARALLEL, 4
    return config
