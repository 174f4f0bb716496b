"""`train --config=configs/cwm32b.py:ROW`, CWM 32B: 32 nodes of 8 H100, 1.5 days; the row's pass@1 in the paper.

It starts from its released SFT checkpoint in `weights/cwm-sft`. Each node runs one process; four of its devices learn,
and the other four hold the policy of one actor. `python -m configs cwm32b` lists the rows with the paper's figures.
"""

import ml_collections

from configs import paper

MODEL = paper.PaperModel(
    "cwm32b",
    "cwm-32b",
    weights="weights/cwm-sft",
    nodes=32,
    actors=32,
    slots=12,
    tensor=8,
    learning_rate=1.4e-7,
    sft_tensor=None,
)
ROWS = paper.ROWS


def get_config(row: str = "standard_rlvr") -> ml_collections.ConfigDict:
    """Return a row of the paper for this model; see `paper.config_of`."""
    return paper.config_of(row, MODEL)
