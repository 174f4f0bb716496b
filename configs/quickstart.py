"""`make quickstart`: 2 cores, about 10 minutes after installation; ranked p30 at least doubles pass@1 at p30."""

import ml_collections

from configs import base

ROOT = "runs/quickstart"


def get_config(run: str = ROOT) -> ml_collections.ConfigDict:
    """Dataset and SFT policy are shared by every quickstart variant; the GRPO policy lies in `run`."""
    config = base.get_config()
    config.data.directory = f"{ROOT}/dataset"
    # The corpus's slowest programs take 30 ms; a program that never ends should not hold a core for 10 s.
    config.sandbox.limit_s = 0.5
    # Few enough steps that the policy is still mediocre: it solves most problems, at any of the three speeds.
    config.sft.steps = 320
    config.grpo.steps = 80
    config.grpo.problems = 8
    config.grpo.init_from = f"{ROOT}/sft"
    config.evaluation.policies = (("sft", f"{ROOT}/sft"), ("grpo", f"{run}/grpo"))
    return config
