"""`train --config=configs/qwen7b.py:ROW`, Qwen2.5 7B: 8 nodes of 8 H100, 1 day; the row's pass@1 in the paper.

`sft --config=configs/qwen7b.py:sft` comes first: 16 nodes, from the published base weights in `weights/qwen2.5-7b`.
Each node runs one process; four of its devices learn, and each other one has an actor. `python -m configs qwen7b` lists
the rows with what the paper prints for each.
"""

import ml_collections

from configs import paper

MODEL = paper.PaperModel(
    "qwen7b",
    "qwen2.5-7b",
    weights="weights/qwen2.5-7b",
    nodes=8,
    actors=32,
    slots=16,
    tensor=2,
    learning_rate=1e-7,
    sft_tensor=4,
)
ROWS = paper.ROWS


def get_config(row: str = "standard_rlvr") -> ml_collections.ConfigDict:
    """Return a row of the paper, or SFT, for this model; see `paper.config_of`."""
    return paper.config_of(row, MODEL)
