"""Qwen2.5 7B, timeout for each test at p80, 5k steps: in the paper pass@1 35.1, 21.4, 12.2, 4.7 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    config = qwen7b.get_config("rel_timeout_80")
    config.grpo.steps = 5_000
    return config
