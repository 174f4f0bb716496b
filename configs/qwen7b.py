"""Qwen2.5 7B, `--config=configs/qwen7b.py:ROW`: a row of the paper, 8 nodes of 8 H100, 1 day, or `sft`, 16 nodes.

`python -m configs qwen7b` lists the rows with what the paper prints for each.
"""

import ml_collections

from configs import paper

MODEL = paper.PaperModel("qwen7b", "qwen2.5-7b", tensor=2, learning_rate=1e-7, sft_tensor=4)
ROWS = paper.ROWS


def get_config(row: str = "standard_rlvr") -> ml_collections.ConfigDict:
    """Return a row of the paper, or SFT, for this model; see `paper.config_of`."""
    return paper.config_of(row, MODEL)
