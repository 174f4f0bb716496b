"""`make quickstart`: 2 cores, about 10 minutes after installation; ranked p30 at least doubles pass@1 at p30."""

import ml_collections

from configs import base

ROOT = "runs/quickstart"


def get_config(run: str = ROOT) -> ml_collections.ConfigDict:
    """Dataset and SFT policy are shared by every quickstart variant; the GRPO policy lies in `run`."""
    config = base.get_config()
    config.data.directory = f"{ROOT}/dataset"
    config.grpo.init_from = f"{ROOT}/sft"
    config.evaluation.policies = (("sft", f"{ROOT}/sft"), ("grpo", f"{run}/grpo"))
    return config
