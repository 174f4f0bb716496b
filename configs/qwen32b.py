"""`train --config=configs/qwen32b.py:ROW`, Qwen2.5 32B: 32 nodes of 8 H100, 1.5 days; the row's pass@1 in the paper.

`sft --config=configs/qwen32b.py:sft` comes first: 32 nodes, from the published base weights in `weights/qwen2.5-32b`.
Each node runs one process; four of its devices learn, and the other four hold the policy of one actor. `python -m
configs qwen32b` lists the rows with what the paper prints for each.
"""

import ml_collections

from configs import paper

MODEL = paper.PaperModel(
    "qwen32b",
    "qwen2.5-32b",
    weights="weights/qwen2.5-32b",
    nodes=32,
    actors=32,
    slots=12,
    tensor=8,
    learning_rate=1.4e-7,
    sft_tensor=8,
)
ROWS = paper.ROWS


def get_config(row: str = "standard_rlvr") -> ml_collections.ConfigDict:
    """Return a row of the paper, or SFT, for this model; see `paper.config_of`."""
    return paper.config_of(row, MODEL)
