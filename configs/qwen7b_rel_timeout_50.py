"""Qwen2.5 7B, timeout for each test at p50, 5k steps: in the paper pass@1 35.5, 21.5, 12.6, 4.4 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    config = qwen7b.get_config("rel_timeout_50")
    config.grpo.steps = 5_000
    return config
