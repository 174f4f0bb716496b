"""CWM 32B, `--config=configs/cwm32b.py:ROW`: a row of the paper, 32 nodes of 8 H100, 1.5 days.

It starts from its released SFT checkpoint, which belongs in `grpo.init_from`. `python -m configs cwm32b` lists the rows
with what the paper prints for each.
"""

import ml_collections

from configs import paper

MODEL = paper.PaperModel("cwm32b", "cwm-32b", tensor=8, learning_rate=1.4e-7, sft_tensor=None)
ROWS = paper.ROWS


def get_config(row: str = "standard_rlvr") -> ml_collections.ConfigDict:
    """Return a row of the paper for this model; see `paper.config_of`."""
    return paper.config_of(row, MODEL)
