"""Qwen2.5 32B, `--config=configs/qwen32b.py:ROW`: a row of the paper, 32 nodes of 8 H100, 1.5 days, or `sft`.

`python -m configs qwen32b` lists the rows with what the paper prints for each.
"""

import ml_collections

from configs import paper

MODEL = paper.PaperModel("qwen32b", "qwen2.5-32b", tensor=8, learning_rate=1.4e-7, sft_tensor=8)
ROWS = paper.ROWS


def get_config(row: str = "standard_rlvr") -> ml_collections.ConfigDict:
    """Return a row of the paper, or SFT, for this model; see `paper.config_of`."""
    return paper.config_of(row, MODEL)
