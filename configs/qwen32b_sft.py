"""Qwen2.5 32B, SFT: configs/paper_sft.py with its shape and mesh; 32 nodes of 8 H100."""

import ml_collections

from configs import paper, paper_sft, qwen32b


def get_config() -> ml_collections.ConfigDict:
    config = paper_sft.get_config()
    config.model = paper.shape_of(qwen32b.FAMILY)
    config.mesh.fsdp, config.mesh.tensor = paper_sft.DATA_PARALLEL, 8
    return config
